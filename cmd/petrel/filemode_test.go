package main

import (
	"io/fs"
	"path/filepath"
	"testing"
)

// Files of the store, and of its backups, are for the user of the server only.
func TestFilesAreForTheUserOfTheServerOnly(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-f", "bob-f").want(t, exitOK)
	petrel(t, s.env(), "send", "--as", "alice-f", "--to", "bob-f", "hi").want(t, exitOK)
	backups := filepath.Join(t.TempDir(), "backups")
	petrel(t, s.env(), "backup", "--to", backups).want(t, exitOK)
	seen := 0
	for _, dir := range []string{s.data, backups} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // the store has removed it meanwhile
			}
			if i, err := d.Info(); err == nil && i.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has the mode %v", path, i.Mode())
			}
			seen++
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if seen < 15 {
		t.Errorf("%d files were looked at", seen)
	}
}
