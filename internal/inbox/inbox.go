// Package inbox keeps each user's list of conversations. A user's inbox is a
// conversation with that one member; its entries say what was joined and left.
// The conversation is the truth: a consumer of the feed carries every change of
// membership into the inboxes of those concerned, at least once, and dedupe
// makes it exactly once.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Consumer carries changes of membership from the feed to the inboxes.
//
// It reads from its Owner without asking the store whether the feed is still here. A node
// that stood still may go on with a feed that another node has by now. What it reads then is
// old, but not wrong: it carries only entries that the Owner had published, and no entry of
// members or of an inbox changes. The next owner's consumer carries the same ones, and
// dedupe drops what comes second. The place of that one stays (save), so nothing is left out.
type Consumer struct {
	convs *conv.Convs
	owner *conv.Owner // of the feed
	store store.Store
	log   *slog.Logger
	feed  store.Feed
	index *conv.ChangeIndex // of the feed

	done    im.Pos // everything up to here is in the inboxes
	saved   place
	was     []byte // the record of the place, as it was read or written last; nil: there is none
	rewrite bool   // nothing that is stored of the index is to be relied on

	rebuild im.Pos // up to here conversations are carried anew, whatever happened in them

	// Resets counts how often changes of membership were trimmed before the
	// inboxes had them.
	Resets atomic.Uint64

	// Now is the wall clock by which rows are old enough to be dropped. It is set before Run.
	Now func() time.Time
	Hooks

	asked chan struct{} // capacity 1; a token: somebody waits

	mu      sync.Mutex // tier 1; guards the fields below
	reached im.Pos     // done, as others see it
	waiters []waiter
}

// waiter waits until the inboxes have reached a position.
type waiter struct {
	pos im.Pos
	ch  chan struct{} // closed then
}

// Hooks are what a Consumer tells and asks those who tell presence. They are set before Run.
// Blocked and Wrote must not block. nil: nobody is told, and nobody knows.
type Hooks struct {
	Blocked func(by im.Account, other im.User)   // a change of whether by blocks other is in force
	Wrote   func(from im.Account, other im.User) // from has written to other; it may be called more than once

	// LastSeen is when a was online last, as of a time, as others may know it; 0: nobody
	// knows. onlineMs is the exact time, if a is told as online; else 0.
	LastSeen func(ctx context.Context, a im.Account, at time.Time) (ms, onlineMs uint64, err error)
}

func (h *Hooks) fill() {
	if h.Blocked == nil {
		h.Blocked = func(im.Account, im.User) {}
	}
	if h.Wrote == nil {
		h.Wrote = func(im.Account, im.User) {}
	}
	if h.LastSeen == nil {
		h.LastSeen = func(context.Context, im.Account, time.Time) (uint64, uint64, error) { return 0, 0, nil }
	}
}

// saveEvery is how often the place in the feed is saved while it moves. What
// a crash makes it read again, dedupe drops.
const saveEvery = 5 * time.Second

// carryAgain is how long a consumer waits that could not carry something.
const carryAgain = 200 * time.Millisecond

// NewConsumer continues where the last one of ow's feed stopped.
func NewConsumer(ctx context.Context, log *slog.Logger, cs *conv.Convs, ow *conv.Owner, st store.Store) (*Consumer, error) {
	c := &Consumer{convs: cs, owner: ow, store: st, log: log, feed: ow.Feed(), index: ow.Changes(), asked: make(chan struct{}, 1), Now: time.Now}
	c.fill()
	var err error
	if c.saved, c.was, err = c.place(ctx); err != nil {
		return nil, err
	}
	c.done, c.reached = c.saved.done, c.saved.done
	return c, nil
}

