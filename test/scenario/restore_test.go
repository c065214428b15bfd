package scenario

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
)

// restart ends the servers and starts them on what change has made of their
// store.
func (w *world) restart(change func()) {
	w.t.Helper()
	w.http.CloseIdleConnections()
	imtest.StopAll(w.nodes)
	if change != nil {
		change()
	}
	imtest.StartAll(w.nodes)
}

// backup copies the store of the servers, which are down meanwhile.
func (w *world) backup() {
	w.t.Helper()
	w.restart(func() {
		if w.database != "" {
			w.spare = w.database + "_spare"
			w.sql("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", w.spare, w.database)
			return
		}
		w.spare = filepath.Join(w.t.TempDir(), "backup")
		copyFolder(w.t, w.nodes[0].Dir, w.spare)
	})
}

// restore puts the copy back as an operator does who has lost the disk: messages acked
// since are gone, so the store has a new history id (P-3.4).
func (w *world) restore() {
	w.t.Helper()
	if w.spare == "" {
		w.fatalf("there is no backup")
	}
	w.restart(func() {
		if w.database != "" {
			w.restoreDatabase()
		} else {
			w.restoreFolder(w.nodes[0].Dir)
		}
	})
	for _, s := range w.sessions { // earlier lines are history
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

// restoreFolder puts an embedded store back. It says that it lost something,
// and is repaired.
func (w *world) restoreFolder(dir string) {
	w.t.Helper()
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
}

// restoreDatabase puts a database back, whose history is another one from here
// on.
func (w *world) restoreDatabase() {
	w.t.Helper()
	w.sql("DROP DATABASE %s", w.database)
	w.sql("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", w.database, w.spare)
	if err := postgres.server.Exec(w.database, "UPDATE petrel.store SET history_id = history_id # 1"); err != nil {
		w.fatalf("restore: %v", err)
	}
}

// sql runs a statement about databases.
func (w *world) sql(format string, names ...any) {
	w.t.Helper()
	sql := fmt.Sprintf(format, names...)
	if err := postgres.server.Exec("postgres", sql); err != nil {
		w.fatalf("%s: %v", strings.ToLower(sql), err)
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
