package store

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// maxSearched is how much of a name is searched, in bytes.
const maxSearched = 64

// Searched is a name as it is searched and ordered: in small letters, without spaces at its
// ends, and no longer than what is searched. It has no byte 0.
func Searched(name string) string {
	s := strings.ReplaceAll(strings.ToLower(norm.NFKC.String(strings.TrimSpace(name))), "\x00", "")
	return s[:min(len(s), maxSearched)]
}
