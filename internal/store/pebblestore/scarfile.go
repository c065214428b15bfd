package pebblestore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/petrel-im/petrel/internal/store"
)

// scarsFile has those of a running store, repairing those that a repair is about to settle.
func (p place) scarsFile() string { return p.fs.PathJoin(p.dir, "scars") }
func (p place) repairing() string { return p.fs.PathJoin(p.dir, "repairing") }

// writeScars writes a file of scars: a checksum, and each one as it is in the store, with
// the length of its key and of its value before it.
func (p place) writeScars(name string, all scars) error {
	var b []byte
	for i := range all {
		for _, part := range [][]byte{all[i].key(), all[i].encode()} {
			b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
		}
	}
	sum := sha256.Sum256(b)
	err := writeSynced(p.fs, name+".new", append(sum[:], b...))
	if err == nil {
		err = p.fs.Rename(name+".new", name)
	}
	if err == nil {
		err = syncDir(p.fs, p.dir)
	}
	return err
}

// readScars reads a file of scars; there are none if it is missing. Errors: ErrCorrupt.
func (p place) readScars(name string) (all scars, err error) {
	b, err := readFile(p.fs, name)
	if isNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	bad := fmt.Errorf("read %s: %w", name, store.ErrCorrupt)
	if len(b) < sha256.Size || sha256.Sum256(b[sha256.Size:]) != [sha256.Size]byte(b) {
		return nil, bad
	}
	for b = b[sha256.Size:]; len(b) > 0; {
		var parts [2][]byte
		for i := range parts {
			size, n := binary.Uvarint(b)
			if n <= 0 || uint64(len(b)-n) < size {
				return nil, bad
			}
			parts[i], b = b[n:n+int(size)], b[n+int(size):]
		}
		sc, err := parseScar(parts[0], parts[1])
		if err != nil {
			return nil, err
		}
		all = append(all, sc)
	}
	return all, nil
}

// removeScars removes a file of scars, if it is there.
func (p place) removeScars(name string) error {
	if err := p.fs.Remove(name); err != nil && !isNotExist(err) {
		return err
	}
	return syncDir(p.fs, p.dir)
}
