package pebblestore

import (
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

// TestDamageCostsNoMoreThanATable damages a table in several places. Of 8,000 entries a block
// has about 100. The entries between the first damaged block and the last one are lost.
func TestDamageCostsNoMoreThanATable(t *testing.T) {
	flip := func(per1000 ...int) func(b []byte) []byte {
		return func(b []byte) []byte {
			for _, n := range per1000 {
				b[len(b)*n/1000] ^= 4
			}
			return b
		}
	}
	const all = 8000
	for _, tc := range []struct {
		how   string
		spoil func(b []byte) []byte
		most  int // entries that are lost
	}{
		{"one block", flip(300), 150},
		{"two blocks", flip(300, 400), all / 8},
		{"sectors of zeros", func(b []byte) []byte { clear(b[len(b)/2&^4095:][:8192]); return b }, 600},
		{"the footer", func(b []byte) []byte { b[len(b)-3] ^= 1; return b }, all},
		{"the last byte cut", func(b []byte) []byte { return b[:len(b)-1] }, all},
		{"the index and the footer", func(b []byte) []byte { clear(b[len(b)-2000:]); return b }, all},
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
			if tc.most < all {
				n := tn.count(t, st, tc.how)
				if n.damaged > 0 || n.rows+n.lost != all || n.lost == 0 || n.lost > tc.most || uint64(n.lost) != r.LostRows {
					t.Errorf("after the repair %+v of %d rows, %d were named as lost: %q; want at most %d lost", n, all, r.LostRows, r.Lost, tc.most)
				}
			} else if !r.More {
				t.Error("the report does not say that more may be lost")
			}
			mustClose(t, st)
			if len(r.Lost) == 0 {
				t.Error("the report names nothing")
			}
			_ = online.Remove("data/lock")
			if st, err = Open(mem(online)); err != nil {
				return // a table that is cut
			}
			defer mustClose(t, st)
			tn.count(t, st, "running")
			eventually.True(t, "mended", func() bool { return st.damage.met.Load() == 0 || len(st.damage.places(nil)) == 0 })
			if n := tn.count(t, st, "mended"); n.rows < tn.rows()-tc.most {
				t.Errorf("running, %+v of %d rows can be read; want at most %d lost", n, tn.rows(), tc.most)
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
		`device "ann\x00phone"`:                    recordKey(store.Devices, 1, []byte("ann\x00phone")),
	} {
		if got := nameOfKey(key); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
