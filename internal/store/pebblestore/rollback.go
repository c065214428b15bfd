package pebblestore

import (
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/markfile"
)

// noteWait bounds the wait for the note at the end of a store. The disk may hang.
const noteWait = 500 * time.Millisecond

// Refute implements store.Store. The note is a file in the folder that makes
// Open refuse the store until Renew.
func (s *Store) Refute(proof string) {
	noted := make(chan error, 1)
	go func() { noted <- s.place.note(proof) }() // not waited for longer than noteWait: the process ends
	select {
	case err := <-noted:
		if err != nil {
			s.log.Error("note that the store is an earlier state failed: the next start does not know of it", "err",
				err)
		}
	case <-time.After(noteWait):
		s.log.Error("note that the store is an earlier state failed: the disk does not answer")
	}
	s.out.fail(fmt.Errorf("%w: %s", store.ErrRewound, proof))
}

// note writes proof into the folder, durably.
func (p place) note(proof string) error {
	if err := writeSynced(p.fs, p.rewound, []byte(proof)); err != nil {
		return err
	}
	return syncDir(p.fs, p.dir)
}

// checkRewound looks for signs that the store is an earlier state of itself.
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

// checkCopied refuses a folder that was restored from a copy. It comes before all checks for damage: a copy
// of links to the files has a newer witness than logs, and repair would accept that as a loss without asking.
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

// Renew gives a store a new history id and serves it as it is: one that was put back to an earlier state, a
// copy, or a sound one. Clients drop their stored state. It repairs a damaged store.
func Renew(o Options) (Report, error) { return repairLocked(o, renew) }

func renew(o Options, p place) (Report, error) {
	_, err := inspect(o, p)
	d, ok := errors.AsType[*Damaged](err)
	if ok && d.Rewound { // and damaged, perhaps
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

// accept removes the reason for which Open refused the store, before the store has its new history.
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
