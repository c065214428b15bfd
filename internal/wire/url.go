package wire

import (
	"net/url"
	"slices"
	"strings"
)

// secretPrefixes begin access tokens, refresh tokens and admin keys.
var secretPrefixes = []string{"pt_", "pr_", "pk_"}

// secretNames are parameters that carry a token whatever it looks like.
var secretNames = []string{"token", "access_token", "refresh_token"}

// SecretInQuery reports whether the query of a URL carries what can be a token
// or key. One that does not parse is searched as it is. Spec: P-3.3, P-12.2.
func SecretInQuery(query string) bool {
	if query == "" {
		return false
	}
	q, err := url.ParseQuery(query)
	if err != nil && (strings.Contains(query, "token") || slices.ContainsFunc(secretPrefixes, func(p string) bool { return strings.Contains(query, p) })) {
		return true
	}
	for name, values := range q {
		if slices.Contains(secretNames, name) {
			return true
		}
		for _, v := range values {
			if slices.ContainsFunc(secretPrefixes, func(p string) bool { return strings.HasPrefix(v, p) }) {
				return true
			}
		}
	}
	return false
}
