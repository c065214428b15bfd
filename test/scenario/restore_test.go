package scenario

import (
	"maps"
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
	for _, s := range w.sessions { // what they were told before is history
		s.await("the end of the connection", func() bool { s.render(); return s.conn == nil })
	}
	for conv := range w.ledger.entries {
		if _, named := w.names[conv]; !named { // an inbox
			w.ledger.forget(conv, 0)
		}
	}
	for conv, p := range w.names {
		head := uint64(len(w.operatorReads(conv, p)))
		w.ledger.forget(conv, head)
		for _, u := range p.tenant.users {
			maps.DeleteFunc(u.listed, func(c change, _ bool) bool { return c.conv == conv && c.seq > head })
		}
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
