package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Damaged compares a store, of which a part is unreadable, with the promise: each read returns the promised
// value, or an error of damage. In a repaired store each read returns the promised value or shows the loss: a
// placeholder, a lower last seq, a missing record. good counts the reads that were as promised, bad the others.
func (p Promise) Damaged(ctx context.Context, st store.Store, repaired bool) (good, bad int, err error) {
	d := &damaged{ctx: ctx, st: st, repaired: repaired, may: map[place]map[string]bool{}}
	p.t.mu.Lock()
	steps := p.t.steps
	p.t.mu.Unlock()
	m := p.t.model(0)
	for k := 0; ; k++ {
		// In a repaired store the values beside the rows may be older.
		d.learn(m, k >= p.acked)
		if k == p.acked {
			d.firm = *p.t.model(k)
		}
		if k == len(steps) {
			break
		}
		m.apply(steps[k])
	}
	for _, c := range p.t.convs {
		first := max(d.firm.first[c], m.first[c])
		if err := d.checkRows(c, first, d.firm.next[c]-1); err != nil {
			return 0, 0, err
		}
		if err := d.checkRecords(c); err != nil {
			return 0, 0, err
		}
	}
	err = st.Records(ctx, store.Settings, 0, nil, func(k, v []byte) bool {
		return d.saw(place{what: setting, name: string(k)}, string(v))
	})
	return d.good, d.bad, errors.Join(d.wrong, d.met(err))
}

type damaged struct {
	ctx       context.Context
	st        store.Store
	repaired  bool
	firm      state                     // after the commits that were acked
	may       map[place]map[string]bool // values that may stand at a place; true: they may be the newest
	good, bad int
	wrong     error
}

// learn adds the values in m, which is the content after some of the commits. now: they may be the newest.
func (d *damaged) learn(m *state, now bool) {
	for at, v := range m.holds {
		if at.what == row && !now {
			continue
		}
		if d.may[at] == nil {
			d.may[at] = map[string]bool{}
		}
		d.may[at][v] = d.may[at][v] || now
	}
}

// met counts an error of damage and returns nil; it returns other errors.
func (d *damaged) met(err error) error {
	if err != nil && errors.Is(err, store.ErrCorrupt) && !d.repaired {
		d.bad++
		return nil
	}
	return err
}

func (d *damaged) checkRows(c im.Key, first, head im.Seq) error {
	last, err := d.st.LastRow(d.ctx, c)
	if err != nil && d.met(err) != nil {
		return err
	}
	end := head
	if err == nil && (last == nil || last.Seq < head) {
		if !d.repaired {
			return fmt.Errorf("%s: the last row is %v, want %d", c, last, head)
		}
		end = 0
		if last != nil {
			end = last.Seq
		}
		d.bad += int(head - end)
	}
	for q := first; q <= end; q++ {
		var got []byte
		err := d.st.Rows(d.ctx, c, q, q, func(r store.Row) bool {
			got = append(got, r.Value...)
			return true
		})
		switch {
		case err != nil:
			if d.met(err) != nil {
				return err
			}
		case d.may[place{what: row, conv: c, seq: q}][string(got)]:
			d.good++
		case d.repaired && store.IsLost(got):
			d.bad++
		default:
			return fmt.Errorf("%s row %d: got %.20x", c, q, got)
		}
	}
	for at := range d.firm.holds {
		if at.what != filed || at.conv != c {
			continue
		}
		q := at.seq
		got, err := d.st.Dedupe(d.ctx, c, uint64(q)<<8)
		switch {
		case err != nil:
			if d.met(err) != nil {
				return err
			}
		case len(got) == 1 && got[0] == q, len(got) == 0 && q < first:
			d.good++
		case len(got) == 0 && d.repaired:
			d.bad++
		default:
			return fmt.Errorf("%s: hash of row %d: got %v", c, q, got)
		}
	}
	return nil
}

// saw checks that value may stand at a place; false: a wrong value was met.
func (d *damaged) saw(at place, value string) bool {
	now, known := d.may[at][value]
	if !known || !now && !d.repaired {
		d.wrong = errors.Join(d.wrong, fmt.Errorf("%s: got %q", at, value))
	}
	d.good++
	return d.wrong == nil
}

func (d *damaged) checkRecords(c im.Key) error {
	conv, err := d.st.Conversation(d.ctx, c)
	at := place{what: conversation, conv: c}
	switch {
	case err != nil:
		if d.met(err) != nil {
			return err
		}
	case conv == nil && d.firm.holds[at] != "" && !d.repaired:
		return fmt.Errorf("%s is gone", at)
	case conv != nil && !d.repaired: // a repair may have made a new one
		d.saw(at, conv.String())
	}
	err = d.met(d.st.Members(d.ctx, c, func(u im.User, r *storepb.Member) bool {
		// A damaged role may be that of a former member.
		if at := (place{what: member, conv: c, name: string(u)}); !d.may[at][r.String()] {
			d.wrong = errors.Join(d.wrong, fmt.Errorf("%s: got %q", at, r))
		}
		return d.wrong == nil
	}))
	if err != nil {
		return err
	}
	for _, k := range store.MarkKinds() {
		err := d.met(readMarks(d.ctx, d.st, c, k, d.saw))
		if err != nil {
			return err
		}
	}
	return d.met(d.st.Cursors(d.ctx, c, "", func(u im.User, r *storepb.Cursor) bool {
		return d.saw(place{what: cursor, conv: c, name: string(u)}, r.String())
	}))
}
