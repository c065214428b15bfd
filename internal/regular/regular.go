// Package regular reads files that a configuration or a command names. It opens only a regular file, or a
// symbolic link to one: to open a FIFO would wait for its writer, and a device may never end.
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxBytes is the largest size of a file that Read reads: a configuration, a secret, a key.
const maxBytes = 4 << 20

// Open opens a file for reading. Errors: an *fs.PathError, also if it is no regular file.
func Open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without O_NONBLOCK the open of a FIFO waits
	if err != nil {
		return nil, err
	}
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("it is no regular file")}
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	return f, nil
}

// Read returns the content of a file of at most 4 MiB.
func Read(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(b) > maxBytes {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it has more than %d MiB", maxBytes>>20)}
	}
	return b, err
}
