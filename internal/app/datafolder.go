package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// ourFiles are Petrel's files and folders in the data folder. All other files there belong to somebody else.
var ourFiles = []string{"store", "store.new", "witness", "ballast", "lock", "pid", "rewound", "admin.key", setupFile,
	addressesFile, nodeFile, "tokens"}

// isAlone fails if another running server uses the data folder, whose addresses and
// setup link would be replaced. It is for store.postgres: the embedded store has a
// lock of its own. It warns of an embedded store in the folder, which is not used.
func (a *App) isAlone() error {
	dir := a.cfg.Store.Dir
	if f, err := os.Open(filepath.Join(dir, addressesFile)); err == nil {
		defer func() { _ = f.Close() }() // read-only
		if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
			return fmt.Errorf("open %s: another server runs on this folder; stop it or choose another --data", dir)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "store")); err == nil {
		a.log.Warn(
			"the data folder holds an embedded store, which store.postgres does not use: its accounts and messages are not in the databases", "dir", dir)
	}
	return nil
}

// closeFolder removes the permissions of other users of this host on the data folder and our files in it, if
// they can enter it: a reader of the folder can read every message.
func closeFolder(dir string, log *slog.Logger) error {
	i, err := os.Stat(dir)
	if os.IsNotExist(err) {
		return nil // it will be made closed to others
	}
	if err != nil {
		return fmt.Errorf("look at the data folder: %w", err)
	}
	if i.Mode().Perm()&0o077 == 0 {
		return nil // others cannot enter it
	}
	owner, ok := i.Sys().(*syscall.Stat_t)
	if shared := i.Mode()&os.ModeSticky != 0; shared || ok && int(owner.Uid) != os.Geteuid() {
		log.Warn("other users of this host can enter the data folder, and the server may not change its mode; give the server a folder of its own with mode 0700", "dir", dir, "mode", i.Mode().String())
		return nil
	}
	root, err := os.OpenRoot(dir) // a link in the folder leads nowhere else
	if err != nil {
		return fmt.Errorf("close the data folder to other users: %w", err)
	}
	defer func() { _ = root.Close() }() // read-only
	if err := root.Chmod(".", 0o700); err != nil {
		return fmt.Errorf("close the data folder to other users: %w; run chmod 700 %s", err, dir)
	}
	files := 0
	for _, name := range ourFiles {
		err := fs.WalkDir(root.FS(), name, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			files++
			return closeFile(root, path, d)
		})
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("close the data folder to other users: %w", err)
		}
	}
	if files == 0 {
		log.Info("data folder is closed to other users of this host", "dir", dir, "was", i.Mode().String())
		return nil
	}
	log.Warn("other users of this host could enter the data folder: it is closed now; if any of them should not have read it, revoke the keys and tokens", "dir", dir, "was", i.Mode().String(), "files", files)
	return nil
}

func closeFile(root *os.Root, path string, d fs.DirEntry) error {
	i, err := d.Info()
	if err != nil || i.Mode().Perm()&0o077 == 0 || !i.IsDir() && !i.Mode().IsRegular() {
		return err
	}
	return root.Chmod(path, i.Mode().Perm()&0o700)
}
