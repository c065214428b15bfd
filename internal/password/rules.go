package password

import (
	_ "embed" // commonest
	"slices"
	"strings"
	"unicode"

	"github.com/petrel-im/petrel/internal/im"
)

// Passwords have minPassword to maxPassword bytes.
const (
	minPassword = 8
	maxPassword = 1024
)

// Check returns an error if a user may not choose a password. Codes: weak_password; others are failures of the
// file of stolen passwords. Spec: P-11.1.
func (p *Passwords) Check(u im.User, password string) error {
	if len(password) < minPassword || len(password) > maxPassword {
		return im.Errorf(im.CodeWeakPassword, "a password has %d to %d bytes", minPassword, maxPassword)
	}
	if p.isCommon(u, password) {
		return im.Errorf(im.CodeWeakPassword,
			"this password is one of the first that somebody would try; choose another one")
	}
	if p.stolen == "" {
		return nil
	}
	stolen, err := isStolen(p.stolen, password)
	if err == nil && stolen {
		return im.Errorf(im.CodeWeakPassword,
			"this password was stolen elsewhere and is in public lists; choose another one")
	}
	return err
}

// isCommon reports whether a password is among the first that somebody would try for a user.
func (p *Passwords) isCommon(u im.User, password string) bool {
	lower := strings.ToLower(password)
	// word is the password without the digits and signs around it. p.words has reserved names, such as that of
	// the product.
	word := strings.TrimFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) })
	return lower == strings.ToLower(string(u)) || slices.Contains(p.words, word) ||
		!strings.Contains(lower, "\n") && strings.Contains(commonest, "\n"+lower+"\n")
}

// commonest has the most frequent passwords in lists of stolen ones, of at least minPassword bytes, in lower
// case, one a line: the first 4,000 of those in zxcvbn (MIT License, Copyright Dropbox), and some that are common
// in China or with servers.
//
//go:embed commonest.txt
var commonest string
