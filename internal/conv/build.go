package conv

import (
	"errors"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// builder decides the sends of one batch.
type builder struct {
	hash      hasher
	ids       *im.IDs
	node      *node
	logger    *slog.Logger
	b         *batch
	now       uint64 // Unix milliseconds
	dedupe    deduper
	admission admission
	rewriter  rewriter
	cursors   *cursors
	lost      func() bool // whether the feed is lost

	// State of the present conversation.
	perViewer bool   // its two users do not see the same rows
	bare      []byte // the present edit for members who may not read its target; nil: all may read it
	work      *work
	place     int // of the present send in work
	// by user: the place in work of the last send that was tried before and is stored; nil: not looked up yet
	stored map[string]int
}

// conversation decides the sends of one conversation in their order, each against the state after the sends
// before it. So a member who is removed in the middle of a batch cannot write after that, and gets no later entry
// of the batch. If a send has to wait for a loader or for the next batch, it and all later ones stay undecided.
// Spec: P-8.3.
func (bu *builder) conversation(w *work) {
	c, b := w.c, bu.b
	first := c.log.head + 1
	b.staged, bu.perViewer, bu.work, bu.stored = b.staged[:0], false, w, nil
	var kinds uint32
	from, begin, spans, known := len(b.items), len(b.items), len(b.spans), c.log.info
	bu.rewriter.span = from
	for i, s := range w.sends {
		before, at := c.log.info, len(b.items)
		bu.place = i
		kind, err := bu.decide(c, s)
		if errors.Is(err, errNextBatch) {
			b.later = append(b.later, work{c: c, sends: w.sends[i:]})
			w.sends = w.sends[:i]
			break
		}
		if errors.Is(err, errScan) {
			b.scans = append(b.scans, scan{c: c, sends: w.sends[i:], after: s.After})
			w.sends = w.sends[:i]
			break
		}
		if errors.Is(err, errThread) {
			b.scans = append(b.scans, scan{c: c, sends: w.sends[i:], roots: c.unknownRoots(w.sends[i:])})
			w.sends = w.sends[:i]
			break
		}
		b.bytes += s.bytes
		kinds |= kind
		if after := c.log.info; after.members != before.members {
			b.endSpan(c.key.Tenant, before.members.current, from, at)
			// former and new members get the change itself
			b.endSpan(c.key.Tenant, union(before.members, after.members), at, len(b.items))
			from = len(b.items)
			bu.rewriter.span = from
		} else if bu.bare != nil {
			from = bu.divideEdit(c, s, from, at)
		}
	}
	b.endSpan(c.key.Tenant, c.log.info.members.current, from, len(b.items))
	if bu.perViewer {
		b.spans = b.spans[:spans]
		bu.showEach(c, begin)
	}
	rows := c.log.head >= first
	if !rows && c.log.info == known {
		return
	}
	contacts := uint32(0)
	if was := known.record.GetContactVersion(); c.log.info.record.GetContactVersion() != was {
		contacts = FeedContacts
		if c.log.info.record.Wrote != known.record.GetWrote() { // by an answer without a row
			contacts |= FeedPeers
		}
		b.feedItems = append(b.feedItems, storepb.FeedItem{Tenant: uint32(c.key.Tenant), Conv: c.key.Conv[:],
			From: c.log.info.record.ContactVersion, Count: sidesThatSee(c.log.info.record, was+1), Kinds: contacts})
	}
	b.heads = append(b.heads, headMove{c, rows, c.log.head, c.log.counted, c.log.hidden, c.log.info, kinds | contacts})
	if !rows {
		b.feedItems = append(b.feedItems, storepb.FeedItem{Tenant: uint32(c.key.Tenant), Conv: c.key.Conv[:]})
		return
	}
	b.feedItems = append(b.feedItems, storepb.FeedItem{
		Tenant: uint32(c.key.Tenant), Conv: c.key.Conv[:], From: uint64(first), Count: uint64(c.log.head - first + 1),
		Kinds: kinds,
	})
}

// divideEdit ends the span that begins at the item from. For the edit s, which is the item at, it makes a span of
// the members who may read its target. The others get the bare edit, as an item and a span of their own.
// divideEdit returns the item at which the next span begins. Spec: P-8.3.
func (bu *builder) divideEdit(c *conv, s *Send, from, at int) int {
	b, members := bu.b, c.log.info.members
	readers, others := members.readersOf(im.Seq(s.Entry.GetEdit().GetTarget()))
	b.endSpan(c.key.Tenant, members.current, from, at)
	b.endSpan(c.key.Tenant, readers, at, at+1)
	if len(others) > 0 {
		b.items = append(b.items, fanout.Item{Row: bu.bare})
		b.endSpan(c.key.Tenant, others, at+1, at+2)
	}
	bu.bare = nil
	return len(b.items)
}

// showEach serves a direct conversation whose users do not see the same rows: it replaces the items from
// begin on by a span of items for each user. The answer to a send is among the items of its sender.
func (bu *builder) showEach(c *conv, begin int) {
	b := bu.b
	all := slices.Clone(b.items[begin:])
	b.items = b.items[:begin]
	users := c.log.info.members.current
	for n, u := range users {
		v, from := c.log.info.viewer(u), len(b.items)
		for i, it := range all {
			sender := 0 // an answer without a row may go into any span
			for j := range b.staged {
				st := &b.staged[j]
				if st.item != begin+i {
					continue
				}
				head, stored, err := store.SplitRow(st.value)
				im.Assert(err == nil, "read a row that was just made: %v", err)
				sender = max(0, slices.Index(users, wire.Sender(stored)))
				if it.Row = bu.see(v, &head, stored); it.Ack.Message != nil {
					it.Ack.Message = it.Row
				}
			}
			if sender != n {
				it = fanout.Item{Row: it.Row, Names: it.Names}
			}
			if it.Row != nil || it.Sender.Waits() {
				b.items = append(b.items, it)
			}
		}
		b.endSpan(c.key.Tenant, users[n:n+1], from, len(b.items))
	}
}

// see returns a row of this batch as v may see it.
func (bu *builder) see(v viewer, head *store.RowHead, stored []byte) []byte {
	if stored == nil {
		return nil
	}
	seen, err := v.see(head, stored)
	im.Assert(err == nil, "read a row that was just made: %v", err)
	return seen
}

// block writes the block of s, or its end, into the conversation's record, and answers s. It makes no entry, so
// the head does not move. Spec: P-5.4.
func (bu *builder) block(c *conv, s *Send) {
	one := im.User(s.Block.User)
	users := bu.pair(c, one, s.Peer)
	if rec, changed := withBlock(c.log.info.record, users, s.Block, bu.cursors.newestOf(c, one), bu.now); changed {
		bu.putRecord(c, rec)
	}
	bu.b.addItem(s, nil, Result{})
}

// contact writes a change of contacts into the conversation's record, and answers s. It makes no entry, so the head
// does not move.
func (bu *builder) contact(c *conv, s *Send) {
	switch act := ContactAct(s.Contact.Act); act {
	case ContactAsk, ContactAccept, ContactMake:
		if err := bu.admission.inboxLag.check(policy.Of(c.key.Conv.Kind())); err != nil {
			bu.refuse(s, asError(err))
			return
		}
	}
	rec, err := withContact(c.log.info.record, bu.pair(c, im.User(s.Contact.User), s.Peer), s.Contact, c.log.head,
		bu.now)
	if err != nil {
		bu.refuse(s, err)
		return
	}
	if rec != nil {
		bu.putRecord(c, rec)
	}
	bu.b.addItem(s, nil, Result{})
}

// pair returns the participants of the direct conversation of two users.
func (bu *builder) pair(c *conv, one, other im.User) []string {
	im.Assert(bu.ids.Direct(c.key.Tenant, one, other) == c.key.Conv && one != other, "users of another conversation")
	return []string{strings.Clone(string(min(one, other))), strings.Clone(string(max(one, other)))}
}

func (bu *builder) putRecord(c *conv, rec *storepb.Conversation) {
	bu.b.commit.Convs = append(bu.b.commit.Convs, store.ConvPut{Conv: c.key, Record: rec})
	c.log.info = &info{record: rec, members: c.log.info.members}
}

// refuse refuses one send.
func (bu *builder) refuse(s *Send, e *im.Error) {
	bu.node.noteRefused(s, e)
	bu.b.addItem(s, nil, Result{Err: e})
}

// decide refuses one send, answers it as a repeat, writes its block or its change of contacts, or numbers it as a
// new row. It returns the kinds of the row in the feed, 0 without one. After errScan, errThread and errNextBatch,
// s is not decided yet.
func (bu *builder) decide(c *conv, s *Send) (kind uint32, err error) {
	if bu.lost() { // the store may answer slowly: this Owner must not ask it about each send before it leaves
		return 0, errNextBatch
	}
	s.Entry.Conv = c.id
	switch {
	case s.Block != nil:
		bu.block(c, s)
		return 0, nil
	case s.Contact != nil:
		bu.contact(c, s)
		return 0, nil
	}
	role, known := c.log.info.members.standing(im.User(s.Entry.From))
	if !known && s.needsStanding() { // before dedupe, whose answers name the head
		bu.refuse(s, noConversation())
		return 0, nil
	}
	id := bu.identify(s)
	r, found, slot, err := bu.dedupe.find(c, s, id)
	if errors.Is(err, errScan) {
		return 0, err
	}
	if err == nil && found {
		bu.b.repeats++
		if r.Err != nil {
			bu.node.noteRefused(s, r.Err)
		}
		bu.b.addItem(s, nil, r)
		return 0, nil
	}
	if err == nil && s.Tried && bu.passed(c, s) {
		err = Refusal(store.ErrStalled)
	}
	var next *info
	if err == nil {
		next, err = bu.admission.admit(c, s, role)
	}
	if errors.Is(err, errNextBatch) {
		return 0, err
	}
	if err == nil && s.Entry.Rel != nil {
		if err = s.checkRelated(c, next); errors.Is(err, errThread) {
			return 0, err
		}
	}
	if err != nil {
		bu.refuse(s, bu.refusal(c, err))
		return 0, nil
	}
	return bu.number(c, s, next, id, slot), nil
}

// passed tells whether a send of the same user that waits behind s may be stored already. The caller knows that s was
// tried before and is not stored. Sends are decided in order, so in this case an Owner refused s before it stored the
// later send, and the refusal did not reach the sender. The reason for it may be gone by now, but s must not be stored
// after the later send. If a later send was tried, and its read fails or the feed is lost meanwhile, passed returns
// true. Sends of the server itself have no connection, so they have no order, and passed returns false. Spec: P-4.3.
func (bu *builder) passed(c *conv, s *Send) bool {
	u := s.Entry.From
	last, known := bu.stored[u]
	switch {
	case u == "":
		return false
	case known:
		return last > bu.place
	}
	all := slices.Concat(bu.work.sends, bu.work.rest)
	for last = len(all) - 1; last > bu.place && !bu.lost(); last-- {
		t := all[last]
		if t.Entry.From != u || !t.Tried || t.Block != nil || t.Contact != nil {
			continue
		}
		r, found, _, err := bu.dedupe.find(c, t, bu.identify(t))
		if err != nil || found && r.Repeat {
			break
		}
	}
	if bu.stored == nil {
		bu.stored = map[string]int{}
	}
	bu.stored[u] = last
	return last > bu.place
}

func (bu *builder) identify(s *Send) identity {
	return identity{bu.hash.id(im.User(s.Entry.From), s.Entry.ClientMsgId), bu.hash.first(s)}
}

// refusal returns err as the sender sees it, and logs errors that are not meant for senders.
func (bu *builder) refusal(c *conv, err error) *im.Error {
	if e, ok := errors.AsType[*im.Error](err); ok {
		return e
	}
	if !errors.Is(err, store.ErrStalled) {
		bu.node.damage.log(bu.logger, "decide send", c.id, err)
	}
	return unread(err)
}

// number gives s the next seq, and adds its row, its item, and the records and marks that it changes to the
// batch. next is the conversation's info after s. number returns the kinds of the row in the feed.
func (bu *builder) number(c *conv, s *Send, next *info, id identity, slot uint8) uint32 {
	l, b := &c.log, bu.b
	if s.Source != nil {
		s.copySource()
	}
	l.head++
	kind := uint32(FeedMessages)
	switch s.Entry.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		if !besideMain(s.Entry.Rel) {
			l.counted++
		}
	case *petrelv1.Message_Inbox:
		kind = FeedInbox
		kind |= inboxKind(s.Entry.GetInbox())
	case *petrelv1.Message_Edit, *petrelv1.Message_Recall:
		kind |= FeedRewrites
	}
	s.Entry.Seq, s.Entry.TimeMs, s.Entry.Counted = uint64(l.head), bu.now, l.counted
	if s.Entry.Rel.GetThread() != 0 {
		bu.thread(c, s)
		kind |= FeedMarks
	}
	var mentioned *mentioning
	if s.Entry.Rel != nil || kind&FeedRewrites != 0 {
		mentioned = bu.mention(c, s, next)
	}
	if mentioned != nil {
		next = mentioned.next
		b.commit.Marks = append(b.commit.Marks, mentioned.marks...)
		kind |= FeedMarks
	}
	if next != l.info {
		p := policy.Of(c.key.Conv.Kind())
		if next.members != l.info.members && !p.List { // no inbox lists an inbox
			kind |= FeedMembership
		}
		if p.Members && (l.info.record == nil || next.record.Title != l.info.record.Title) {
			kind |= FeedTitles
		}
		if next.record.Wrote != l.info.record.GetWrote() {
			kind |= FeedPeers
		}
		bu.write(c, s, next)
		l.info = next
	}
	head := store.RowHead{Pos: b.pos(), After: s.After, MAC: id.mac}
	if s.Keyed {
		head.Flags, head.After = store.RowKeyed, 0
		b.commit.Dedupe = append(b.commit.Dedupe, store.DedupePut{Conv: c.key, Hash: id.hash, Slot: slot, Seq: l.head})
	}
	if s.Entry.Rel.GetReplyTo() != 0 || s.Entry.Rel.GetThread() != 0 {
		head.Flags |= store.RowRelated
	}
	if s.Entry.GetEdit() != nil {
		head.Flags |= store.RowEdit
	}
	withheld := next.mayWithhold() && bu.withhold(c, s, &head)
	setHidden(&head, l.hidden)
	wirePart := b.add(c.key, head, &s.Entry)
	l.tail.add(id.hash)
	r := s.stored(&s.Entry, wirePart)
	if head.Flags&perViewerFlags != 0 { // the ack has the row as the sender sees it
		bu.perViewer = true
		v := next.viewer(im.User(s.Entry.From))
		r.Counted -= min(r.Counted, l.hidden.of(v.side)) // it is 0 without rel
		r.Message = bu.see(v, &head, r.Message)
	}
	if s.Entry.GetInbox().GetSnapshot() != nil { // it has no news for connections
		wirePart = nil
	}
	b.addItem(s, wirePart, r)
	if mentioned != nil {
		b.items[len(b.items)-1].Names = mentioned.names
	}
	if kind&FeedRewrites != 0 {
		bu.rewriter.rewrite(c, s, withheld)
		bu.bare = bareFor(next.members, &s.Entry)
	}
	return kind
}

