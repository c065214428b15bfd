package pebblestore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The manifest says which tables are in use, and how new each is; nothing else does.
// So guard writes a copy of it, and Repair takes the copy when
// the manifest is damaged. The inventory has the hash of both.

// copyName is the name of the copy of a manifest, beside it. Pebble knows no such
// name.
func copyName(number uint64) string { return fmt.Sprintf("copy-%06d.manifest", number) }

// copyPath is where the copy of a manifest of the database in dir is.
func copyPath(fs vfs.FS, dir string, number uint64) string {
	return fs.PathJoin(dir, copyName(number))
}

// restoreManifest puts the copy in the place of a manifest that is damaged. It tells
// whether the manifest is whole now.
func (p place) restoreManifest(m manifest) (whole bool, err error) {
	name := manifestFile(m.Number)
	to := p.fs.PathJoin(p.db, name)
	if missing, err := m.check(p.fs, to, name); missing == "" || err != nil {
		return err == nil, err
	}
	from := copyPath(p.fs, p.db, m.Number)
	if missing, err := m.check(p.fs, from, name); missing != "" || err != nil {
		return false, err
	}
	fresh := p.fs.PathJoin(p.dir, "manifest.new")
	if err := vfs.LimitedCopy(p.fs, from, fresh, int64(m.Length)); err != nil {
		return false, err
	}
	return true, p.replace(fresh, name)
}
