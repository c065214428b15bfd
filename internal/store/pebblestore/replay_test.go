package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// What a start picks from the log is what a replay of the log would show. What it does
// not understand has the log replayed.
func TestLogIsReadAsAReplayWouldReadIt(t *testing.T) {
	o := Options{Dir: "data", FS: vfs.NewMem(), BallastBytes: -1}.withDefaults()
	read := func(replay bool) (*finding, error) {
		f := new(finding)
		lost, err := f.read(o, o.place(), replay)
		if lost != nil {
			t.Fatal(lost)
		}
		return f, err
	}
	compare := func(what string) {
		t.Helper()
		want, err := read(true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := read(false); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the log says %+v, %v; a replay %+v", what, got, err, want)
		}
	}
	write := func(f func(*Store, *pebble.Batch) error) {
		t.Helper()
		st, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = st.Takeover(context.Background(), feed, 7); err == nil {
			err = st.write(context.Background(), 0, func(b *pebble.Batch) error { return f(st, b) })
		}
		if e := st.Close(); err != nil || e != nil {
			t.Fatal(err, e)
		}
	}
	var all scars
	for i, file := range []string{"000007.sst", "000009.sst"} {
		all = append(all, scar{hole: hole{from: []byte("m1"), to: []byte("m2")}, n: uint64(i + 1), file: file})
	}
	write(func(_ *Store, b *pebble.Batch) error { return b.Set(all[0].key(), all[0].encode(), nil) })
	compare("a takeover and a scar")
	write(func(_ *Store, b *pebble.Batch) error {
		return errors.Join(b.Delete(all[0].key(), nil), b.Set(all[1].key(), all[1].encode(), nil))
	})
	compare("a scar of the tables that is gone, and a new one")
	write(func(_ *Store, b *pebble.Batch) error {
		return b.DeleteRange(keyScars, after(bytes.Clone(keyScars)), nil)
	})
	if _, err := read(false); !errors.Is(err, errOdd) {
		t.Errorf("all scars are deleted at once: %v, want %v", err, errOdd)
	}
	f, err := inspect(o, o.place())
	if err != nil || len(f.scars) != 0 {
		t.Errorf("after a replay there are %d scars, %v", len(f.scars), err)
	}
}
