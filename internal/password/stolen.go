package password

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/petrel-im/petrel/internal/regular"
)

// hashDigits is the length of a hash in a file of stolen passwords: SHA-1 in hexadecimal digits, as the public
// lists have it. No secret depends on this hash.
const hashDigits = 2 * sha1.Size

// maxHashLine is the longest line of such a file in bytes: a hash, a colon, a number.
const maxHashLine = 80

// isStolen reports whether a password is in a file of stolen ones. Each line of the file has the hash of a
// password in capital digits, a colon, and how often it was stolen, which is not used. The lines are in the order
// of the hashes, as Have I Been Pwned gives them out, so a file of 40 GB is read at about 40 places. The file may
// be replaced at any time.
func isStolen(file, password string) (bool, error) {
	f, err := regular.Open(file)
	if err != nil {
		return false, fmt.Errorf("read accounts.stolen_passwords_file: %w", err)
	}
	defer func() { _ = f.Close() }() // read-only
	i, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("read accounts.stolen_passwords_file: %w", err)
	}
	sum := sha1.Sum([]byte(password))
	want := strings.ToUpper(hex.EncodeToString(sum[:]))
	// The line of the hash, if there is one, begins at low or later and before high.
	for low, high := int64(0), i.Size(); low < high; {
		begin, line, err := lineFrom(f, low, (low+high)/2)
		switch {
		case errors.Is(err, io.EOF) || err == nil && begin >= high:
			high = (low + high) / 2
		case err != nil:
			return false, fmt.Errorf("read accounts.stolen_passwords_file: %w", err)
		case line[:hashDigits] == want:
			return true, nil
		case line[:hashDigits] < want:
			low = begin + int64(len(line)) + 1
		default:
			high = (low + high) / 2
		}
	}
	return false, nil
}

// lineFrom returns the first line that does not begin before the offset at, and the offset where it begins. low is
// the offset of the beginning of a line. Errors: io.EOF if there is no such line.
func lineFrom(f io.ReaderAt, low, at int64) (begin int64, line string, err error) {
	var buf [2 * maxHashLine]byte
	from := max(low, at-1) // a line break may stand just before at
	n, err := f.ReadAt(buf[:], from)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, "", err
	}
	b := buf[:n]
	if at > low {
		_, after, ok := bytes.Cut(b, []byte{'\n'})
		if !ok && n == len(buf) {
			return 0, "", errNoHashes
		} else if !ok {
			return 0, "", io.EOF
		}
		from += int64(len(b) - len(after))
		b = after
	}
	if len(b) == 0 {
		return 0, "", io.EOF
	}
	text, _, ok := bytes.Cut(b, []byte{'\n'})
	if !ok && len(b) > maxHashLine || len(text) < hashDigits || bytes.IndexFunc(text[:hashDigits], noHashDigit) >= 0 {
		return 0, "", errNoHashes
	}
	return from, string(text), nil
}

func noHashDigit(r rune) bool { return !('0' <= r && r <= '9' || 'A' <= r && r <= 'F') }

var errNoHashes = errors.New("a line does not begin with a SHA-1 in capital hexadecimal digits")

// checkStolen returns an error if the file is not one of stolen passwords. It is called at the start.
func checkStolen(file string) error {
	if file == "" {
		return nil
	}
	_, err := isStolen(file, "")
	return err
}
