//go:build unix

package pgserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// makeData makes the data folder of a new server: as a copy of the one in the
// cache, if there is a cache.
func (s *Server) makeData(cache string) error {
	if cache == "" {
		return s.initdb()
	}
	name := strings.NewReplacer(" ", "-", "/", "-", "(", "", ")", "").Replace(release(s.bin)) + ".tar"
	archive, err := os.Open(filepath.Join(cache, name))
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.initdb(); err != nil {
			return err
		}
		return s.keep(cache, name)
	}
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }() // was only read
	tar := s.own(exec.Command("tar", "-x"))
	tar.Stdin = archive
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar -x of %s: %w: %s", archive.Name(), err, out)
	}
	return s.renumber()
}

func (s *Server) initdb() error {
	out, err := s.command("initdb", "-D", s.data(), "-U", "petrel", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// keep puts a copy of the data folder into the cache. Of several that do so at the
// same time, the last one stays: they are alike.
func (s *Server) keep(cache, name string) error {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	part, err := os.CreateTemp(cache, name+".*")
	if err != nil {
		return err
	}
	var fault bytes.Buffer
	tar := s.own(exec.Command("tar", "-c", filepath.Base(s.data())))
	tar.Stdout, tar.Stderr = part, &fault
	err = errors.Join(tar.Run(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), filepath.Join(cache, name))
	}
	if err != nil {
		_ = os.Remove(part.Name()) // it is of no use
		return fmt.Errorf("tar -c of %s: %w: %s", s.data(), err, fault.Bytes())
	}
	return nil
}

// renumber gives a copied data folder, whose server has never run, a system
// identifier of its own. By that and the timeline whoever connects tells a server
// from a former primary.
func (s *Server) renumber() error {
	control := filepath.Join(s.data(), "global", "pg_control")
	b, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	sum := checksumAt(b)
	if sum < 0 {
		return fmt.Errorf("%s has no checksum", control)
	}
	before, now := bytes.Clone(b[:8]), binary.NativeEndian.AppendUint64(nil, rand.Uint64()>>1)
	copy(b, now)
	binary.NativeEndian.PutUint32(b[sum:], crc32.Checksum(b[:sum], castagnoli))
	if err := os.WriteFile(control, b, 0o600); err != nil {
		return err
	}
	segments, err := filepath.Glob(filepath.Join(s.data(), "pg_wal", strings.Repeat("[0-9A-F]", 24)))
	if err != nil {
		return err
	}
	for _, name := range segments {
		if err := renumberSegment(name, before, now); err != nil {
			return err
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumAt is where the checksum of a control file stands, which covers all that
// is before it; -1 if there is none. The place differs between versions.
func checksumAt(b []byte) int {
	for at := 8; at+4 <= len(b); at += 4 {
		if binary.NativeEndian.Uint32(b[at:]) == crc32.Checksum(b[:at], castagnoli) {
			return at
		}
	}
	return -1
}

// renumberSegment changes the system identifier in the first page of a file of the
// log. No checksum covers the header of a page.
func renumberSegment(name string, before, now []byte) error {
	const at = 24 // after the header that every page has
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	has := make([]byte, len(before))
	if _, err = f.ReadAt(has, at); err == nil {
		if bytes.Equal(has, before) {
			_, err = f.WriteAt(now, at)
		} else {
			err = fmt.Errorf("%s is of the system %x, not %x", name, has, before)
		}
	}
	return errors.Join(err, f.Close())
}