// bareFor returns the wire part of an edit for the members who may not read its target; nil if all may, or e
// is no edit. It does not modify e.
func bareFor(members *Members, e *petrelv1.Message) []byte {
	if e.GetEdit() == nil || im.Seq(e.GetEdit().GetTarget()) >= members.newest {
		return nil
	}
	return wire.AppendMessage(nil, bareEdit(proto.CloneOf(e)))
}

// thread gives a message its number in its thread, and adds the mark beside the root with the new size of the
// thread to the commit. The thread is in memory. Spec: P-5.12.
func (bu *builder) thread(c *conv, s *Send) {
	q, b := im.Seq(s.Entry.Rel.Thread), bu.b
	th := c.log.threads[q]
	th.size, th.pos = th.size+1, b.pos()
	c.log.threads[q] = th
	s.Entry.ThreadN = th.size
	mark, err := (&storepb.Thread{Size: th.size, Last: s.Entry.Seq}).MarshalVT()
	im.Assert(err == nil, "encode the mark of a thread: %v", err)
	b.commit.Marks = append(b.commit.Marks, store.MarkPut{Conv: c.key, Kind: store.MarkThread, Seq: q, Value: mark})
}

// mention returns the mentions that s adds or removes; nil if there are none. s has its seq already. A withheld
// message mentions nobody. Spec: P-5.13.
func (bu *builder) mention(c *conv, s *Send, next *info) *mentioning {
	from, q := im.User(s.Entry.From), im.Seq(s.Entry.Seq)
	if s.Entry.GetRecall() != nil {
		if t := bu.rewriter.targets[0]; t.head.Flags&store.RowWithheld == 0 {
			return unmention(c, next, &t.m, q, bu.b.pos())
		}
		return nil
	}
	if s.Entry.Rel == nil || next.deafTo(from) != "" {
		return nil
	}
	return mention(c, next, from, s.Entry.Rel, q, bu.b.pos())
}

