package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// inventory lists the files whose loss or shortening Pebble does not notice:
// a manifest is read up to its first bad record, and a missing log is taken for
// one that never was. guard keeps it true; see there.
type inventory struct {
	turn      uint64     // counts the inventories written
	manifests []manifest // the current one last, and before it the one it replaces until the marker has moved
	logs      []uint64   // numbers of the log files whose names are durable and that were not given up
	seal      seal
}

// manifest is the part of a manifest that was synced.
type manifest struct {
	number uint64
	length uint64
	sum    [sha256.Size]byte
}

// encode fills slot with v.
func (v inventory) encode(slot []byte, id uint64) error {
	b := binary.AppendUvarint(nil, v.turn)
	b = binary.AppendUvarint(b, uint64(len(v.manifests)))
	for _, m := range v.manifests {
		b = binary.AppendUvarint(b, m.number)
		b = binary.AppendUvarint(b, m.length)
		b = append(b, m.sum[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(v.logs)))
	for _, l := range v.logs {
		b = binary.AppendUvarint(b, l)
	}
	b = binary.AppendUvarint(b, v.seal.number)
	b = v.seal.file.append(b)
	if len(b)+24 > len(slot) {
		return fmt.Errorf("%d log files do not fit into the inventory", len(v.logs))
	}
	out := append(slot[:0], inventoryMagic...)
	out = binary.BigEndian.AppendUint64(out, id)
	out = binary.BigEndian.AppendUint32(out, uint32(len(b)))
	out = append(out, b...)
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
	clear(slot[len(out):])
	return nil
}

func parseInventory(slot []byte) (inventory, error) {
	var v inventory
	bad := errors.New("bad checksum")
	if !bytes.HasPrefix(slot, []byte(inventoryMagic)) {
		return v, bad
	}
	n := int(binary.BigEndian.Uint32(slot[16:]))
	if n > len(slot)-24 || crc32.Checksum(slot[:20+n], castagnoli) != binary.BigEndian.Uint32(slot[20+n:]) {
		return v, bad
	}
	b, sound := slot[20:20+n], true
	number := func() uint64 {
		x, n := binary.Uvarint(b)
		sound = sound && n > 0
		b = b[max(n, 0):]
		return x
	}
	count := func() uint64 {
		n := number()
		sound = sound && n <= uint64(len(b)) // each has a byte at least
		return n
	}
	v.turn = number()
	for i, n := uint64(0), count(); sound && i < n; i++ {
		var m manifest
		m.number, m.length = number(), number()
		b = b[copy(m.sum[:], b):]
		v.manifests = append(v.manifests, m)
	}
	for i, n := uint64(0), count(); sound && i < n; i++ {
		v.logs = append(v.logs, number())
	}
	v.seal = seal{number: number(), file: fileID{inode: number(), born: number()}}
	if !sound {
		return inventory{}, errors.New("it ends too early")
	}
	return v, nil
}

func (v inventory) clone() inventory {
	v.manifests, v.logs = slices.Clone(v.manifests), slices.Clone(v.logs)
	return v
}

// check compares the inventory with the files in dir and says what is missing.
// Errors that are not about missing or changed data are returned as cause.
func (v inventory) check(fs vfs.FS, dir string) (missing string, cause error) {
	value, err := atomicfs.ReadMarker(fs, dir, manifestMarker)
	if err != nil && isOurs(err) {
		return "", err
	} else if err != nil {
		return err.Error(), nil // a file with the name of a marker is none
	}
	if value == "" {
		return "the marker of the manifest is missing", nil
	}
	number, ok := manifestNumber(value)
	i := slices.IndexFunc(v.manifests, func(m manifest) bool { return m.number == number })
	if !ok || i < 0 {
		return fmt.Sprintf("the marker points to %s, which is not the manifest in use", value), nil
	}
	missing, err = v.manifests[i].check(fs, fs.PathJoin(dir, value), value)
	if missing != "" || err != nil {
		return missing, err
	}
	for _, l := range v.logs {
		name := logName(l)
		if _, err := fs.Stat(fs.PathJoin(dir, name)); isNotExist(err) {
			return fmt.Sprintf("log file %s is missing", name), nil
		} else if err != nil {
			return "", err
		}
	}
	return "", nil
}

func (m manifest) check(fs vfs.FS, path, name string) (missing string, cause error) {
	f, err := fs.Open(path)
	if isNotExist(err) {
		return fmt.Sprintf("manifest %s is missing", name), nil
	} else if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // read-only
	h := sha256.New()
	switch n, err := io.CopyN(h, f, int64(m.length)); {
	case errors.Is(err, io.EOF):
		return fmt.Sprintf("manifest %s is cut: %d of %d bytes", name, n, m.length), nil
	case err != nil:
		return "", err
	case !bytes.Equal(h.Sum(nil), m.sum[:]):
		return fmt.Sprintf("manifest %s is damaged", name), nil
	}
	return "", nil
}

// newManifest describes a manifest by its content.
func newManifest(name string, content []byte) manifest {
	n, _ := manifestNumber(name) // 0 fits no marker
	return manifest{number: n, length: uint64(len(content)), sum: sha256.Sum256(content)}
}

// manifestMarker is Pebble's name for the marker file that names the manifest.
const manifestMarker = "manifest"

func logName(number uint64) string { return fmt.Sprintf("%06d.log", number) }

func logNumber(name string) (uint64, bool) {
	s, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

func tableNumber(name string) (uint64, bool) {
	s, ok := strings.CutSuffix(name, ".sst")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

func manifestFile(number uint64) string { return fmt.Sprintf("MANIFEST-%06d", number) }

func manifestNumber(name string) (uint64, bool) {
	s, ok := strings.CutPrefix(name, "MANIFEST-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}
