package presence

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// maxBlocked is how many users are kept whom one user may block.
const maxBlocked = 1000

// blocked are the users whom a user may block: whom they block, or have blocked once. Of all
// others it is known that they are not blocked, without a look at the two. It never changes;
// nil: nobody. Spec: P-5.4.
type blocked struct {
	users []im.User // sorted
	all   bool      // they are too many to keep: each user may be one of them
}

func blockedOf(users []im.User, all bool) *blocked {
	switch {
	case all || len(users) > maxBlocked:
		return &blocked{all: true}
	case len(users) == 0:
		return nil
	}
	slices.Sort(users)
	return &blocked{users: slices.Compact(users)}
}

func (b *blocked) has(u im.User) bool {
	if b == nil {
		return false
	}
	_, found := slices.BinarySearch(b.users, u)
	return found || b.all
}

// with is b and c.
func (b *blocked) with(c *blocked) *blocked {
	if b == nil || c == nil {
		return cmp.Or(b, c)
	}
	return blockedOf(slices.Concat(b.users, c.users), b.all || c.all)
}

// without is what of b is not in c.
func (b *blocked) without(c *blocked) *blocked {
	if b == nil || c == nil {
		return b
	}
	return blockedOf(slices.DeleteFunc(slices.Clone(b.users), c.has), b.all && !c.all)
}

// readBlocked reads whom a user may block.
func (p *Presence) readBlocked(ctx context.Context, a im.Account) (*blocked, error) {
	prefix := store.BlockKey(a.User, "")
	var users []im.User
	err := p.o.Store.Records(ctx, store.Blocks, a.Tenant, prefix, func(key, _ []byte) bool {
		users = append(users, im.User(key[len(prefix):]))
		return len(users) <= maxBlocked
	})
	if errors.Is(err, store.ErrCorrupt) { // nobody knows whom else
		return blockedOf(nil, true), nil
	}
	return blockedOf(users, false), err
}

// isBlocked tells whether a user blocks another one. The answer is that of their direct
// conversation, which is written last when a block begins.
func (p *Presence) isBlocked(ctx context.Context, by im.Account, other im.User) (bool, error) {
	rec, err := p.o.Store.Conversation(ctx, im.Key{Tenant: by.Tenant, Conv: p.o.IDs.Direct(by.Tenant, by.User, other)})
	if errors.Is(err, store.ErrCorrupt) { // nobody knows
		return true, nil
	}
	return slices.ContainsFunc(rec.GetBlocks(), func(b *storepb.Block) bool { return b.Blocked && b.User == string(by.User) }), err
}

// mayBlock hides t from some of those who watch, because it is not known any more whether it
// blocks them, and asks. What was read before does not count.
func (p *Presence) mayBlock(s *step, t *target, who *blocked) {
	t.blocks++
	t.blocked = t.blocked.with(who)
	for _, x := range t.watchers {
		if !who.has(x.w.out.Account.User) {
			continue
		}
		if x.view == visible {
			x.view = hidden
			s.tell(x.w, t.as(hidden))
		}
		p.askFor(question{x.w, x})
	}
}
