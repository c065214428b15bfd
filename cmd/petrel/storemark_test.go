package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/store/pebblestore"
)

// If a store is behind a mark that a flag names, the command that the server advises helps, and the doctor advises the
// same.
func TestTheAdviceAboutAMarkThatIsAFlagHelps(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	mark := filepath.Join(t.TempDir(), "petrel.mark")
	o := pebblestore.Options{Dir: dir, Mark: mark, AcceptCopies: true}
	st, err := pebblestore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	b, err := os.ReadFile(mark)
	if err != nil || json.Unmarshal(b, &m) != nil {
		t.Fatalf("%s, %v", b, err)
	}
	m["commit"] = 1000
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mark, b, 0o600); err != nil {
		t.Fatal(err)
	}
	advice := "petrel repair --new-history --data " + dir + " --store-mark " + mark
	_, err = pebblestore.Open(o)
	if d, ok := errors.AsType[*pebblestore.Damaged](err); !ok || !strings.Contains(d.Error(), advice) {
		t.Fatalf("got %v, want the advice %q", err, advice)
	}
	free := []string{"--listen-http", "127.0.0.1:0", "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}
	r := petrel(t, nil, append([]string{"doctor", "--verify", "--data", dir, "--store-mark", mark}, free...)...)
	if r.exit != exitFailed || !strings.Contains(r.out, advice) || strings.Contains(r.out, "petrel repair --data") {
		t.Errorf("doctor --verify: exit %d, %s, want the advice %q alone", r.exit, r.out, advice)
	}
	petrel(t, nil, "repair", "--data", dir, "--store-mark", mark).want(t, exitFailed, "error rewound", advice)
	petrel(t, nil, strings.Fields(advice)[1:]...).want(t, exitOK, "history")
	if st, err = pebblestore.Open(o); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}
