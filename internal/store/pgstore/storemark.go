package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/markfile"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// mark is the record that a node keeps outside of the databases: its store, and the newest known positions.
// If the databases go back in time while no node runs, the mark stays.
type mark struct {
	Store   string        `json:"store"`   // store id, 16 hex digits
	History string        `json:"history"` // history id, 16 hex digits
	Seen    *storepb.Seen `json:"seen"`
}

func hexID(id uint64) string { return fmt.Sprintf("%016x", id) }

// readMark reads the mark at path; nil: there is none.
func readMark(path string) (*mark, error) {
	return markfile.Read(path, func(m *mark) error {
		if m.Store == "" || len(m.Seen.GetGenerations()) == 0 {
			return errors.New("it names no store in databases")
		}
		return nil
	})
}

// loadMark reads the mark, before any connection to a database. Generations below those in the mark are then
// refused.
func (s *Store) loadMark() (*mark, error) {
	if s.o.Mark == "" {
		return nil, nil
	}
	m, err := readMark(s.o.Mark)
	if err != nil {
		return nil, err
	}
	if m == nil {
		s.log.Warn("there is no store mark: databases that went back in time while no node ran are not noticed", "path",
			s.o.Mark)
		return nil, nil
	}
	for n, g := range m.Seen.Generations {
		if n < len(s.dbs) {
			s.dbs[n].need.Store(g)
		}
	}
	return m, nil
}

// compareMark compares a mark with the databases, before the store serves anything. A nil m, or one with another
// history id than the store, is not compared: the positions of a former history prove nothing.
func (s *Store) compareMark(ctx context.Context, m *mark) error {
	if m == nil || m.History != hexID(s.Info().HistoryID) {
		return nil
	}
	for f, pos := range m.Seen.Positions {
		if f < im.Partitions {
			s.seen.raise(store.Feed(f), im.Pos(pos))
		}
	}
	for n, g := range m.Seen.Generations {
		if n >= len(s.dbs) {
			break
		}
		d := s.dbs[n]
		c, err := d.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		err = d.compareSince(ctx, c.Conn().PgConn(), g, d.base.Load().generation(), s.seen.all())
		c.Release()
		if err != nil {
			return err
		}
	}
	_, err := s.Holders(ctx, s.Feeds())
	return err
}

// otherStore refuses databases of another store than that of the mark.
func (m *mark) otherStore(path string, id uint64) error {
	if m == nil || m.Store == hexID(id) {
		return nil
	}
	return &Problem{Code: "other_store",
		What: fmt.Sprintf("the mark %s is of store %s, and the databases hold store %s", path, m.Store, hexID(id)),
		Fix:  "name the databases of that store in store.postgres, or delete the mark if these are meant"}
}

// number returns the generation number of database n in the mark; 0: it is not known.
func (m *mark) number(n int) uint64 {
	if m == nil || n >= len(m.Seen.Generations) {
		return 0
	}
	return m.Seen.Generations[n].Number
}

// MarkFailures counts the times that the mark could not be written.
func (s *Store) MarkFailures() uint64 { return s.mark.Failures() }

// currentMark returns the mark with the positions that this process knows; nil: the store has failed.
func (s *Store) currentMark() []byte {
	if s.out.err() != nil {
		return nil
	}
	info := s.Info()
	b, err := json.Marshal(mark{Store: hexID(info.StoreID), History: hexID(info.HistoryID), Seen: s.Seen()})
	im.Assert(err == nil, "a mark does not encode")
	return append(b, '\n')
}
