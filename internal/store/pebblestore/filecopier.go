package pebblestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	pieceBytes = 256 << 10 // read and written at once
	// The copy starts the write to the disk after each syncBytes. Else it would fill the memory first, and the
	// syncs of a server on the same disk would wait.
	syncBytes = 1 << 20
)

// copier copies files, hashes them on the way, and reads at most rate bytes per second.
type copier struct {
	ctx      context.Context
	fs       vfs.FS
	rate     int64 // bytes per second; 0: no limit
	progress func(read, total int64)
	begun    time.Time
	done     int64 // bytes read
	total    int64
	piece    []byte
}

// read copies the file f, which is at path, to out, and returns its entry for a manifest.
func (c *copier) read(out io.Writer, path string, f sourceFile) (File, error) {
	in, err := c.fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = in.Close() }() // read-only
	sum, err := c.copy(out, in, f.bytes)
	if err != nil {
		return File{}, fmt.Errorf("copy %s: %w", f.name, err)
	}
	return File{Name: f.name, Bytes: f.bytes, SHA256: sum, ModifiedNs: f.modified.UnixNano()}, nil
}

// copyTo copies the file f, which is at path, into a new file, to. The copy is durable except for its name.
func (c *copier) copyTo(to, path string, f sourceFile) (File, error) {
	var d File
	err := c.create(to, func(out io.Writer) (err error) {
		d, err = c.read(out, path, f)
		return err
	})
	return d, err
}

// create makes a new file, to, with the content that fill writes. The file is durable except for its name.
func (c *copier) create(to string, fill func(io.Writer) error) error {
	f, err := c.fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	out := vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: syncBytes})
	err = fill(out)
	if err == nil {
		err = out.Sync()
	}
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}

// copy copies exactly the given number of bytes, at the rate of c, and returns their SHA-256 in hex. It calls progress
// after each piece.
func (c *copier) copy(out io.Writer, in io.Reader, bytes int64) (string, error) {
	if c.piece == nil {
		c.piece = make([]byte, pieceBytes)
	}
	h := sha256.New()
	for left := bytes; left > 0; {
		if err := c.rest(); err != nil {
			return "", err
		}
		n, err := io.ReadFull(in, c.piece[:min(left, pieceBytes)])
		if err != nil {
			return "", fmt.Errorf("after %d of %d bytes: %w", bytes-left+int64(n), bytes, err)
		}
		h.Write(c.piece[:n])
		if _, err := out.Write(c.piece[:n]); err != nil {
			return "", err
		}
		left -= int64(n)
		c.done += int64(n)
		if c.progress != nil {
			c.progress(c.done, c.total)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// rest waits until the next piece may be read. Errors: that of the context.
func (c *copier) rest() error {
	if c.rate <= 0 {
		return c.ctx.Err()
	}
	due := time.Duration(float64(c.done) / float64(c.rate) * float64(time.Second))
	select {
	case <-time.After(due - time.Since(c.begun)):
		return c.ctx.Err()
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}