// Await returns when the inboxes have every change of membership that was
// published before the call, or when ctx ends.
func (c *Consumer) Await(ctx context.Context) error {
	pos := c.owner.Published()
	c.mu.Lock()
	if c.reached >= pos {
		c.mu.Unlock()
		return nil
	}
	w := waiter{pos, make(chan struct{})}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	wake.Set(c.asked)
	select {
	case <-w.ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// arrived tells those who wait how far the inboxes are.
func (c *Consumer) arrived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached = c.done
	c.waiters = slices.DeleteFunc(c.waiters, func(w waiter) bool {
		if w.pos <= c.reached {
			close(w.ch)
		}
		return w.pos <= c.reached
	})
}

// Run follows the feed until ctx ends.
func (c *Consumer) Run(ctx context.Context) error {
	c.loadIndex(ctx)
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		var again <-chan time.Time // nil: nothing is left
		if err := c.catchUp(ctx, tick.C); err != nil {
			if ctx.Err() != nil || errors.Is(err, store.ErrFailed) {
				return nil // whoever watches the store ends the process
			}
			if e, ok := errors.AsType[*im.Error](err); !ok || e.Code.Info().Settled { // others pass: the consumers of many feeds fill one inbox
				c.log.Error("write memberships into inboxes failed", "err", err)
			}
			again = time.After(carryAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-c.owner.CarriedMoved():
		case <-c.asked:
		case <-tick.C:
			c.trySave(ctx)
		}
	}
}

// trySave saves the place. If that fails, the next one may not.
func (c *Consumer) trySave(ctx context.Context) {
	if err := c.save(ctx); err != nil && ctx.Err() == nil {
		c.log.Warn("save pos of the inbox consumer failed", "err", err)
	}
}

// batch is how many inbox entries are sent at once; underWay is how many batches wait
// for their answers at a time, so that the next one is made meanwhile.
const (
	batch    = 512
	underWay = 4
)

// catchUp carries what is published. It saves the place whenever a tick says so: while
// conversations begin as quickly as they are carried, it does not return, and a server that
// is killed then would carry all of them again.
func (c *Consumer) catchUp(ctx context.Context, tick <-chan time.Time) error {
	for {
		upTo := c.owner.Published()
		if c.done >= c.rebuild && !c.owner.CarriedSince(c.done, upTo) {
			c.done = max(c.done, upTo)
			c.owner.InboxesLack(0)
			c.arrived()
			return nil
		}
		var items []*storepb.FeedItem
		at, anew := c.done, c.done < c.rebuild
		if anew {
			upTo = c.rebuild
		}
		err := c.store.ScanFeed(ctx, c.feed, c.done, upTo, func(p im.Pos, e *storepb.FeedEntry) bool {
			for _, it := range e.Items {
				if anew || it.Kinds&conv.FeedCarried != 0 {
					if len(items) == 0 {
						c.owner.InboxesLack(e.TimeMs)
					}
					items = append(items, it)
				}
			}
			at = p
			return len(items) < batch*underWay
		})
		if at > c.done && errors.Is(err, store.ErrCorrupt) {
			err = nil // first what comes before the damage
		}
		if errors.Is(err, store.ErrTrimmed) || errors.Is(err, store.ErrCorrupt) {
			if err := c.reset(ctx, upTo); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			err = c.carry(ctx, items, anew)
		}
		if err != nil {
			return err
		}
		c.done = at
		if anew && c.done >= c.rebuild {
			if err := c.save(ctx); err != nil { // else the next start finds the gap again
				return err
			}
		}
		c.arrived()
		select {
		case <-tick:
			c.trySave(ctx)
		default:
		}
	}
}

// carry appends the inbox entries of some changes, or of the conversations they
// are in, and waits until they are durable.
func (c *Consumer) carry(ctx context.Context, items []*storepb.FeedItem, anew bool) error {
	var sends, blocks []*conv.Send
	var waiting []chan conv.Result // of batches under way
	var written []peer
	seen, titled := map[im.Key]bool{}, map[im.Key]bool{}
	for _, it := range items {
		key := im.Key{Tenant: im.Tenant(it.Tenant), Conv: im.ConvID(it.Conv)}
		p := policy.Of(key.Conv.Kind())
		if p.Members && (anew || it.Kinds&conv.FeedTitles != 0) {
			titled[key] = true
		}
		if anew && seen[key] {
			continue
		}
		seen[key] = true
		more, wrote, err := c.carried(ctx, key, it, anew)
		if errors.Is(err, store.ErrCorrupt) { // or one damaged conversation would hold up the inboxes of all
			c.log.ErrorContext(ctx, "write memberships into inboxes failed", "conv", key.Conv.String(), "err", err)
			continue
		}
		if err != nil {
			return err
		}
		if p.List {
			blocks = append(blocks, more...)
		}
		written = append(written, wrote...)
		for sends = append(sends, more...); len(sends) >= batch; sends = sends[batch:] {
			if len(waiting) == underWay {
				if err := c.await(ctx, waiting[0]); err != nil {
					return err
				}
				waiting = waiting[1:]
			}
			waiting = append(waiting, c.submit(sends[:batch:batch]))
		}
	}
	for _, w := range append(waiting, c.submit(sends)) {
		if err := c.await(ctx, w); err != nil {
			return err
		}
	}
	if err := c.noteTitles(ctx, slices.Collect(maps.Keys(titled))); err != nil {
		return err
	}
	if err := c.notePeers(ctx, written); err != nil {
		return err
	}
	if err := c.noteBlocks(ctx, blocks); err != nil {
		return err
	}
	for _, s := range blocks {
		c.Blocked(im.Account{Tenant: s.Conv.Tenant, User: im.User(s.Block.User)}, s.Peer)
	}
	return nil
}

// submit sends a batch. The answers come into the channel, whose capacity is their
// number.
func (c *Consumer) submit(sends []*conv.Send) chan conv.Result {
	results := make(chan conv.Result, len(sends))
	for _, s := range sends {
		s.Done = func(r conv.Result) { results <- r }
	}
	var k fanout.WakeUps
	c.convs.Submit(sends, &k)
	k.Flush()
	return results
}

// await waits until all entries of a batch have their answers.
func (c *Consumer) await(ctx context.Context, results chan conv.Result) error {
	var failed error
	for range cap(results) {
		select {
		case r := <-results:
			// A conflict says that the change is entered, in other words; too_old that it
			// was, and that the inbox has been compacted since. A damaged inbox must not
			// hold up the others.
			switch {
			case r.Err == nil, r.Err.Code == im.CodeConflict, r.Err.Code == im.CodeTooOld:
			case r.Err.Code == im.CodeDamaged:
				c.log.ErrorContext(ctx, "write memberships into an inbox failed", "err", r.Err)
			default:
				failed = r.Err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failed
}

// carried is what some rows, or, anew, all of a conversation, have to say elsewhere: changes
// of members in the inboxes of those concerned, the blocks of an inbox in the direct
// conversations, and who has written in a direct conversation.
func (c *Consumer) carried(ctx context.Context, key im.Key, it *storepb.FeedItem, anew bool) (sends []*conv.Send, written []peer, err error) {
	p, from, count := policy.Of(key.Conv.Kind()), im.Seq(it.From), int(it.Count)
	if p.Pair && (anew || it.Kinds&conv.FeedPeers != 0) {
		if written, err = c.peers(ctx, key); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case anew:
		sends, err = c.anew(ctx, key)
	case p.List:
		sends, err = c.blocks(ctx, key, from, from+im.Seq(count))
	case it.Kinds&conv.FeedMembership != 0:
		sends, err = c.changes(ctx, key, from, count)
	}
	return sends, written, err
}

// changes turns the membership entries among some rows into inbox entries.
func (c *Consumer) changes(ctx context.Context, key im.Key, from im.Seq, count int) ([]*conv.Send, error) {
	rec, err := c.owner.Record(ctx, conv.Query{Conv: key}, nil)
	if err != nil {
		return nil, err
	}
	var sends []*conv.Send
	add := func(u string, e *petrelv1.InboxEntry, seq im.Seq) {
		sends = append(sends, c.entry(key, im.User(u), e, seq))
	}
	if policy.OfRecord(rec.Kind).Pair {
		for i, u := range rec.Users {
			peer := rec.Users[1-i]
			add(u, joined(&petrelv1.InboxJoined{Conv: key.Conv.String(), Kind: rec.Kind, Seq: 1, Peer: peer}), 1)
			if peer == u {
				break
			}
		}
		return sends, nil
	}
	err = c.eachChange(ctx, key, from, count, func(ch *petrelv1.MemberChange, q im.Seq) error {
		conv := key.Conv.String()
		gone := slices.Concat(ch.Removed, ch.Left)
		if ch.Dissolved { // the entry does not name them
			users, err := c.owner.Leavers(ctx, key, q)
			if err != nil {
				return err
			}
			for _, u := range users {
				gone = append(gone, string(u))
			}
		}
		title := ""
		if len(ch.Added)+len(gone) > 0 {
			// The title of now would tell those who are gone a title of later.
			var err error
			if title, err = c.owner.TitleAt(ctx, key, q); err != nil {
				return err
			}
		}
		for _, m := range ch.Added {
			add(m.User, joined(&petrelv1.InboxJoined{Conv: conv, Kind: rec.Kind, Seq: uint64(q), Title: title}), q)
		}
		for _, u := range gone {
			add(u, left(key, title, q), q)
		}
		for _, m := range ch.Roles {
			add(m.User, &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Role{Role: &petrelv1.InboxRole{Conv: conv, Role: m.Role, Seq: uint64(q)}}}, q)
		}
		return nil
	})
	return sends, err
}

func joined(j *petrelv1.InboxJoined) *petrelv1.InboxEntry {
	return &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Joined{Joined: j}}
}

func left(key im.Key, title string, q im.Seq) *petrelv1.InboxEntry {
	return &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Left{Left: &petrelv1.InboxLeft{Conv: key.Conv.String(), Seq: uint64(q), Title: title}}}
}

// eachChange calls f for the membership entries among count rows from a seq on.
func (c *Consumer) eachChange(ctx context.Context, key im.Key, from im.Seq, count int, f func(*petrelv1.MemberChange, im.Seq) error) error {
	end := from + im.Seq(count)
	for from < end {
		p, err := c.owner.History(ctx, conv.Query{Conv: key}, &convpb.GetHistory{After: uint64(from - 1), Limit: uint32(end - from)})
		if err != nil {
			return err
		}
		if len(p.Rows) == 0 {
			return nil // retention was quicker
		}
		for _, row := range p.Rows {
			var m petrelv1.Message
			if err := wire.ParseMessage(row, &m); err != nil {
				return err
			}
			if ch := m.GetMembers(); ch != nil && im.Seq(m.Seq) < end {
				if err := f(ch, im.Seq(m.Seq)); err != nil {
					return err
				}
			}
			from = im.Seq(m.Seq) + 1
		}
	}
	return nil
}

// entry is the append of one inbox entry. Its id names the cause, so that the
// same change is never entered twice, and what it says, for a change that
// concerns a user in more than one way.
func (c *Consumer) entry(cause im.Key, u im.User, e *petrelv1.InboxEntry, q im.Seq) *conv.Send {
	s := &conv.Send{Conv: im.Key{Tenant: cause.Tenant, Conv: c.convs.IDs().Inbox(cause.Tenant, u)}, Peer: u, Keyed: true}
	what := "joined"
	switch e.Entry.(type) {
	case *petrelv1.InboxEntry_Left:
		what = "left"
	case *petrelv1.InboxEntry_Role:
		what = "role"
	}
	s.Entry.ClientMsgId = fmt.Sprintf("%s:%d:%s", cause.Conv, q, what)
	s.Entry.Body = &petrelv1.Message_Inbox{Inbox: e}
	return s
}
