package pgstore

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

// The databases go back while no node runs: only the mark knows.
func TestMarkTellsThatDatabasesWentBack(t *testing.T) {
	dsn := blank(t)
	var log bytes.Buffer
	o := Options{DSNs: []string{dsn}, Mark: filepath.Join(t.TempDir(), "mark"), Log: slog.New(slog.NewTextHandler(&log, nil))}
	refused := func(code string, want ...string) {
		t.Helper()
		st, err := Open(t.Context(), o)
		if err == nil {
			mustClose(t, st)
			t.Fatalf("it opens, want %s", code)
		}
		p, ok := errors.AsType[*Problem](err)
		if !ok || p.Code != code {
			t.Fatalf("open: %v, want %s", err, code)
		}
		for _, x := range want {
			if !strings.Contains(err.Error(), x) {
				t.Errorf("got %q, want %q in it", err, x)
			}
		}
	}
	st := mustOpen(t, o)
	if !strings.Contains(log.String(), "there is no store mark") {
		t.Error("nobody is told that there was no mark")
	}
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 3)
	mustClose(t, st)
	mustClose(t, mustOpen(t, o))

	r := newRaw(t, dsn)
	r.do(`UPDATE petrel.part SET pos = 2 WHERE id = 1`)
	refused("rewound", "feed 1 has 2 of 3")
	refused("rewound", "feed 1 has 2 of 3") // by what is written down
	renewed, err := renew(t, o)
	if err != nil || len(renewed.Proofs) != 1 {
		t.Fatalf("renewed: %+v, %v", renewed, err)
	}
	mustClose(t, mustOpen(t, o))

	// Others were there before, and hide what is missing.
	st = mustOpen(t, o)
	r.do(`DELETE FROM petrel.feed WHERE pos > 2`)
	f = newFeedWriter(t, st, 1)
	f.heads[0] = 3
	f.add(t, st, 3)
	mustClose(t, st)
	r.do(`UPDATE petrel.part SET pos = 4 WHERE id = 1`)
	r.do(`UPDATE petrel.generations SET timeline = timeline + 7`)
	without := o
	without.Mark = ""
	mustClose(t, mustOpen(t, without)) // begins a generation
	r.do(`UPDATE petrel.part SET pos = 9 WHERE id = 1`)
	refused("rewound", "feed 1 has 4 of 5")
	if _, err := renew(t, o); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, o))

	// The primary from before a failover.
	r.do(`DELETE FROM petrel.generations WHERE number > 1`)
	refused("database_behind")
	if _, err := renew(t, o); err != nil { // the operator goes on with it
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, o))

	// A mark of another store, and what is none.
	other := o
	other.DSNs = []string{blank(t)}
	if _, err := Open(t.Context(), other); err == nil || !strings.Contains(err.Error(), "is of store") {
		t.Errorf("a mark of another store: %v", err)
	}
	if err := os.WriteFile(o.Mark, []byte("my notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is no mark") {
		t.Errorf("a file that is no mark: %v", err)
	}
	o.Mark = filepath.Join(t.TempDir(), "nowhere", "mark")
	st = mustOpen(t, o)
	defer mustClose(t, st)
	eventually.True(t, "a mark that cannot be written is counted", func() bool { return st.MarkFailures() > 0 })
	if _, _, err := st.Takeover(t.Context(), 3, 7); err != nil {
		t.Errorf("without a mark: %v", err)
	}
}
