package password

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
)

// Passwords in the operator's file of stolen ones are refused, wherever in it they stand.
// Spec: P-11.1.
func TestStolenPasswordsAreRefused(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		for _, n := range []int{0, 1, 2, 3, 100} {
			var lines []string
			for i := range n {
				lines = append(lines, fmt.Sprintf("%X:%d%s", sha1.Sum(fmt.Append(nil, "long enough ", i)), 1<<(i%30), end))
			}
			slices.Sort(lines)
			for _, text := range []string{strings.Join(lines, ""), strings.TrimSuffix(strings.Join(lines, ""), end)} {
				passwords := &Passwords{stolen: filepath.Join(t.TempDir(), "stolen")}
				if err := os.WriteFile(passwords.stolen, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				for i := range 2*n + 2 {
					p := fmt.Sprint("long enough ", i)
					if err := passwords.Check("alice", p); (im.CodeOf(err) == im.CodeWeakPassword) != (i < n) || err != nil && i >= n {
						t.Errorf("%d lines that end with %q: %q: %v", n, end, p, err)
					}
				}
			}
		}
	}
}

// A file that is no list of stolen passwords is refused at the start.
func TestFileThatHasNoStolenPasswordsIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "stolen")
	if err := checkStolen(name); err == nil {
		t.Error("a file that is not there is taken")
	}
	hash := fmt.Sprintf("%X", sha1.Sum([]byte("one")))
	for _, text := range []string{"password\n", strings.ToLower(hash), strings.Repeat("x", 1000), hash + "\n" + hash[:39] + "\n", strings.Repeat("\n", 100)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkStolen(name); err == nil {
			t.Errorf("%.60q is taken", text)
		}
	}
}