// withhold marks the row of s as withheld if only its sender may read it, and reports whether it did. s has its
// seq already. If the message would count as unread, withhold adds it to the hidden ones of the other user, as it does
// with messages that wait. A recall of a message that both may read is for both. Spec: P-5.4, P-14.12.
func (bu *builder) withhold(c *conv, s *Send, head *store.RowHead) bool {
	from, in := im.User(s.Entry.From), c.log.info
	if from == "" {
		return false
	}
	withheld := s.Entry.GetRecall() == nil && in.isWithheld(from) || bu.rewriter.withholds(s)
	if withheld {
		head.Flags |= store.RowWithheld
	} else if !in.isWaiting(from) {
		return false
	}
	switch s.Entry.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		if besideMain(s.Entry.Rel) {
			break
		}
		c.log.hidden = c.log.hidden.with(1 - sideOf(in.record, from))
	}
	return withheld
}

// inboxKind returns the kinds of an inbox entry in the feed, beside FeedInbox; 0: there are none.
func inboxKind(e *petrelv1.InboxEntry) uint32 {
	if e.GetSnapshot().GetLast() {
		return FeedCompacted
	}
	if s := e.GetSettings(); s.GetUser() != "" {
		if _, ok := s.Values[Blocked]; ok {
			return FeedBlocks
		}
	}
	return 0
}

// write adds the conversation's record and the records of members that s changes to the commit.
func (bu *builder) write(c *conv, s *Send, next *info) {
	before, b := c.log.info, bu.b
	if next.record != before.record {
		b.commit.Convs = append(b.commit.Convs, store.ConvPut{Conv: c.key, Record: next.record})
	}
	var changed []im.User
	switch {
	case next.members == before.members:
	case before.record == nil || !policy.Of(c.key.Conv.Kind()).Members: // new, or restored
		changed = next.members.users()
	default:
		changed = before.members.changed(s.Entry.GetMembers())
	}
	for _, u := range changed {
		b.commit.Members = append(b.commit.Members, store.MemberPut{Conv: c.key, User: u,
			Record: next.members.record(u, c.log.head, b.pos())})
	}
}
