// Package inbox keeps each user's list of conversations. A user's inbox is a conversation with that one
// member; its entries say which conversations the user joined and left. The members of the conversations are
// the truth. A consumer of the feed carries every change of membership into the inboxes of the users
// concerned, at least once, and dedupe drops the repeats.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/feed"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Consumer carries changes of membership and of contacts from the feed to the inboxes. It also carries blocks to direct
// conversations, and keeps the tables of titles, blocks and peers, and the stored index of changes. A second
// consumer, on another node, makes the same entries of the same changes, so dedupe drops them.
type Consumer struct {
	*feed.Consumer
	convs *conv.Convs
	owner *conv.Owner // of the feed
	store store.Store
	log   *slog.Logger
	index *conv.ChangeIndex // of the feed

	stored  indexState // of the index
	next    indexState // being stored
	rewrite bool       // the stored index is not reliable

	// Now is the wall clock for the age of rows to drop. It is set before Run.
	Now func() time.Time
	Hooks
}

// Hooks connect a Consumer with package presence. They are set before Run, and may be nil. Blocked,
// Wrote and Contact must not block.
type Hooks struct {
	Blocked func(by im.Account, other im.User)   // the user by has blocked other, or has ended the block
	Wrote   func(from im.Account, other im.User) // from has written to other; it may be called more than once
	// what other is to by has changed: perhaps, whether by has other as a contact. It may be called more than once
	Contact func(by im.Account, other im.User)

	// LastSeen returns when a was last online, up to the time at. ms is rounded for other users; 0: it is not
	// known. onlineMs is the exact time if a is shown as online, else 0.
	LastSeen func(ctx context.Context, a im.Account, at time.Time) (ms, onlineMs uint64, err error)
}

func (h *Hooks) fill() {
	if h.Blocked == nil {
		h.Blocked = func(im.Account, im.User) {}
	}
	if h.Wrote == nil {
		h.Wrote = func(im.Account, im.User) {}
	}
	if h.Contact == nil {
		h.Contact = func(im.Account, im.User) {}
	}
	if h.LastSeen == nil {
		h.LastSeen = func(context.Context, im.Account, time.Time) (uint64, uint64, error) { return 0, 0, nil }
	}
}

// NewConsumer makes a consumer that continues where the last one of ow's feed stopped.
func NewConsumer(ctx context.Context, log *slog.Logger, cs *conv.Convs, ow *conv.Owner,
	st store.Store) (*Consumer, error) {
	c := &Consumer{convs: cs, owner: ow, store: st, log: log, index: ow.Changes(), Now: time.Now}
	c.fill()
	var err error
	c.Consumer, err = feed.New(ctx, feed.Options{
		Name: "inbox", Feed: ow.Feed(), Store: st, Log: log, Keep: conv.RefanCommits,
		Published: ow.Published, Moved: ow.CarriedMoved(), Concerns: ow.CarriedSince, Lacks: ow.SetInboxBacklog,
		Takes: func(it *storepb.FeedItem) bool { return it.Kinds&conv.FeedCarried != 0 },
		Begin: c.loadIndex, Take: c.carry, AtOnce: batch * underWay,
		State: c.indexChanges, StateRead: c.readState, Stored: c.indexStored,
	})
	c.rewrite = false
	return c, err
}

// batch is how many inbox entries are sent at once. underWay is how many batches may wait for their answers,
// so that the next one is made meanwhile.
const (
	batch    = 512
	underWay = 4
)

