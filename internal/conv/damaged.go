package conv

import (
	"context"
	"errors"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// aroundDamage ends a page of history before the damage that its read has met. If the page has no row yet, it
// reads rows one by one up to the damage. If there is none, it returns an error that names the damaged range, so
// that the reader can ask for the rows beyond it. Spec: P-9.5.
func (r *reader) aroundDamage(ctx context.Context, c *conv, parts []stay, p *page, down bool) error {
	if len(p.rows) > 0 {
		p.more = true
		return nil
	}
	parts = slices.DeleteFunc(slices.Clone(parts), func(s stay) bool { return s.from > s.to })
	s := parts[0]
	at := func(n uint64) im.Seq { return s.from + im.Seq(n) }
	if down {
		s = parts[len(parts)-1]
		at = func(n uint64) im.Seq { return s.to - im.Seq(n) }
	}
	err := r.readToDamage(ctx, c, p, uint64(s.to-s.from)+1, at)
	if len(p.rows) > 0 || err != nil {
		if down {
			slices.Reverse(p.rows)
		}
		return err
	}
	n, err := firstSound(uint64(s.to-s.from), func(n uint64) (bool, error) {
		err := r.readRows(ctx, c, p.as, stay{at(n), at(n)}, func([]byte, byte) bool { return true })
		if errors.Is(err, store.ErrCorrupt) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	from, to := min(at(0), at(n-1)), max(at(0), at(n-1))
	e := im.Errorf(im.CodeDamaged, "the server cannot read the entries %d to %d because its disk is damaged there",
		from, to)
	e.RetryAfter, e.From, e.To = damagedRetry, from, to
	return e
}

// readToDamage reads rows one by one, at most n, until it meets one that is
// damaged.
func (r *reader) readToDamage(ctx context.Context, c *conv, p *page, n uint64, at func(uint64) im.Seq) error {
	p.bytes, p.more = 0, true
	for i := uint64(0); i < n && len(p.rows) < p.limit && p.bytes <= MaxPageBytes; i++ {
		err := r.readRows(ctx, c, p.as, stay{at(i), at(i)}, func(stored []byte, flags byte) bool {
			p.take(stored, flags)
			return true
		})
		if errors.Is(err, store.ErrCorrupt) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// firstSound returns an n in 1..last+1 for which sound(n) holds and sound(n-1) does not; 0 is not sound. The
// search doubles its steps and then halves them, so it may take several damaged ranges for one.
func firstSound(last uint64, sound func(n uint64) (bool, error)) (uint64, error) {
	bad, good := uint64(0), last+1
	for step := uint64(1); bad+step <= last; step *= 2 {
		ok, err := sound(bad + step)
		if err != nil {
			return 0, err
		}
		if ok {
			good = bad + step
			break
		}
		bad += step
	}
	for good-bad > 1 {
		mid := bad + (good-bad)/2
		ok, err := sound(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			good = mid
		} else {
			bad = mid
		}
	}
	return good, nil
}
