package presence

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// maxBlocked bounds the blocked users that are kept for one user.
const maxBlocked = 1000

// blocked is a set of users whom a user blocks, or has blocked before. Only for these users the block itself
// has to be read. A set never changes; nil: nobody. Spec: P-5.4.
type blocked struct {
	users []im.User // sorted
	all   bool      // there are too many to keep: each user counts as one of them
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

// list returns the users, unless there are too many to keep.
func (b *blocked) list() []im.User {
	if b == nil {
		return nil
	}
	return b.users
}

func (b *blocked) has(u im.User) bool {
	if b == nil {
		return false
	}
	_, found := slices.BinarySearch(b.users, u)
	return found || b.all
}

// with returns the union of b and c.
func (b *blocked) with(c *blocked) *blocked {
	if b == nil || c == nil {
		return cmp.Or(b, c)
	}
	return blockedOf(slices.Concat(b.users, c.users), b.all || c.all)
}

// without returns b without the users of c.
func (b *blocked) without(c *blocked) *blocked {
	if b == nil || c == nil {
		return b
	}
	return blockedOf(slices.DeleteFunc(slices.Clone(b.users), c.has), b.all && !c.all)
}

// readBlocked reads whom a user blocks or has blocked.
func (p *Presence) readBlocked(ctx context.Context, a im.Account) (*blocked, error) {
	prefix := im.PairKey(a.User, "")
	var users []im.User
	err := p.o.Store.Records(ctx, store.Blocks, a.Tenant, prefix, func(key, _ []byte) bool {
		users = append(users, im.User(key[len(prefix):]))
		return len(users) <= maxBlocked
	})
	if errors.Is(err, store.ErrCorrupt) { // further ones are unknown
		return blockedOf(nil, true), nil
	}
	return blockedOf(users, false), err
}

// recheckBlocks asks the store again whether t blocks the users in who, for each of them who watches t. It is
// called when a block may have begun or ended. Until the answer, those to whom t was visible see t as a
// blocker: as before, and as offline after holdOnline. For those who do not watch t, it forgets how t was shown
// to them.
func (p *Presence) recheckBlocks(t *target, who *blocked, now time.Time) {
	t.pairs++
	t.blocked = t.blocked.with(who)
	watching := map[im.User]bool{}
	for _, x := range t.watchers {
		u := x.w.out.Account.User
		if !who.has(u) || u == t.account.User {
			continue
		}
		watching[u] = true
		if x.view == visible {
			p.showAsBlocker(t, x, now)
		}
		p.askFor(question{x.w, x})
	}
	for _, u := range who.list() {
		if !watching[u] { // later watches get what is stored
			delete(t.away, u)
		}
	}
}
