package conv

import (
	"errors"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// errRests refuses answers that rest on a batch that was refused.
var errRests = errors.New("the answer depends on a batch that was refused")

// publish ends a commit: the heads move, then the recipients are looked up,
// then entries and answers go out. One call at a time, in commit order.
func (ow *Owner) publish(cm *commit, err error) {
	switch {
	case err == nil:
		ow.show(cm)
		ow.tell(cm)
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrStalled), err == errRests, sabotageRefusesUnknown && errors.Is(err, store.ErrUnknown):
		ow.refuse(cm, err)
	case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrUnknown):
		if errors.Is(err, store.ErrStale) {
			ow.node.stale.Add(1)
		}
		ow.loseAll(cm, err)
		return
	case errors.Is(err, store.ErrFailed) && ow.o.Cluster != nil:
		// The feed takes nothing more until it is taken over. What broke it is
		// not tried again: its senders may.
		ow.refuse(cm, err)
		ow.loseAll(nil, err)
	default:
		// Nobody knows what became of it: nothing is answered, nothing moves,
		// and the process ends (Run sees the store's failure).
		ow.o.Log.Error("commit failed", "err", err, "rows", cm.rows)
		return
	}
	ow.formers.drop(cm)
	ow.release(cm.work, len(cm.items), cm.bytes)
	clear(cm.work) // or the sends would live until the next one
	clear(cm.items)
	ow.free <- cm
}

// show moves what readers see. Members go before the head and are read behind
// it, so nobody reads an entry by an older list of members than its own.
func (ow *Owner) show(cm *commit) {
	kinds := uint32(0)
	pos := cm.batch.From + 1
	for i := range cm.moves {
		m := &cm.moves[i]
		m.c.info.Store(m.info)
		m.c.point.Store(&point{m.head, m.counted, pos})
		kinds |= m.kinds
	}
	if kinds&FeedMembership != 0 {
		ow.members.Store(uint64(pos)) // before published: MembershipSince relies on it
	}
	ow.showCursors(cm)
	if cm.rows > 0 || len(cm.flushes) > 0 {
		ow.published.Store(uint64(pos))
		ow.node.accepted.Add(uint64(cm.rows))
	}
	ow.node.repeats.Add(uint64(cm.repeats))
	if kinds&FeedMembership != 0 {
		select {
		case ow.moved <- struct{}{}:
		default:
		}
	}
}

func (ow *Owner) tell(cm *commit) {
	for _, sp := range cm.spans {
		ow.fan.Deliver(sp.tenant, sp.members, cm.items[sp.from:sp.to])
	}
	ow.tellCursors(cm)
	ow.fan.Flush()
	for _, a := range cm.answers {
		a.done(a.r)
	}
}

// refuse answers a batch of which the store wrote nothing. The committer rolls
// back what it had staged on top before it builds again.
func (ow *Owner) refuse(cm *commit, err error) {
	ow.o.Log.Warn("commit refused", "err", err, "rows", cm.rows)
	e := refusalOf(err)
	ow.mu.Lock()
	for _, w := range cm.work {
		ow.refused = append(ow.refused, w.c)
	}
	ow.mu.Unlock()
	for i := range cm.items {
		if o := cm.items[i].Sender; o.Waits() {
			o.Reply(cm.items[i].Ack, e, &ow.refusals)
		}
	}
	ow.refusals.Flush()
	ow.refuseCursors(cm, e)
	for _, a := range cm.answers {
		a.done(Result{Err: e})
	}
}

// mustRollBack tells whether a batch was refused since the last rollBack.
func (ow *Owner) mustRollBack() bool {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	return len(ow.refused) > 0 || ow.stale
}

// rollBack makes the log's side forget batches that the store refused. Batches
// built on top of a refused one are refused as well, for their position.
func (ow *Owner) rollBack() error {
	if !ow.mustRollBack() {
		return nil
	}
	return ow.alone(commitsInFlight, func() {
		ow.mu.Lock()
		refused := ow.refused
		ow.refused, ow.stale = nil, false
		ow.mu.Unlock()
		for _, c := range refused {
			c.rollBack()
		}
		ow.pos = im.Pos(ow.published.Load())
	})
}

func (c *conv) rollBack() {
	l := &c.log
	now := c.point.Load()
	l.head, l.counted, l.info = now.head, now.counted, c.info.Load()
	if l.tail.from > l.head {
		l.tail = tail{from: l.head}
		return
	}
	l.tail.hashes = l.tail.hashes[:l.head-l.tail.from]
}

// union lists the users who are members in a or in b. Both lists are sorted.
func union(a, b *Members) []im.User {
	x, y := a.current, b.current
	all := make([]im.User, 0, max(len(x), len(y))+1)
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] == y[0]:
			all, x, y = append(all, x[0]), x[1:], y[1:]
		case x[0] < y[0]:
			all, x = append(all, x[0]), x[1:]
		default:
			all, y = append(all, y[0]), y[1:]
		}
	}
	return append(append(all, x...), y...)
}

// online keeps those who are online now; only the sabotage build asks before
// the commit.
func (ow *Owner) online(tenant im.Tenant, members []im.User) []im.User {
	return slices.DeleteFunc(slices.Clone(members), func(u im.User) bool {
		return len(ow.fan.Table.Of(im.Account{Tenant: tenant, User: u})) == 0
	})
}
