package scenario

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/petrel-im/petrel/internal/store/pebblestore"
)

// restart ends the server and starts it on what change has made of its folder.
func (w *world) restart(change func(dir string)) {
	w.t.Helper()
	w.http.CloseIdleConnections()
	w.srv.RestartOn(change)
}

// backup copies the store of the server, which is down meanwhile.
func (w *world) backup() {
	w.t.Helper()
	w.spare = filepath.Join(w.t.TempDir(), "backup")
	w.restart(func(dir string) { copyFolder(w.t, dir, w.spare) })
}

// restore puts the copy back as an operator does who has lost the disk: what
// was acked since is gone, so the store says that it lost something, is
// repaired, and has a new history id (P-3.4).
func (w *world) restore() {
	w.t.Helper()
	if w.spare == "" {
		w.fatalf("there is no backup")
	}
	w.restart(func(dir string) {
		if err := os.RemoveAll(dir); err != nil {
			w.fatalf("restore: %v", err)
		}
		copyFolder(w.t, w.spare, dir)
		if err := os.Remove(filepath.Join(dir, witnessFile)); err != nil {
			w.fatalf("restore: %v", err)
		}
		if _, err := pebblestore.Repair(pebblestore.Options{Dir: dir}); err != nil {
			w.fatalf("restore: %v", err)
		}
	})
	for conv, p := range w.names {
		w.ledger.forget(conv, uint64(len(w.operatorReads(conv, p))))
	}
}

// witnessFile is what a backup of the database alone does not have.
const witnessFile = "witness"

func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatalf("copy %s: %v", from, err)
	}
}