// carry writes the changes of some feed items into inboxes and records, and returns when they are durable.
// anew: it writes the present state of the conversations that the items name.
func (c *Consumer) carry(ctx context.Context, items []*storepb.FeedItem, anew bool) error {
	var sends, blocks, contacts []*conv.Send
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
		if errors.Is(err, store.ErrCorrupt) { // otherwise one damaged conversation would block the inboxes of all
			c.log.ErrorContext(ctx, "write memberships into inboxes failed", "conv", key.Conv.String(), "err", err)
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case p.List:
			blocks = append(blocks, more...)
		case p.Pair:
			contacts = append(contacts, more...)
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
	for _, s := range contacts {
		if set := s.Entry.GetInbox().GetSettings(); set != nil { // no entry about joining
			c.Contact(im.Account{Tenant: s.Conv.Tenant, User: s.Peer}, im.User(set.User))
		}
	}
	return nil
}

// submit sends a batch. The channel gets the answers; its capacity is their number.
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
			// conflict: the change is entered already, with other content. too_old: it was entered, and the
			// inbox was compacted since. A damaged inbox must not block the others.
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

// carried returns the sends for the rows of a feed item, or with anew for all rows of the conversation:
// changes of members and contacts go to inboxes, and blocks in an inbox go to direct conversations. written
// are the users who have written in a direct conversation.
func (c *Consumer) carried(ctx context.Context, key im.Key, it *storepb.FeedItem,
	anew bool) (sends []*conv.Send, written []peer, err error) {
	p, from, count := policy.Of(key.Conv.Kind()), im.Seq(it.From), int(it.Count)
	if p.Pair && (anew || it.Kinds&conv.FeedPeers != 0) {
		if written, err = c.peers(ctx, key); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case anew:
		sends, err = c.rebuild(ctx, key)
	case p.List:
		sends, err = c.blocks(ctx, key, from, from+im.Seq(count))
	case it.Kinds&conv.FeedContacts != 0:
		sends, err = c.contacts(ctx, key, it.From, it.Count)
	case it.Kinds&conv.FeedMembership != 0:
		sends, err = c.changes(ctx, key, from, count)
	}
	return sends, written, err
}

// changes turns the membership entries among some rows into inbox entries. For a direct conversation it returns
// the entries by which its users joined, whatever the rows are.
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
	err = c.eachRow(ctx, key, from, from+im.Seq(count), func(m *petrelv1.Message) error {
		ch, q, conv := m.GetMembers(), im.Seq(m.Seq), key.Conv.String()
		if ch == nil {
			return nil
		}
		gone := slices.Concat(ch.Removed, ch.Left)
		if ch.Dissolved { // the entry does not name the members
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
			// The present title may be later than a former member may know.
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
			add(m.User, &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Role{Role: &petrelv1.InboxRole{Conv: conv,
				Role: m.Role, Seq: uint64(q)}}}, q)
		}
		return nil
	})
	return sends, err
}

func joined(j *petrelv1.InboxJoined) *petrelv1.InboxEntry {
	return &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Joined{Joined: j}}
}

func left(key im.Key, title string, q im.Seq) *petrelv1.InboxEntry {
	return &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Left{Left: &petrelv1.InboxLeft{Conv: key.Conv.String(),
		Seq: uint64(q), Title: title}}}
}

// eachRow calls f for the entries from..end-1 of a conversation. It leaves out those that retention has
// removed.
func (c *Consumer) eachRow(ctx context.Context, key im.Key, from, end im.Seq, f func(*petrelv1.Message) error) error {
	for more := true; more && from < end; {
		p, err := c.owner.History(ctx, conv.Query{Conv: key},
			&convpb.GetHistory{After: uint64(from - 1), Limit: uint32(min(end-from, conv.MaxPage))})
		if err != nil {
			return err
		}
		for _, row := range p.Rows {
			var m petrelv1.Message
			if err := wire.ParseMessage(row, &m); err != nil {
				return err
			}
			if from = im.Seq(m.Seq) + 1; from > end {
				return nil
			}
			if err := f(&m); err != nil {
				return err
			}
		}
		more = p.More && len(p.Rows) > 0
	}
	return nil
}

// entry makes the send of one inbox entry. Its client message id names the cause, so that no change is
// entered twice, and the kind, for a change that concerns a user in more than one way.
func (c *Consumer) entry(cause im.Key, u im.User, e *petrelv1.InboxEntry, q im.Seq) *conv.Send {
	s := &conv.Send{Conv: im.Key{Tenant: cause.Tenant, Conv: c.convs.IDs().Inbox(cause.Tenant, u)}, Peer: u,
		Keyed: true}
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

// Consumers runs a Consumer for each feed that this node owns. conv.Convs calls Follow, and route.Options has
// Await.
type Consumers struct {
	Log   *slog.Logger
	Convs *conv.Convs
	Store store.Store

	Hooks // of each of them

	runner feed.Runner
}

// Resets counts how often commits were trimmed or damaged before they were in the inboxes.
func (all *Consumers) Resets() uint64 { return all.runner.Resets() }

// Follow runs the consumer of a feed until ctx ends.
func (all *Consumers) Follow(ctx context.Context, ow *conv.Owner) {
	all.runner.Follow(ctx, all.Log, ow, func(ctx context.Context) (*feed.Consumer, error) {
		c, err := NewConsumer(ctx, all.Log, all.Convs, ow, all.Store)
		if err != nil {
			return nil, err
		}
		c.Hooks = all.Hooks
		c.fill()
		return c.Consumer, nil
	})
}

// Await returns when the inboxes have every change of membership of a feed that
// was published before the call, or when ctx ends.
func (all *Consumers) Await(ctx context.Context, ow *conv.Owner) error {
	return all.runner.Await(ctx, ow)
}
