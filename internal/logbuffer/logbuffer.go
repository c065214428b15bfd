// Package logbuffer keeps a log from blocking the program that writes it. The reader of the log may be slow,
// stand still or be gone, and its disk may be full: the lines wait in a bounded buffer, and further ones are
// dropped and counted.
package logbuffer

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/wake"
)

const (
	maxBytes = 1 << 20     // of the lines that wait, and as many of those that are being written
	retry    = time.Second // after a write that failed
)

// Writer writes to another writer on a goroutine of its own. Any goroutine may use it.
type Writer struct {
	to    io.Writer
	wakes chan struct{} // capacity 1; a token: lines wait, or the Writer is closed
	ended chan struct{} // closed when nothing more is written

	mu      sync.Mutex // tier 0; guards the fields below
	waiting []byte     // whole lines
	closed  bool
	dropped uint64 // lines, since the beginning
	told    uint64 // of these, the lines that were reported by tell
	tell    func(lines uint64)
}

// New makes a Writer that writes to w. Close the Writer before w.
func New(w io.Writer) *Writer {
	b := &Writer{to: w, wakes: make(chan struct{}, 1), ended: make(chan struct{})}
	go b.run()
	return b
}

// Unwrap returns the writer to which b writes.
func (b *Writer) Unwrap() io.Writer { return b.to }

// Write takes lines, and never waits. Its error is always nil. It drops lines for which there is no room, or that
// come after Close.
func (b *Writer) Write(lines []byte) (int, error) {
	b.mu.Lock()
	if b.closed || len(b.waiting)+len(lines) > maxBytes {
		b.dropped += count(lines)
	} else {
		b.waiting = append(b.waiting, lines...)
	}
	b.mu.Unlock()
	wake.Set(b.wakes)
	return len(lines), nil
}

// OnDropped sets the function that reports dropped lines. After a successful write, once half of the buffer is
// free, tell is called with the number of lines dropped since its last call. tell may write to b.
func (b *Writer) OnDropped(tell func(lines uint64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tell = tell
}

// Dropped returns how many lines were dropped since the beginning.
func (b *Writer) Dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// Close lets b write the waiting lines a last time, and returns true when this write has ended. Lines that it
// fails to write are dropped. If patience passes first, Close returns false: a write may still be under way, or
// follow. Later lines are dropped.
func (b *Writer) Close(patience time.Duration) (ended bool) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	wake.Set(b.wakes)
	select {
	case <-b.ended:
		return true
	case <-time.After(patience):
		return false
	}
}

func (b *Writer) run() {
	defer close(b.ended)
	var lines []byte
	for range b.wakes {
		var closed bool
		if lines, closed = b.take(lines[:0]); len(lines) > 0 {
			if _, err := b.to.Write(lines); err != nil {
				b.lose(lines, closed)
			} else {
				b.report()
			}
		}
		if closed {
			return
		}
	}
}

// take returns the waiting lines. From now on, new lines are collected in the memory of spare.
func (b *Writer) take(spare []byte) (lines []byte, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, b.waiting = b.waiting, spare
	return lines, b.closed
}

// lose counts lines that could not be written as dropped. Then it waits for retry, unless the Writer is closed.
func (b *Writer) lose(lines []byte, closed bool) {
	b.mu.Lock()
	b.dropped += count(lines)
	b.mu.Unlock()
	if !closed {
		time.Sleep(retry)
	}
}

// report calls tell with the number of lines dropped since its last call, if there are any and half of the buffer
// is free.
func (b *Writer) report() {
	b.mu.Lock()
	n, tell := b.dropped-b.told, b.tell
	due := n > 0 && tell != nil && len(b.waiting) < maxBytes/2
	if due {
		b.told = b.dropped
	}
	b.mu.Unlock()
	if due {
		tell(n)
	}
}

func count(lines []byte) uint64 { return uint64(bytes.Count(lines, []byte{'\n'})) }
