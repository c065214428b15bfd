package petrel

import (
	"maps"
	"sync"
)

// Store is the client's memory across restarts: messages still to be sent, the sync token, the conversations
// and their newest messages. It is a table of rows by key, bounded by what the client holds. A Store belongs
// to one user and one device, and to one Client at a time. OpenFile makes one in a file, NewMemory one that
// lives as long as the process; an application may bring its own.
type Store struct {
	// Load returns all rows, in any order. It is called once, by New.
	Load func() ([]Row, error)
	// Write writes all rows or none. They survive the end of the process. After an error it is unknown what was
	// written, and the client stops.
	Write func(rows []Row) error
	// Sync makes the written rows survive a loss of power. The client calls it before it sends a message for the
	// first time. Spec: P-4.9.
	Sync func() error
	// Close ends the use of the store; the client never calls it.
	Close func() error
}

// Row is one value of a store. A Value of nil removes the key.
type Row struct {
	Key   string
	Value []byte
}

// NewMemory makes a store that outlives clients, but not the process.
func NewMemory() *Store {
	var mu sync.Mutex // tier 0; guards rows
	rows := map[string][]byte{}
	return &Store{
		Load: func() ([]Row, error) {
			mu.Lock()
			defer mu.Unlock()
			out := make([]Row, 0, len(rows))
			for k, v := range maps.Clone(rows) {
				out = append(out, Row{k, v})
			}
			return out, nil
		},
		Write: func(change []Row) error {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range change {
				if r.Value == nil {
					delete(rows, r.Key)
				} else {
					rows[r.Key] = r.Value
				}
			}
			return nil
		},
		Sync:  func() error { return nil },
		Close: func() error { return nil },
	}
}
