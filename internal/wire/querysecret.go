package wire

import (
	"net/url"
	"slices"
	"strings"
)

// secretPrefixes are the prefixes of access tokens, refresh tokens and admin keys.
var secretPrefixes = []string{"pt_", "pr_", "pk_"}

// secretNames are names of query parameters whose value is always a secret.
var secretNames = []string{"token", "access_token", "refresh_token"}

// SecretInQuery reports whether the query of a URL seems to contain a token or a
// key. URLs end up in the logs of proxies, so such a request is refused. A query
// that cannot be parsed is searched as plain text. Spec: P-3.3, P-12.2.
func SecretInQuery(query string) bool {
	if query == "" {
		return false
	}
	q, err := url.ParseQuery(query)
	if err != nil && (strings.Contains(query, "token") || slices.ContainsFunc(secretPrefixes,
		func(p string) bool { return strings.Contains(query, p) })) {
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
