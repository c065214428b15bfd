package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A reader of the data folder reads every message.
func TestOpenDataFolderIsClosed(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	s.redeem(s.SetupLink())
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "tool.sh") // of somebody who keeps more in the folder
	outside := filepath.Join(t.TempDir(), "outside")
	for name, mode := range map[string]os.FileMode{theirs: 0o755, outside: 0o644, filepath.Join(dir, "admin.key"): 0o644} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{dir: 0o755, filepath.Join(dir, "store"): 0o755, filepath.Join(dir, "witness"): 0o644} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "store", "link")); err != nil {
		t.Fatal(err)
	}
	var logged output
	if err := closeFolder(dir, slog.New(slog.NewTextHandler(&logged, nil))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		dir: 0o700, filepath.Join(dir, "store"): 0o700, filepath.Join(dir, "witness"): 0o600, filepath.Join(dir, "admin.key"): 0o600, theirs: 0o755, outside: 0o644,
	} {
		if i, err := os.Stat(name); err != nil || i.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %o", name, i.Mode(), err, want)
		}
	}
	tables, err := os.ReadDir(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range tables {
		if i, err := e.Info(); err == nil && i.Mode().IsRegular() && i.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", e.Name(), i.Mode())
		}
	}
	if text := logged.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "closed now") {
		t.Errorf("the log: %s", text)
	}
	logged = output{}
	if err := closeFolder(dir, slog.New(slog.NewTextHandler(&logged, nil))); err != nil || logged.String() != "" {
		t.Errorf("a closed one: %v, log %s", err, logged.String())
	}
	shared := t.TempDir() // like /tmp
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := closeFolder(shared, slog.New(slog.NewTextHandler(&logged, nil))); err != nil || !strings.Contains(logged.String(), "may not change its mode") {
		t.Errorf("a folder of all users: %v, log %s", err, logged.String())
	}
	if i, err := os.Stat(shared); err != nil || i.Mode().Perm() != 0o777 {
		t.Errorf("a folder of all users: %v %v", i.Mode(), err)
	}
}

// A user who may write to the folder of the data cannot plant a file or a link there that
// gives them a secret.
func TestSecretsAreNotWrittenIntoFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	theirs, link := filepath.Join(dir, "theirs"), filepath.Join(dir, setupFile)
	if err := errors.Join(os.WriteFile(theirs, nil, 0o644), os.Symlink(theirs, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{theirs, link} {
		if err := newFile(path, "a secret"); !errors.Is(err, os.ErrExist) {
			t.Errorf("write %s: %v, want that it exists", path, err)
		}
	}
	if b, err := os.ReadFile(theirs); err != nil || len(b) > 0 {
		t.Errorf("the file of others has %q, %v", b, err)
	}
}
