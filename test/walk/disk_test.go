package walk

import (
	"errors"
	"maps"
	"sync"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

// disk holds the store of a device. It fails when a walk wants it to, and can lose its
// power or its process at any moment.
type disk struct {
	mu     sync.Mutex // tier 0; guards the fields below
	rows   map[string][]byte
	synced map[string][]byte // what a loss of power leaves: rows at the last Sync, of the keys that have changed since
	life   int               // of the client that may write
	next   diskFault
	failed bool          // a fault has happened in this life
	held   chan struct{} // closed when a Sync may go on; nil: it need not wait
}

// A diskFault is what happens to the next write.
type diskFault int

const (
	diskWorks    diskFault = iota
	writeFails             // nothing is written
	answerFails            // everything is written, and the client is told that it is not
	syncFails              // the write is there, and may not outlive a loss of power
	crashesFirst           // the process ends before the write
	crashesAfter           // and after it
)

var errDisk = errors.New("the walk has broken the disk")

func newDisk() *disk { return &disk{rows: map[string][]byte{}, synced: map[string][]byte{}} }

// open makes the store of a new client. Those of earlier ones write no more.
func (d *disk) open() *petrel.Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	d.next, d.failed = diskWorks, false
	life := d.life
	return &petrel.Store{
		Load: func() ([]petrel.Row, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			out := make([]petrel.Row, 0, len(d.rows))
			for k, v := range d.rows {
				out = append(out, petrel.Row{Key: k, Value: v})
			}
			return out, nil
		},
		Write: func(rows []petrel.Row) error { return d.write(life, rows) },
		Sync:  func() error { return d.sync(life) },
		Close: func() error { return nil },
	}
}

func (d *disk) write(life int, rows []petrel.Row) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fault := d.next
	if life != d.life || d.failed {
		return errDisk
	}
	if fault != diskWorks && fault != syncFails {
		d.next, d.failed = diskWorks, true
	}
	if fault == writeFails || fault == crashesFirst {
		return errDisk
	}
	for _, r := range rows {
		if _, noted := d.synced[r.Key]; !noted {
			d.synced[r.Key] = d.rows[r.Key]
		}
		if r.Value == nil {
			delete(d.rows, r.Key)
		} else {
			d.rows[r.Key] = r.Value
		}
	}
	if fault == diskWorks || fault == syncFails {
		return nil
	}
	return errDisk
}

func (d *disk) sync(life int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if held := d.held; held != nil {
		d.mu.Unlock()
		<-held
		d.mu.Lock()
	}
	if life != d.life || d.failed {
		return errDisk
	}
	if d.next == syncFails {
		d.next, d.failed = diskWorks, true
		return errDisk
	}
	clear(d.synced)
	return nil
}

// fail has the next write meet a fault.
func (d *disk) fail(f diskFault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = f
}

// hasFailed tells whether the client has met a fault.
func (d *disk) hasFailed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// hold has what is to be durable wait until the device crashes.
func (d *disk) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = make(chan struct{})
}

// crash: the client that runs writes no more.
func (d *disk) crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = true
	if d.held != nil {
		close(d.held)
		d.held = nil
	}
}

// losePower takes back what was not synced.
func (d *disk) losePower() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, v := range d.synced {
		if v == nil {
			delete(d.rows, k)
		} else {
			d.rows[k] = v
		}
	}
	clear(d.synced)
}

// wipe removes everything.
func (d *disk) wipe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.rows)
	clear(d.synced)
}

// holds tells whether there is a row.
func (d *disk) keys() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.rows)
}
