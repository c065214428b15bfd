package user

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// reserved are names that people take for the operator, in small letters. Neither they nor
// names that read as one of them can be registered. The operator makes users of any name.
var reserved = []string{
	"abuse", "admin", "administrator", "all", "anonymous", "bot", "channel", "everyone", "help", "helpdesk", "here",
	"hostmaster", "me", "mod",
	"moderator", "noreply", "nobody", "no-reply", "null", "official", "operator", "owner", "petrel", "postmaster",
	"root", "security", "server",
	"service", "staff", "support", "sysadmin", "system", "undefined", "webmaster",
}

// official are the reserved names that are also forbidden as display names. The others are names of
// people, like Mod, or harmless.
var official = []string{
	"admin", "administrator", "moderator", "official", "operator", "petrel", "root", "security", "staff", "support",
	"sysadmin", "system",
}

// asLetters maps characters of user ids that look alike, by Unicode's table of confusable
// characters (TR39).
var asLetters = strings.NewReplacer("0", "O", "1", "l", "I", "l", "m", "rn")

// looks returns the forms of a user id: two ids with a common form look the same. One form is the
// id in small letters, so that Alice is alice; the other one first maps characters that look alike,
// so that A1ice and AIice are alice.
func looks(u im.User) []string {
	small, alike := strings.ToLower(string(u)), strings.ToLower(asLetters.Replace(string(u)))
	if small == alike {
		return []string{small}
	}
	return []string{small, alike}
}

// guess returns the form that tenants with strict ids also compare. It is how an id reads: al1ce and
// _alice_ are alice, 4nna is anna. It begins with ~, which is in no user id and in no other form.
func guess(u im.User) string { return "~" + asRead(cmp.Or(strings.Trim(string(u), signs), string(u))) }

// signs are the characters of user ids that are neither letters nor digits.
const signs = "._@+-"

// asDigits replaces characters that look alike, and digits and w, which
// people read as letters in a word that they know.
var asDigits = strings.NewReplacer("0", "o", "1", "l", "I", "l", "3", "e", "4", "a", "5", "s", "m", "rn", "M", "rn",
	"w", "vv", "W", "vv")

// minGuessed is the least length of a word in which i and l count as the
// same. So ali, which is a name of people, is not the word all.
const minGuessed = 4

// readsAs tells whether people read a name as a word, as adrnin and 4dm1n are read as admin.
func readsAs(name, word string) bool { return asRead(name) == asRead(word) }

// asRead returns a word with one form for characters that people read as the same.
func asRead(word string) string {
	word = strings.ToLower(asDigits.Replace(word))
	if len(word) < minGuessed {
		return word
	}
	return strings.ReplaceAll(word, "i", "l")
}

// readsAsOneOf is readsAs for several words, also with digits and signs around a word, as in
// _admin1.
func readsAsOneOf(name string, words []string) bool {
	const around = signs + "0123456789"
	left := strings.TrimLeft(name, around)
	for _, n := range []string{name, left, strings.TrimRight(name, around), strings.TrimRight(left, around)} {
		if slices.ContainsFunc(words, func(w string) bool { return readsAs(n, w) }) {
			return true
		}
	}
	return false
}

// smallCapitals replaces small letters that look like capitals. Unicode
// takes them for letters of their own: ᴀᴅᴍɪɴ is confusable with nothing.
var smallCapitals = strings.NewReplacer("ᴀ", "a", "ʙ", "b", "ᴅ", "d", "ᴇ", "e", "ꜰ", "f", "ɢ", "g", "ʜ", "h", "ᴊ", "j",
	"ĸ", "k", "ʟ", "l", "ʍ", "m", "ɴ", "n",
	"ᴘ", "p", "ʀ", "r", "ᴛ", "t")

// enclosed has the first letter of each alphabet of 26 capital letters that are white on black or
// part of a flag.
var enclosed = []rune{'🅐', '🅰', '🇦'}

// asShown returns a display name as people read it: each character as the letter or digit that it
// looks like, of any script, without marks, spaces and other characters.
func asShown(displayName string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(displayName) { // a wide or bold letter is that letter
		for _, first := range enclosed {
			if first <= r && r < first+26 {
				r += 'a' - first
			}
		}
		if alike := confusable.GetReplacement(r); r >= utf8.RuneSelf && alike != "" {
			b.WriteString(alike)
		} else {
			b.WriteRune(r) // readsAs knows those of ASCII that look alike
		}
	}
	shown := cases.Fold().String(smallCapitals.Replace(b.String()))
	return strings.Join(strings.FieldsFunc(shown,
		func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') }), "")
}

// checkName refuses names that people would take for the operator. Codes: invalid.
func checkName(u im.User, displayName string) error {
	if err := checkShown(displayName); err != nil {
		return err
	}
	if readsAsOneOf(string(u), reserved) {
		return im.Errorf(im.CodeInvalid, "the name %.64s is reserved", u)
	}
	return nil
}

// checkShown is checkName for a display name.
func checkShown(displayName string) error {
	if shown := asShown(displayName); readsAsOneOf(shown, official) {
		return im.Errorf(im.CodeInvalid, "the name %.64s is reserved", shown)
	}
	return nil
}

// claim stores the forms of a new user id. With alone it refuses an id that looks like another one, and with
// strict also an id that reads as another one. Codes: user_exists. Without alone it reads nothing, since
// back ends create a thousand users at once; a form that several ids share then names only one of them.
func (c *change) claim(ctx context.Context, a im.Account, alone, strict bool) error {
	guessed := guess(a.User)
	for _, form := range append(looks(a.User), guessed) {
		if !alone {
			if !c.claimed[form] {
				c.claimed[form] = true
				c.Put(store.Names, a.Tenant, []byte(form), []byte(a.User))
			}
			continue
		}
		value, err := c.Record(ctx, store.Names, a.Tenant, []byte(form))
		if err != nil {
			return err
		}
		switch {
		case value == nil:
			c.Put(store.Names, a.Tenant, []byte(form), []byte(a.User))
		case im.User(value) != a.User && (strict || form != guessed):
			return taken(a.User)
		}
	}
	return nil
}

func taken(u im.User) error { return im.Errorf(im.CodeUserExists, "the user id %s is taken", u) }
