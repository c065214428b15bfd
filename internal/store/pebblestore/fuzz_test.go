package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/petrel-im/petrel/internal/store"
)

// FuzzFiles feeds bytes to the decoders of the files that a start, a repair or a restore reads and that are not
// Pebble's own. kind chooses the decoder. None panics or takes memory without bound. Bytes with a checksum are also
// decoded with a checksum that fits: disks, and people with editors, may write any bytes.
func FuzzFiles(f *testing.F) {
	inv := inventory{Turn: 7, Manifests: []manifest{newManifest("MANIFEST-000001", []byte("x"))}, Logs: []uint64{2, 4}}
	var slot [slotBytes]byte
	if err := inv.encode(slot[:], 9); err != nil {
		f.Fatal(err)
	}
	b := Manifest{Format: backupFormat, Name: "n", StoreID: hex(1), HistoryID: hex(2), Files: []File{{Name: "000001.sst", Bytes: 1, SHA256: "x"}}}.encode()[0].content
	for kind, b := range [][]byte{
		commitSlot{store: 1, n: 2, timeMs: 3, log: 4}.encode(), slot[:bytes.LastIndexFunc(slot[:], func(r rune) bool { return r != 0 })+1], slot[20:200], b, b,
		[]byte(`{"store":"0000000000000001","history":"0000000000000002","commit":3,"time_ms":4,"folder":"x"}`),
		damagedRanges{{keyRange: keyRange{[]byte("a"), []byte("b")}, N: 1}}.encode(), last{1, 2, 3}.append(nil), identity{store: 1}.encode(),
		store.AppendRowHead(nil, store.RowHead{Pos: 7, After: 6, MAC: 5}),
	} {
		f.Add(byte(kind), b)
	}
	name := filepath.Join(f.TempDir(), "mark")
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		switch kind % 10 {
		case 0, 1: // a whole witness: its slots, and what is behind them
			s := new(slots)
			for i := range 4 {
				copy(s.slot(i), b)
			}
			if got, err := s.commit(); err == nil && !bytes.HasPrefix(b, got.encode()) {
				t.Errorf("%x is read as %+v", b, got)
			}
			_, _ = s.inventory() // an error names the damage
		case 2:
			b = b[:min(len(b), slotBytes-24)]
			if v, err := parseInventory(inventorySlot(b)); err == nil && len(v.Logs)+len(v.Manifests) > len(b) {
				t.Errorf("%x is read as %d files", b, len(v.Logs)+len(v.Manifests))
			}
		case 3, 4:
			line := sumLine(b)
			if kind%10 == 4 {
				line = b
			}
			wantBad(t, b, func() error { _, err := parseManifest("dir", b, line); return err })
		case 5:
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			_, _ = readStoreMark(name) // an error says what to do
		case 6:
			if all, err := parseRanges(b); err == nil && len(must(parseRanges(all.encode()))) != len(all) {
				t.Errorf("%x is read as %+v", b, all)
			}
		case 7:
			if l, err := parseLast(b); err == nil && must(parseLast(l.append(nil))) != l {
				t.Errorf("%x is read as %+v", b, l)
			}
		case 8:
			if d, err := parseIdentity(b); err == nil && !bytes.Equal(d.encode(), b) {
				t.Errorf("%x is read as %+v", b, d)
			}
		case 9:
			h, wire, err := store.SplitRow(b)
			if err != nil {
				return
			}
			if again, rest, err := store.SplitRow(append(store.AppendRowHead(nil, h), wire...)); err != nil || again != h || string(rest) != string(wire) {
				t.Errorf("%x: got %+v %x, %v after encoding %+v again", b, again, rest, err, h)
			}
		}
	})
}

// inventorySlot is a slot whose checksum holds.
func inventorySlot(b []byte) []byte {
	var slot [slotBytes]byte
	out := binary.BigEndian.AppendUint64(append(slot[:0], inventoryMagic...), 9)
	out = append(binary.BigEndian.AppendUint32(out, uint32(len(b))), b...)
	binary.BigEndian.PutUint32(slot[len(out):], crc32.Checksum(out, castagnoli))
	return slot[:]
}

func must[T any](v T, _ error) T { return v }

// wantBad checks that err, if there is one, says that the backup is bad.
func wantBad(t *testing.T, b []byte, read func() error) {
	t.Helper()
	if _, ok := errors.AsType[*BadBackup](read()); !ok && read() != nil {
		t.Errorf("%x: %v", b, read())
	}
}
