package regular

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, bytes := range map[string]int{"file": 5, "largest": maxBytes, "larger": maxBytes + 1} {
		if err := os.WriteFile(at(name), make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("file", at("link")); err != nil { // as the secrets of Kubernetes are
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		bytes int
		want  string // in the error; "": there is none
	}{
		{at("file"), 5, ""}, {at("link"), 5, ""}, {at("largest"), maxBytes, ""},
		{at("larger"), 0, "more than 4 MiB"}, {at("fifo"), 0, "no regular file"}, {dir, 0, "no regular file"}, {"/dev/zero", 0, "no regular file"}, {at("none"), 0, "no such file"},
	} {
		b, err := Read(c.name)
		switch {
		case c.want == "" && (err != nil || len(b) != c.bytes):
			t.Errorf("%s: %d bytes, %v, want %d", c.name, len(b), err, c.bytes)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name)):
			t.Errorf("%s: %v, want %s and the name", c.name, err, c.want)
		}
	}
}
