package pebblestore

import (
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/markfile"
)

// noteWait bounds how long Refute waits for its note to be written: the disk may hang.
const noteWait = 500 * time.Millisecond

// Refute implements store.Store. It writes a note into the folder, a file that makes Open refuse the store until
// Renew. If that takes longer than noteWait, it ends the store without the note.
func (s *Store) Refute(proof string) {
	noted := make(chan error, 1)
	go func() { noted <- s.place.note(proof) }() // not waited for longer than noteWait: the process ends then
	select {
	case err := <-noted:
		if err != nil {
			s.log.Error("could not write the note that the store is an earlier state: the next start will not know", "err",
				err)
		}
	case <-time.After(noteWait):
		s.log.Error("could not write the note that the store is an earlier state: the disk does not answer")
	}
	s.out.fail(fmt.Errorf("%w: %s", store.ErrRewound, proof))
}

// note writes the note with proof into the folder, durably.
func (p place) note(proof string) error {
	if err := writeSynced(p.fs, p.rewound, []byte(proof)); err != nil {
		return err
	}
	return syncDir(p.fs, p.dir)
}

// checkRewound refuses a store if a note of Refute or the store mark shows that it is an earlier state.
func (f *finding) checkRewound(o Options, p place) error {
	if o.anyState {
		return nil
	}
	if b, err := readFile(p.fs, p.rewound); err == nil {
		return &Damaged{Dir: p.dir, Rewound: true, WitnessedMs: f.acked.timeMs,
			Missing: "the store is an earlier state of itself: " + string(b)}
	} else if !isNotExist(err) {
		return fmt.Errorf("open %s: %w", p.dir, err)
	}
	return f.checkStoreMark(o)
}

// checkCopied refuses a folder that was restored from a copy. It is called before the files are checked. In a copy
// made of hard links the witness is newer than the logs: the later checks would call that a loss, which Repair
// accepts, and not an earlier state, which only Renew accepts.
func (f *finding) checkCopied(o Options, p place) error {
	if o.AcceptCopies || o.anyState {
		return nil
	}
	what, err := p.copied(f.inv)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.dir, err)
	}
	if what != "" {
		return &Damaged{Dir: p.dir, Rewound: true, WitnessedMs: f.acked.timeMs,
			Missing: "the folder was put back from a copy: " + what}
	}
	return nil
}

// Renew gives a store a new history id and leaves its content as it is. Open then takes a store that was put
// back to an earlier state, or a copied folder. A sound store gets a new history id too. Clients drop their
// stored state. A damaged store is repaired as well.
func Renew(o Options) (Report, error) { return repairLocked(o, renew) }

func renew(o Options, p place) (Report, error) {
	_, err := inspect(o, p)
	d, ok := errors.AsType[*Damaged](err)
	if ok && d.Rewound { // it may be damaged too
		o.anyState = true
		_, err = inspect(o, p)
	}
	if _, damaged := errors.AsType[*Damaged](err); damaged {
		return repair(o, p)
	} else if err != nil {
		return Report{}, err
	}
	r := Report{Found: d}
	if err := p.finish(o, &r); err != nil {
		return Report{}, err
	}
	return r, nil
}

// accept removes the note of Refute. If o.Mark is set, it writes a new store mark, unless the mark is of a store in
// another folder that still exists. It is called when the store has its new history id.
func (p place) accept(o Options, f *finding) error {
	if err := p.removeFile(p.rewound); err != nil || o.Mark == "" {
		return err
	}
	if m, err := readStoreMark(o.Mark); err == nil && m != nil && m.elsewhere(o.Dir) {
		return nil
	}
	if err := markfile.Write(o.Mark, newStoreMark(o.Dir, f.id, f.last).encode()); err != nil {
		return fmt.Errorf("write the store mark: %w", err)
	}
	return nil
}
