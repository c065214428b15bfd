package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
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

// inventory lists the files whose loss or truncation Pebble does not notice: Pebble reads a manifest up to the
// first bad record, and takes a missing log for one that never existed. guard keeps the inventory up to date.
//
// The commit number and the numbers in the log show most of these losses too. Only the inventory shows that the first
// log file is missing if the number of the newest commit in the tables cannot be read: the log may begin with any
// commit then.
//
// It also has a copy of the store's identity: without the secret in it no repeated send could be recognized.
type inventory struct {
	Turn      uint64 // counts the inventories written
	Identity  []byte
	Manifests []manifest // the current one last; before it the one that it replaces, until the marker's move is durable
	Logs      []uint64   // numbers of the log files whose names are durable and that were not given up
	Seal      seal
}

// manifest is the part of a manifest that was synced.
type manifest struct {
	Number uint64
	Length uint64
	Sum    [sha256.Size]byte
}

// encode fills slot with v.
func (v inventory) encode(slot []byte, id uint64) error {
	b, err := json.Marshal(v)
	if err != nil || len(b)+24 > len(slot) {
		return errors.Join(err, fmt.Errorf("%d log files do not fit into the inventory", len(v.Logs)))
	}
	out := append(slot[:0], inventoryMagic...)
	out = binary.BigEndian.AppendUint64(out, id)
	out = binary.BigEndian.AppendUint32(out, uint32(len(b)))
	out = append(out, b...)
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
	clear(slot[len(out):])
	return nil
}

func parseInventory(slot []byte) (v inventory, err error) {
	bad := errors.New("bad checksum")
	if !bytes.HasPrefix(slot, []byte(inventoryMagic)) {
		return v, bad
	}
	n := int(binary.BigEndian.Uint32(slot[16:]))
	if n > len(slot)-24 || crc32.Checksum(slot[:20+n], castagnoli) != binary.BigEndian.Uint32(slot[20+n:]) {
		return v, bad
	}
	err = json.Unmarshal(slot[20:20+n], &v)
	return v, err
}

func (v inventory) clone() inventory {
	v.Manifests, v.Logs = slices.Clone(v.Manifests), slices.Clone(v.Logs)
	return v
}

// check compares the inventory with the files in dir: the manifest that the marker names has its length and hash,
// and each log file exists. missing names the first loss, empty if there is none. cause is an error of the system.
func (v inventory) check(fs vfs.FS, dir string) (missing string, cause error) {
	value, err := atomicfs.ReadMarker(fs, dir, manifestMarker)
	if err != nil && isSystemError(err) {
		return "", err
	} else if err != nil {
		return err.Error(), nil // a file is named like a marker, and is none
	}
	if value == "" {
		return "the marker of the manifest is missing", nil
	}
	number, ok := manifestNumber(value)
	i := slices.IndexFunc(v.Manifests, func(m manifest) bool { return m.Number == number })
	if !ok || i < 0 {
		return fmt.Sprintf("the marker points to %s, which is not the manifest in use", value), nil
	}
	missing, err = v.Manifests[i].check(fs, fs.PathJoin(dir, value), value)
	if missing != "" || err != nil {
		return missing, err
	}
	for _, l := range v.Logs {
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
	switch n, err := io.CopyN(h, f, int64(m.Length)); {
	case errors.Is(err, io.EOF):
		return fmt.Sprintf("manifest %s is cut: %d of %d bytes", name, n, m.Length), nil
	case err != nil:
		return "", err
	case !bytes.Equal(h.Sum(nil), m.Sum[:]):
		return fmt.Sprintf("manifest %s is damaged", name), nil
	}
	return "", nil
}

// newManifest returns the inventory's entry for a manifest with this name and content.
func newManifest(name string, content []byte) manifest {
	n, _ := manifestNumber(name) // 0 fits no marker
	return manifest{Number: n, Length: uint64(len(content)), Sum: sha256.Sum256(content)}
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

func manifestFile(number uint64) string { return fmt.Sprintf("MANIFEST-%06d", number) }

func manifestNumber(name string) (uint64, bool) {
	s, ok := strings.CutPrefix(name, "MANIFEST-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}
