package petrel

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// fileHeader begins a store file.
const fileHeader = "petrel-store-1\n"

const (
	compactBytes = 4 << 20 // a smaller file is not worth rewriting
	recordBytes  = 1 << 20 // approximate size of a record that a compaction writes
	frameBytes   = 8       // length and checksum in front of a record
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// logFile is a store in one file of records, one for each write. A record has rows; the last value of a key
// counts. A record that a crash cut off is dropped at the next start. When most of the file is outdated, the file
// is rewritten.
//
// record: length, crc32c (4 bytes each, little endian), rows
// row: length of the key, key, length of the value + 1 or 0, value
type logFile struct {
	path string

	// tier 0; guards the fields below, and is held over writes of the file on purpose: it keeps them in order
	mu    sync.Mutex
	f     *os.File
	size  int64
	live  int64 // bytes of rows that count
	rows  map[string]place
	wrong error // why nothing can be written any more; nil: it can
}

// place is the position of a row's value in the file.
type place struct {
	off int64
	n   int
}

// OpenFile opens the store in the file at path, or makes it, readable only by its owner. One process at a time
// may have it open.
func OpenFile(path string) (*Store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	l := &logFile{path: path, f: f, rows: map[string]place{}}
	if err := l.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, err), f.Close())
	}
	return &Store{Load: l.load, Write: l.write, Sync: l.sync, Close: l.close}, nil
}

func (l *logFile) open() error {
	if err := lockFile(l.f); err != nil {
		return fmt.Errorf("another process has it open: %w", err)
	}
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, len(fileHeader))
	switch _, err := l.f.ReadAt(head, 0); {
	case info.Size() < int64(len(head)): // new, or cut off in its first write
		return l.begin()
	case err != nil:
		return err
	case string(head) != fileHeader:
		return errors.New("the file is not a store of this SDK")
	}
	l.size = int64(len(head))
	r := bufio.NewReaderSize(io.NewSectionReader(l.f, l.size, info.Size()-l.size), 1<<20)
	for {
		b, err := readRecord(r, info.Size()-l.size)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if !l.index(b, l.size+frameBytes) {
			break
		}
		l.size += frameBytes + int64(len(b))
	}
	return l.f.Truncate(l.size)
}

func (l *logFile) begin() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	if _, err := l.f.WriteAt([]byte(fileHeader), 0); err != nil {
		return err
	}
	l.size = int64(len(fileHeader))
	if err := l.f.Sync(); err != nil {
		return err
	}
	return syncDir(l.path)
}

// readRecord reads one record from the rest of the file, which has max bytes. io.EOF means that no whole record
// follows.
func readRecord(r io.Reader, max int64) ([]byte, error) {
	var frame [frameBytes]byte
	if _, err := io.ReadFull(r, frame[:]); err != nil {
		return nil, endOfLog(err)
	}
	n := int64(binary.LittleEndian.Uint32(frame[:]))
	if n > max-frameBytes {
		return nil, io.EOF
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, endOfLog(err)
	}
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(frame[4:]) {
		return nil, io.EOF
	}
	return b, nil
}

func endOfLog(err error) error {
	if err == io.ErrUnexpectedEOF {
		return io.EOF
	}
	return err
}

// index records the positions of the rows in the record at off; false if they cannot be read.
func (l *logFile) index(b []byte, off int64) bool {
	for at := 0; at < len(b); {
		key, value, n, ok := cutRow(b[at:])
		if !ok {
			return false
		}
		if old, there := l.rows[string(key)]; there {
			l.live -= int64(len(key) + old.n)
		}
		if value == nil {
			delete(l.rows, string(key))
		} else {
			l.rows[string(key)] = place{off + int64(at+n-len(value)), len(value)}
			l.live += int64(len(key) + len(value))
		}
		at += n
	}
	return true
}

