package pebblestore

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
)

// soundTown is a disk with a town that is in tables, and the largest of them.
func soundTown(t testing.TB, convs, rows int) (fs *vfs.MemFS, tn *town, path string, whole []byte) {
	t.Helper()
	fs = vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	tn = newTown(t, st, convs, rows)
	intoTables(t, st)
	mustClose(t, st)
	for _, f := range filesOf(t, fs, "sst") {
		if b := contentOf(t, fs, f); len(b) > len(whole) {
			path, whole = f, b
		}
	}
	return fs, tn, path, whole
}

// TestDamagedBlocksCostWhatIsInThem damages a table in several places. Of 8,000
// entries a block has about 100.
func TestDamagedBlocksCostWhatIsInThem(t *testing.T) {
	flip := func(per1000 ...int) func(b []byte) []byte {
		return func(b []byte) []byte {
			for _, n := range per1000 {
				b[len(b)*n/1000] ^= 4
			}
			return b
		}
	}
	for _, tc := range []struct {
		how    string
		spoil  func(b []byte) []byte
		blocks int // that are lost at most
	}{
		{"two blocks", flip(300, 600), 2},
		{"five blocks", flip(200, 350, 500, 650, 800), 5},
		{"the footer", func(b []byte) []byte { b[len(b)-3] ^= 1; return b }, 0},
		{"the last byte cut", func(b []byte) []byte { return b[:len(b)-1] }, 0},
		{"the index and the footer", func(b []byte) []byte { clear(b[len(b)-2000:]); return b }, 0},
		{"two blocks and the footer", func(b []byte) []byte { b[len(b)-3] ^= 1; return flip(300, 600)(b) }, 2},
		{"sectors of zeros and the end cut", func(b []byte) []byte {
			clear(b[len(b)/2&^4095:][:8192])
			return b[:len(b)-1000]
		}, 4},
	} {
		t.Run(tc.how, func(t *testing.T) {
			fs, tn, path, whole := soundTown(t, 200, 40)
			rewriteFile(t, fs, path, tc.spoil(whole))
			online := killed(fs)
			r, err := Repair(mem(fs))
			if err != nil {
				t.Fatal(err)
			}
			st := mustOpen(t, mem(fs))
			n := tn.count(t, st, tc.how)
			mustClose(t, st)
			most := tc.blocks * 150
			if n.damaged > 0 || n.rows+n.lost != tn.rows() || uint64(n.lost) != r.LostRows || n.lost > most || (n.lost == 0) != (tc.blocks == 0) {
				t.Errorf("after the repair %+v of %d rows, %d were named as lost: %q; want at most %d lost", n, tn.rows(), r.LostRows, r.Lost, most)
			}
			if n := fmt.Sprint(r.Lost); len(r.Lost) > 0 != (tc.blocks > 0) {
				t.Errorf("the report names %s", n)
			}
			_ = online.Remove("data/lock")
			if st, err = Open(mem(online)); err != nil {
				return // a table that is cut
			}
			defer mustClose(t, st)
			tn.count(t, st, "running")
			eventually.True(t, "mended", func() bool { return st.damage.met.Load() == 0 || len(st.damage.places(nil)) == 0 })
			if n := tn.count(t, st, "mended"); n.rows < tn.rows()-most {
				t.Errorf("running, %+v of %d rows can be read; want at most %d lost", n, tn.rows(), most)
			}
		})
	}
}

// TestUnknownLossIsSaid: nothing tells of the messages that a table had alone.
func TestUnknownLossIsSaid(t *testing.T) {
	fs, tn, path, _ := soundTown(t, 50, 10)
	rewriteFile(t, fs, path, nil)
	r, err := Repair(mem(fs))
	if err != nil {
		t.Fatal(err)
	}
	if !r.More || r.LostRows >= uint64(tn.rows()) {
		t.Errorf("of %d rows the report says %d are lost, more: %v, want more", tn.rows(), r.LostRows, r.More)
	}
}

func TestLostRecordsAreNamed(t *testing.T) {
	sum := []byte("\xab\xcd5678901234567890123456789012")
	for want, key := range map[string][]byte{
		"admin key with the hash abcd353637383930": recordKey(store.Tokens, 0, sum),
		"token with the hash abcd353637383930":     recordKey(store.Tokens, 1, sum),
		`setting "setup"`:                          recordKey(store.Settings, 0, []byte("setup")),
		`user "ann" in tenant 7`:                   recordKey(store.Users, 7, []byte("ann")),
		`device "phone of ann"`:                    recordKey(store.Devices, 1, []byte("ann\x00phone")),
		`list of conversations of "ann"`:           recordKey(store.Lists, 1, []byte("ann\x00x")),
	} {
		if got := place1(key); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for want, h := range map[bool]hole{
		true:  {recordKey(store.Users, 1, nil), recordKey(store.Settings, 1, nil)},
		false: {recordKey(store.Tokens, 1, nil), recordKey(store.Settings, 1, nil)},
	} {
		if got := h.lostKeys() != ""; got != want {
			t.Errorf("%s: keys may be lost: %v, want %v", h, got, want)
		}
	}
}
