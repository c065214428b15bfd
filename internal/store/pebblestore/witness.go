package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The witness file has four slots of slotBytes, written in place. A commit is acked only after its number or a
// higher one is in the file, so the next start notices a log or a manifest that has lost its end.
//
//	slot 0, 1   the newest durable commit; they are written in turn, so a torn write leaves the other
//	slot 2, 3   the inventory (inventory.go), the same in both; they are written one after the other
//
// A commit slot is magic(8) store id(8) n(8) time_ms(8) log(8) crc(4). An inventory slot is magic(8) store id(8)
// length(4) inventory crc(4). Numbers are big endian. The CRC is a CRC-32C of the bytes before it.
const (
	slotBytes      = 4096
	witnessBytes   = 4 * slotBytes
	commitMagic    = "ptrlcmt1"
	inventoryMagic = "ptrlinv1"
	commitBytes    = 8 + 8 + 8 + 8 + 8 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// commitSlot is the content of a commit slot.
type commitSlot struct {
	store  uint64
	n      uint64
	timeMs uint64
	log    uint64 // number of the newest log file in the inventory
}

func (t commitSlot) encode() []byte {
	b := append(make([]byte, 0, commitBytes), commitMagic...)
	for _, v := range [...]uint64{t.store, t.n, t.timeMs, t.log} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseCommitSlot decodes a commit slot; false: it is torn, damaged or empty.
func parseCommitSlot(b []byte) (commitSlot, bool) {
	const sum = commitBytes - 4
	if !bytes.HasPrefix(b, []byte(commitMagic)) ||
		crc32.Checksum(b[:sum], castagnoli) != binary.BigEndian.Uint32(b[sum:]) {
		return commitSlot{}, false
	}
	return commitSlot{
		store:  binary.BigEndian.Uint64(b[8:]),
		n:      binary.BigEndian.Uint64(b[16:]),
		timeMs: binary.BigEndian.Uint64(b[24:]),
		log:    binary.BigEndian.Uint64(b[32:]),
	}, true
}

// slots is the content of a witness file.
type slots [witnessBytes]byte

func (s *slots) slot(i int) []byte { return s[i*slotBytes : (i+1)*slotBytes] }

// commit returns the newer one of the two commit slots, or the only one that can be read.
func (s *slots) commit() (commitSlot, error) {
	a, okA := parseCommitSlot(s.slot(0))
	b, okB := parseCommitSlot(s.slot(1))
	switch {
	case !okA && !okB:
		return commitSlot{}, errors.New("both commit slots of the witness file cannot be read")
	case okA && okB && a.store != b.store:
		return commitSlot{}, errors.New("the witness file names two stores")
	case !okA || okB && b.n > a.n:
		return b, nil
	}
	return a, nil
}

// inventory returns the newer one of the two inventories, or the only one that can be read.
func (s *slots) inventory() (inventory, error) {
	a, errA := parseInventory(s.slot(2))
	b, errB := parseInventory(s.slot(3))
	switch {
	case errA != nil && errB != nil:
		return inventory{}, fmt.Errorf("both inventory slots of the witness file cannot be read: %w", errA)
	case errA != nil || errB == nil && b.Turn > a.Turn:
		return b, nil
	}
	return a, nil
}

// readWitness reads the file at path. Slots behind the end of a short file are left empty, and count as unreadable.
func readWitness(fs vfs.FS, path string) (*slots, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	s := new(slots)
	if _, err := io.ReadFull(f, s[:]); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return s, nil
}

// createWitness writes a witness of commit 0 and an inventory without files, durably. It replaces any file at
// path.
func createWitness(fs vfs.FS, dir, path string, id identity) error {
	s := new(slots)
	copy(s.slot(0), commitSlot{store: id.store}.encode())
	copy(s.slot(1), commitSlot{store: id.store}.encode())
	for _, i := range []int{2, 3} {
		if err := (inventory{Identity: id.encode()}).encode(s.slot(i), id.store); err != nil {
			return err
		}
	}
	if err := writeSynced(fs, path, s[:]); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

// writeSynced makes a file with the content b, and replaces any file at path. The content is durable when
// writeSynced returns, the name only after a syncDir.
func writeSynced(fs vfs.FS, path string, b []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

// witness is the open witness file. One goroutine at a time calls commit. Any goroutine that changes files calls
// inventory.
type witness struct {
	id    uint64
	write func(b []byte, at int64) error // durable when it returns
	close func() error
	log   atomic.Uint64 // number of the newest log file in the inventory
	next  int           // the commit slot to write

	mu   sync.Mutex // tier 0; held during the write, so that inventories are written in their order
	turn uint64     // of the inventory on disk
}

// openWitness opens the file for writing. On the disk a write is one system call that returns when the data is
// durable.
func openWitness(fs vfs.FS, path string, id uint64) (*witness, error) {
	w := &witness{id: id}
	if fs == vfs.Default {
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_DSYNC|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		w.close = f.Close
		w.write = func(b []byte, at int64) error {
			_, err := f.WriteAt(b, at)
			return err
		}
		return w, nil
	}
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w.close = f.Close
	w.write = func(b []byte, at int64) error {
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
		return f.SyncData()
	}
	return w, nil
}

// commit records that the commits up to l are durable.
func (w *witness) commit(l last) error {
	t := commitSlot{store: w.id, n: l.n, timeMs: l.timeMs, log: w.log.Load()}
	err := w.write(t.encode(), int64(w.next)*slotBytes)
	w.next = 1 - w.next
	return err
}

// inventory writes v to both slots, so that damage to one of them loses nothing.
func (w *witness) inventory(v inventory) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	v.Turn = w.turn
	var slot [slotBytes]byte
	if err := v.encode(slot[:], w.id); err != nil {
		return err
	}
	for _, i := range []int64{2, 3} {
		if err := w.write(slot[:], i*slotBytes); err != nil {
			return err
		}
	}
	return nil
}