// cutRow reads the first row of b, which is n bytes long.
func cutRow(b []byte) (key, value []byte, n int, ok bool) {
	k, i := binary.Uvarint(b)
	if i <= 0 || k > uint64(len(b)-i) {
		return nil, nil, 0, false
	}
	key, b, n = b[i:i+int(k)], b[i+int(k):], i+int(k)
	v, i := binary.Uvarint(b)
	if i <= 0 || v > uint64(len(b)-i)+1 {
		return nil, nil, 0, false
	}
	n += i
	if v == 0 {
		return key, nil, n, true
	}
	return key, b[i : i+int(v)-1 : i+int(v)-1], n + int(v) - 1, true
}

func appendRow(b []byte, key string, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	if value == nil {
		return binary.AppendUvarint(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(value))+1)
	return append(b, value...)
}

func (l *logFile) load() ([]Row, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Row, 0, len(l.rows))
	for k, p := range l.rows {
		v, err := l.value(p)
		if err != nil {
			return nil, fmt.Errorf("load store %s: %w", l.path, err)
		}
		out = append(out, Row{k, v})
	}
	return out, nil
}

func (l *logFile) value(p place) ([]byte, error) {
	v := make([]byte, p.n)
	_, err := l.f.ReadAt(v, p.off)
	return v, err
}

func (l *logFile) write(rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	var b []byte
	for _, r := range rows {
		b = appendRow(b, r.Key, r.Value)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrong != nil {
		return fmt.Errorf("write store %s: %w", l.path, l.wrong)
	}
	if err := l.append(l.f, &l.size, b); err != nil {
		l.wrong = l.f.Truncate(l.size)
		return fmt.Errorf("write store %s: %w", l.path, err)
	}
	if l.size > compactBytes && l.size > 2*l.live+compactBytes/2 {
		if err := l.compact(); err != nil {
			return fmt.Errorf("compact store %s: %w", l.path, err)
		}
	}
	return nil
}

// append writes one record at the end of f, and adds its length to size.
func (l *logFile) append(f *os.File, size *int64, b []byte) error {
	rec := make([]byte, frameBytes, frameBytes+len(b))
	binary.LittleEndian.PutUint32(rec, uint32(len(b)))
	binary.LittleEndian.PutUint32(rec[4:], crc32.Checksum(b, castagnoli))
	if _, err := f.WriteAt(append(rec, b...), *size); err != nil {
		return err
	}
	l.index(b, *size+frameBytes)
	*size += frameBytes + int64(len(b))
	return nil
}

// compact writes the current rows into a new file and replaces the old one by it.
func (l *logFile) compact() error {
	f, err := os.OpenFile(l.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n := &logFile{path: l.path, f: f, rows: make(map[string]place, len(l.rows))}
	if err := l.copyTo(n); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	_ = l.f.Close() // nothing is written to it any more
	l.f, l.size, l.live, l.rows = n.f, n.size, n.live, n.rows
	return nil
}

func (l *logFile) copyTo(n *logFile) error {
	if err := lockFile(n.f); err != nil {
		return err
	}
	if _, err := n.f.WriteAt([]byte(fileHeader), 0); err != nil {
		return err
	}
	n.size = int64(len(fileHeader))
	var b []byte
	for k, p := range l.rows {
		v, err := l.value(p)
		if err != nil {
			return err
		}
		if b = appendRow(b, k, v); len(b) >= recordBytes {
			if err := n.append(n.f, &n.size, b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if err := n.append(n.f, &n.size, b); err != nil {
		return err
	}
	if err := n.f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(n.f.Name(), l.path); err != nil {
		return err
	}
	return syncDir(l.path)
}

func (l *logFile) sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.f.Sync(); err != nil {
		l.wrong = err // the system may have dropped what it could not write
		return fmt.Errorf("sync store %s: %w", l.path, err)
	}
	return nil
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = os.ErrClosed
	return l.f.Close()
}

// syncDir makes the entry of the file at path durable.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
