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

// A start reads the same state from the log as a replay of the log would show.
func TestLogIsReadAsAReplayWouldReadIt(t *testing.T) {
	o := Options{Dir: "data", FS: vfs.NewMem(), BallastBytes: -1}.withDefaults()
	read := func(replay bool) *finding {
		f := new(finding)
		var lost *Damaged
		var err error
		if !replay {
			lost, err = f.read(o, o.place())
		} else if db, e := openPebble(o, &guard{FS: o.FS, dir: o.place().db, out: newFailure(o.Log)}); e != nil {
			err = e
		} else {
			err = errors.Join(f.load(&own{db: db}), db.Close())
		}
		if err != nil || lost != nil {
			t.Fatal(lost, err)
		}
		return f
	}
	compare := func(what string) {
		t.Helper()
		if got, want := read(false), read(true); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the log says %+v; a replay %+v", what, got, want)
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
	ranges := damagedRanges{{keyRange: keyRange{[]byte("m1"), []byte("m2")}, N: 1, File: "000007.sst"}}
	write(func(_ *Store, b *pebble.Batch) error { return b.Set(keyRanges, ranges.encode(), nil) })
	compare("a takeover and a damaged range")
	write(func(_ *Store, b *pebble.Batch) error {
		return errors.Join(b.Delete(keyRanges, nil), b.DeleteRange(keyMarks, after(bytes.Clone(keyMarks)), nil))
	})
	compare("a damaged range of the tables that is gone")
}
