package pebblestore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The commit slots of the witness hold a copy of the store's identity: without its
// secret no repeat of a send could be told any more. It is magic(8) identity(36)
// crc(4) at identityAt of both slots, and is written with the file.
const (
	identityMagic = "ptrlide1"
	identityAt    = slotBytes / 2
	identityBytes = 8 + 36 + 4
)

// writeIdentity writes the copy into the witness file at path, durably.
func writeIdentity(fs vfs.FS, path string, id identity) error {
	b := append([]byte(identityMagic), id.encode()...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	for i := range int64(2) {
		if err == nil {
			_, err = f.WriteAt(b, i*slotBytes+identityAt)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// identity is the copy of the identity.
func (s *slots) identity() (identity, error) {
	for i := range 2 {
		b := s.slot(i)[identityAt : identityAt+identityBytes]
		sum := len(b) - 4
		if string(b[:8]) == identityMagic && crc32.Checksum(b[:sum], castagnoli) == binary.BigEndian.Uint32(b[sum:]) {
			return parseIdentity(b[8:sum])
		}
	}
	return identity{}, errors.New("the witness file has no copy of the identity")
}
