package petrel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	giveUp    = 30 * 24 * time.Hour // a message composed this long ago is not sent any more. Spec: P-4.8
	maxFailed = 256                 // messages shown as failed; beyond that the oldest is discarded. Spec: S-16.2
)

// Draft is a message to be sent. Exactly one of Conv and User is set, and at most one of Data, Edit, Recall and
// Forward. Without any of these four the body is Text.
type Draft struct {
	Conv string // conversation id
	User string // id of the other user of a direct conversation
	// ID is the client message id; "": a random one. An application that sets the ID may send the same draft
	// again, also from another process: the server stores it once. Such a send costs the server a look-up.
	ID   string
	Type string // kind of text or data, at most 64 bytes; "" means "text"
	Text string
	Data []byte

	ReplyTo uint64 // seq of the entry that the message answers; 0: none
	Silent  bool   // ask clients to notify nobody of the message

	// Thread is the seq of the message to whose thread this one belongs; 0: none. Such a
	// message does not count as unread unless it has AlsoMain. Spec: P-5.12.
	Thread   uint64
	AlsoMain bool

	// Mentions are the users whom the message is meant for in particular, at most 50, in
	// any order; MentionAll names all members, which in a group only admins and the owner
	// may do. Spec: P-5.13.
	Mentions   []string
	MentionAll bool

	// Forward is the message to copy. The server fills in its content and its author. Spec: P-5.10.
	Forward *petrelv1.Ref

	Edit   *petrelv1.Edit
	Recall *petrelv1.Recall
}

// SendState is the state of a message to be sent. Spec: P-4.9.
type SendState int

// The states of an Outgoing.
const (
	Sending    SendState = iota // queued, or on its way without an answer: show it as neither sent nor failed
	Sent                        // stored for ever, with a seq
	Rejected                    // not stored, and never will be
	Unknowable                  // ErrUnknowable
)

func (s SendState) String() string {
	return [...]string{"sending", "sent", "rejected", "unknowable"}[s]
}

// outgoing is a message in the outbox.
type outgoing struct {
	id       string
	composed time.Time
	lane     *lane
	n        uint64    // order of composition
	handle   *Outgoing // the application's handle; nil: it has none

	send  *petrelv1.Send // its after changes only as P-4.7 says
	state SendState
	conv  string // "" until known
	seq   uint64
	time  time.Time // when the server stored it
	err   error     // of the newest attempt
	safe  bool      // its row is durable: it may go out
	tried bool      // an attempt may have stored it, or may still do so
	look  bool      // the history above from has to be searched for it before it is sent
	from  uint64
	until uint64 // the new after, if the history cannot be searched
	stale bool   // its target is a seq of another history, so it is not sent any more
	fresh bool   // never sent, and composed under another history: the present head becomes its after
}

// lane is the queue of one conversation: one message at a time is under way, which keeps the order even when
// the server refuses one for the moment. Spec: P-4.3.
type lane struct {
	key   string
	queue []*outgoing // oldest first, not settled
	show  []*outgoing // oldest first, not among the entries of the conversation
	busy  int         // sends and searches under way: at most one, unless two lanes were joined
	ready bool        // in core.ready
	at    time.Time   // nothing is sent before
	fails int         // refusals in a row that named no time
}

// frame returns the draft as a send without its after.
func (d *Draft) frame(newID func() string) (*petrelv1.Send, error) {
	s := &petrelv1.Send{Conv: d.Conv, User: d.User, ClientMsgId: d.ID, Type: d.Type}
	if (d.Conv == "") == (d.User == "") {
		return nil, invalid("one of Conv and User is set")
	}
	if s.ClientMsgId == "" {
		s.ClientMsgId = newID()
	}
	bodies := 0
	if d.Data != nil {
		s.Body, bodies = &petrelv1.Send_Data{Data: d.Data}, bodies+1
	}
	if d.Edit != nil {
		s.Body, bodies = &petrelv1.Send_Edit{Edit: d.Edit}, bodies+1
	}
	if d.Recall != nil {
		s.Body, bodies = &petrelv1.Send_Recall{Recall: d.Recall}, bodies+1
	}
	if d.Forward != nil {
		bodies++
	}
	switch {
	case bodies > 1 || bodies == 1 && d.Text != "":
		return nil, invalid("a message has one body")
	case bodies == 0:
		s.Body = &petrelv1.Send_Text{Text: d.Text}
	}
	d.relate(s)
	if len(s.ClientMsgId) > 64 || len(s.Type) > 64 {
		return nil, invalid("an id and a type have at most 64 bytes")
	}
	for _, t := range append([]string{d.Conv, d.User, d.ID, d.Type, d.Text, d.Edit.GetText(), d.Edit.GetType(),
		d.Forward.GetConv()}, d.Mentions...) {
		if !utf8.ValidString(t) { // it would end the connection, P-2.4
			return nil, invalid("a text is not UTF-8")
		}
	}
	return s, nil
}

// relate sets the relations of the message, and the capabilities that the server needs to store it.
// Spec: P-4.10, P-5.8.
func (d *Draft) relate(s *petrelv1.Send) {
	names := len(d.Mentions) > 0 || d.MentionAll
	if d.ReplyTo != 0 || d.Silent || d.Forward != nil || d.Thread != 0 || d.AlsoMain || names {
		s.Rel = &petrelv1.Relations{
			ReplyTo: d.ReplyTo, Silent: d.Silent, ForwardOf: d.Forward, Thread: d.Thread, AlsoMain: d.AlsoMain,
			Mentions: slices.Compact(slices.Sorted(slices.Values(d.Mentions))), MentionAll: d.MentionAll,
		}
	}
	if s.Rel != nil || d.Edit.GetRel() != nil {
		s.Needs = []string{capRel}
	}
	if names {
		s.Needs = append(s.Needs, capMentions)
	}
}

// draft takes a message to be sent. It goes out once its row is in the store and kept was called. isNew is
// false for a draft that was taken before. Spec: P-4.9.
func (c *core) draft(d Draft) (o *outgoing, isNew bool, err error) {
	s, err := d.frame(c.newID)
	if err != nil {
		return nil, false, err
	}
	if old := c.sending[s.ClientMsgId]; old != nil {
		if proto.Equal(entryOf(s), entryOf(old.send)) {
			return old, false, nil
		}
		return nil, false, &Error{Code: CodeConflict, Message: "another message has this id", Settled: true}
	}
	return c.compose(s, d.ID == ""), true, nil
}

// kept is called when the row of o is written. The next turn makes the row durable; then o may be sent.
func (c *core) kept(o *outgoing) {
	c.toSync = append(c.toSync, o)
	c.wakeLane(o.lane)
	c.out.woken = true
}

// discard removes a message from the outbox and the store: a failed one, or one that waits because of a rate limit,
// which is certainly not stored. Other messages stay. Spec: S-13.10.
func (c *core) discard(o *outgoing) {
	waits := !o.tried && o.lane.busy == 0 && CodeOf(o.err) == CodeRateLimited
	if c.sending[o.id] == o && (o.failed() || waits) {
		c.remove(o)
		c.out.woken = true
	}
}

// failed reports whether o is Rejected or Unknowable. Such a message is shown until it is discarded.
func (o *outgoing) failed() bool { return o.state == Rejected || o.state == Unknowable }

// draft returns the draft of o without its ID, for another try.
func (o *outgoing) draft() Draft {
	s := o.send
	return Draft{
		Conv: s.Conv, User: s.User, Type: s.Type, Text: s.GetText(), Data: s.GetData(),
		Edit: s.GetEdit(), Recall: s.GetRecall(),
		ReplyTo: s.Rel.GetReplyTo(), Silent: s.Rel.GetSilent(), Forward: s.Rel.GetForwardOf(),
		Thread: s.Rel.GetThread(), AlsoMain: s.Rel.GetAlsoMain(), Mentions: slices.Clone(s.Rel.GetMentions()),
		MentionAll: s.Rel.GetMentionAll(),
	}
}

// compose makes s a message of the outbox and puts it into its lane. A message with a new id had no earlier
// attempt, so it gets an after. Spec: P-4.7.
func (c *core) compose(s *petrelv1.Send, newID bool) *outgoing {
	if v := c.convs[s.Conv]; v != nil && v.peer != "" { // one lane for a direct conversation
		s.Conv, s.User = "", v.peer
	}
	id := s.Conv
	if s.User != "" {
		id = c.direct[s.User]
	}
	if newID {
		after := uint64(0)
		if v := c.convs[id]; v != nil {
			after = v.head
		}
		s.After = &after
	}
	c.composed++
	o := &outgoing{id: s.ClientMsgId, composed: c.now, n: c.composed, send: s, conv: id}
	c.enqueue(o)
	c.touchOutgoing(o)
	return o
}

// touchOutgoing marks the shown state of o as changed. If the client does not know the direct conversation with
// its user yet, Change.Pending says so.
func (c *core) touchOutgoing(o *outgoing) {
	id := cmp.Or(o.conv, c.target(o))
	if id != "" {
		c.changed.touch(id)
	}
	if o.send.User != "" && c.direct[o.send.User] == "" {
		c.changed.Pending = true
	}
}

// enqueue appends o to its lane; a message with a known fate is only shown.
func (c *core) enqueue(o *outgoing) {
	key := "c:" + o.send.Conv
	if v := c.convs[o.send.Conv]; v != nil && v.peer != "" {
		key = "u:" + v.peer
	}
	if o.send.User != "" {
		key = "u:" + o.send.User
	}
	l := c.lanes[key]
	if l == nil {
		l = &lane{key: key}
		c.lanes[key] = l
	}
	o.lane = l
	if o.state == Sending {
		l.queue = append(l.queue, o)
	}
	l.show = append(l.show, o)
	c.sending[o.id] = o
}

// remove drops o from the outbox and the store.
func (c *core) remove(o *outgoing) {
	l := o.lane
	is := func(x *outgoing) bool { return x == o }
	l.queue = slices.DeleteFunc(l.queue, is)
	l.show = slices.DeleteFunc(l.show, is)
	delete(c.sending, o.id)
	c.put(outgoingKey(o.id), nil)
	c.dropLane(l)
	c.touchOutgoing(o)
}

func (c *core) dropLane(l *lane) {
	if len(l.show) == 0 && l.busy == 0 && c.lanes[l.key] == l {
		delete(c.lanes, l.key)
	}
}

// join merges the two lanes of a direct conversation, one by its id and one by its other user, when the client
// learns that both are the same conversation.
func (c *core) join(v *conv) {
	from := c.lanes["c:"+v.id]
	if from == nil || v.peer == "" {
		return
	}
	key := "u:" + v.peer
	to := c.lanes[key]
	if to == nil {
		to = &lane{key: key}
		c.lanes[key] = to
	}
	byAge := func(a, b *outgoing) int { return cmp.Compare(a.n, b.n) }
	for _, o := range from.show {
		o.lane = to
	}
	to.queue, to.show = append(to.queue, from.queue...), append(to.show, from.show...)
	slices.SortFunc(to.queue, byAge)
	slices.SortFunc(to.show, byAge)
	to.busy += from.busy
	from.queue, from.show = nil, nil
	delete(c.lanes, from.key)
	c.wakeLane(to)
}

func (c *core) wakeLane(l *lane) {
	if !l.ready && len(l.queue) > 0 {
		l.ready = true
		c.ready = append(c.ready, l)
	}
}

// byAge returns all messages of the outbox, settled ones too, in the order of composition.
func (c *core) byAge() []*outgoing {
	return slices.SortedFunc(maps.Values(c.sending), func(a, b *outgoing) int { return cmp.Compare(a.n, b.n) })
}

// lanesByAge returns the lanes with unsettled messages, by their oldest ones.
func (c *core) lanesByAge() []*lane {
	var all []*lane
	for _, l := range c.lanes {
		if len(l.queue) > 0 {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *lane) int { return cmp.Compare(a.queue[0].n, b.queue[0].n) })
	return all
}

// sendAll sends all messages that may go out.
func (c *core) sendAll(now time.Time) {
	lanes := c.ready
	c.ready = nil
	for i, l := range lanes {
		l.ready = false
		stay, full := c.sendLane(l, now)
		if stay && !l.ready {
			l.ready = true
			c.ready = append(c.ready, l)
		}
		if full {
			c.ready = append(c.ready, lanes[i+1:]...)
			return
		}
	}
}

// sendLane sends the first message of l. stay means that the lane has to be tried again, full that the window of
// the connection is full.
func (c *core) sendLane(l *lane, now time.Time) (stay, full bool) {
	for l.busy == 0 && len(l.queue) > 0 {
		o := l.queue[0]
		switch {
		case !o.safe:
			return true, false
		// Wait for the first sync: it may show that the message is stored, or that the server went back. A send
		// without after need not wait, because the server looks up its id.
		case o.send.After != nil && !c.live.synced:
			return true, false
		case now.Sub(o.composed) > giveUp:
			c.settle(o, Unknowable, ErrUnknowable)
			continue
		case now.Before(l.at):
			c.alarmAt(l.at)
			return true, false
		case o.stale && !o.look:
			c.giveUp(o, &Error{Code: CodeNoTarget,
				Message: "the server has gone back to an earlier state: the target belongs to the lost history", Settled: true})
			c.out.woken = true
			continue
		case o.fresh:
			o.fresh = false
			c.setAfter(o, c.headOf(o))
			c.out.woken = true
			return true, false
		case o.look && c.live.readsFull():
			return true, false
		case o.look:
			c.lookFor(o, o.from)
			return false, false
		}
		if stay, full = c.sendOne(l, o); !stay || full {
			return stay, full
		}
		// It was settled without being sent. The next one must not wait for it.
	}
	return false, false
}

// aims reports whether o means nothing without the entry that it names. Spec: P-5.3, P-5.10, P-5.12.
func (o *outgoing) aims() bool {
	if o.send.Rel.GetForwardOf() != nil || o.send.Rel.GetThread() != 0 {
		return true
	}
	switch o.send.Body.(type) {
	case *petrelv1.Send_Edit, *petrelv1.Send_Recall:
		return true
	}
	return false
}

// headOf returns the head of the conversation of o; 0 if it is not known.
func (c *core) headOf(o *outgoing) uint64 {
	if v := c.convs[c.target(o)]; v != nil {
		return v.head
	}
	return 0
}

func (c *core) target(o *outgoing) string {
	if o.send.User != "" {
		return c.direct[o.send.User]
	}
	return o.send.Conv
}

// setAfter sets another after, which may also be lower. It is stored before o is sent again.
func (c *core) setAfter(o *outgoing, after uint64) {
	s := proto.CloneOf(o.send)
	s.After = &after
	o.send = s
	o.safe = false
	c.store(o)
}

// sendOne sends o, if the window has room. stay without full means that o can never be sent and is settled.
// Spec: P-4.6.
func (c *core) sendOne(l *lane, o *outgoing) (stay, full bool) {
	lv := c.live
	f := &petrelv1.ClientFrame{Id: lv.nextID + 1, Body: &petrelv1.ClientFrame_Send{Send: o.send}}
	b, err := encode(c.o.json, f)
	if err != nil { // a text that is not UTF-8; in protobuf the server refuses it
		c.giveUp(o, &Error{Code: CodeInvalid, Message: err.Error(), Settled: true})
		return true, false
	}
	if limit := int(lv.welcome.GetLimits().GetFrameBytes()); limit > 0 && len(b) > limit {
		c.giveUp(o, &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the frame has %d bytes", len(b)), Settled: true})
		return true, false
	}
	if w := lv.welcome.Window; w != nil && lv.sends > 0 && (lv.sends >= int(w.Sends) ||
		lv.sendBytes+len(b) > int(w.Bytes)) {
		return true, true
	}
	lv.sends++
	lv.sendBytes += len(b)
	l.busy++
	c.askEncoded(asksSend, b, func(f *petrelv1.ServerFrame) {
		lv.sends--
		lv.sendBytes -= len(b)
		o.lane.busy--
		c.answered(o, f)
		c.wakeLane(o.lane)
		c.dropLane(o.lane)
	})
	return false, false
}

// giveUp settles a message that was refused or cannot be sent. After an attempt without an answer it is
// Unknowable: that attempt may have stored the message. It may also still be under way over an earlier
// connection, and be accepted later, for example when the user is a member again. Otherwise the message is
// Rejected. Spec: P-4.8, S-13.3.
func (c *core) giveUp(o *outgoing, e *Error) {
	if o.tried {
		c.settle(o, Unknowable, ErrUnknowable)
		return
	}
	c.settle(o, Rejected, e)
}

// answered applies the answer to an attempt; nil: the connection ended. Spec: P-4.8.
func (c *core) answered(o *outgoing, f *petrelv1.ServerFrame) {
	l := o.lane
	if o.state != Sending { // an entry of the history has settled it meanwhile
		return
	}
	e := f.GetError()
	switch {
	case f.GetAck() != nil:
		l.fails = 0
		c.acked(o, f.GetAck())
	case e == nil:
		o.tried = true
	case e.Settled:
		c.giveUp(o, fromWire(e))
	case e.Code == CodeTooOld:
		c.settle(o, Unknowable, ErrUnknowable)
	case (e.Code == CodeBehind || e.Code == CodeAfterAhead) && o.send.After != nil && !o.tried: // P-4.7: never stored
		c.setAfter(o, e.Head)
	case (e.Code == CodeBehind || e.Code == CodeAfterAhead) && o.send.After != nil:
		o.look, o.from, o.until = true, o.send.GetAfter(), e.Head
		if e.Code == CodeAfterAhead {
			o.from = 0
		}
	default:
		o.err = fromWire(e)
		c.touchOutgoing(o)
		o.tried = o.tried || e.Code != CodeRateLimited // only rate_limited ends the attempt for certain
		l.at = c.retryAt(e)
		if e.RetryAfterMs == 0 {
			l.at = c.now.Add(min(firstWait<<min(l.fails, 5), maxWait))
			l.fails++
		}
	}
}

// acked settles o as sent, and adds its entry to the conversation. Spec: P-6.7.
func (c *core) acked(o *outgoing, a *petrelv1.Ack) {
	id := a.Conv
	if id == "" {
		id = o.send.Conv
	}
	v := c.addConv(id)
	o.conv, o.seq, o.time = id, a.Seq, time.UnixMilli(int64(a.TimeMs))
	c.settle(o, Sent, nil)
	if !v.known {
		c.startSync()
	}
	v.head = max(v.head, a.Seq)
	if m := c.ownCopy(v, o.send, a); m != nil {
		c.entry(v, m)
	} else { // a history request brings the entry
		c.touch(v)
		c.repair(v)
	}
	if v.known && a.Seq <= v.have {
		c.passed(v)
	}
}

// ownCopy returns the entry that the send s became, from the fields of s and of its ack. The ack of a send
// without rel has no count, so the count comes from the entry before; nil means that the client does not know
// that count. Spec: P-4.3.
func (c *core) ownCopy(v *conv, s *petrelv1.Send, a *petrelv1.Ack) *petrelv1.Message {
	m := a.Message
	if m == nil {
		m = entryOf(s)
	}
	m.Conv, m.Seq, m.TimeMs, m.From, m.Counted = v.id, a.Seq, a.TimeMs, c.meta.User, a.Counted
	m.ThreadN = a.ThreadN
	if s.Rel != nil {
		return m
	}
	before, told := v.countedBefore(a.Seq)
	if !told {
		return nil
	}
	if m.Counted = before; counts(m) {
		m.Counted++
	}
	return m
}

// countedBefore returns the count of the entry below seq, if the client has all entries below seq, none above,
// and knows the count.
func (v *conv) countedBefore(seq uint64) (uint64, bool) {
	switch {
	case seq != v.have+1:
		return 0, false
	case v.have == 0:
		return 0, true
	case v.countedAt == v.have:
		return v.counted, true
	case len(v.entries) > 0 && v.entries[len(v.entries)-1].m.Seq == v.have:
		return v.entries[len(v.entries)-1].m.Counted, true
	}
	return 0, false
}

func entryOf(s *petrelv1.Send) *petrelv1.Message {
	m := &petrelv1.Message{ClientMsgId: s.ClientMsgId, Type: s.Type, Rel: s.Rel}
	switch b := s.Body.(type) {
	case *petrelv1.Send_Text:
		m.Body = &petrelv1.Message_Text{Text: b.Text}
	case *petrelv1.Send_Data:
		m.Body = &petrelv1.Message_Data{Data: b.Data}
	case *petrelv1.Send_Edit:
		m.Body = &petrelv1.Message_Edit{Edit: b.Edit}
	case *petrelv1.Send_Recall:
		m.Body = &petrelv1.Message_Recall{Recall: b.Recall}
	}
	return m
}

// settle ends the sending of o. The row of a stored message stays until its entry is there, so that a crash in
// between does not hide the message. The row of a failed one stays until it is discarded. If more than maxFailed
// have failed, the oldest of them is discarded. Spec: S-13.1, S-13.3.
func (c *core) settle(o *outgoing, s SendState, err error) {
	o.state, o.err, o.look = s, err, false
	o.lane.queue = slices.DeleteFunc(o.lane.queue, func(x *outgoing) bool { return x == o })
	if s != Sent {
		c.put(outgoingKey(o.id), o.row().Value)
	}
	c.out.settled = append(c.out.settled, o)
	c.touchOutgoing(o)
	if !o.failed() {
		return
	}
	failed := slices.DeleteFunc(c.byAge(), func(o *outgoing) bool { return !o.failed() })
	if len(failed) > maxFailed {
		c.discard(failed[0])
	}
}

// arrived removes from the outbox the message that has become m, an entry of conv. A message that is still being
// sent is settled as Sent first. A rejected one stays. Spec: P-4.7.
func (c *core) arrived(conv string, m *petrelv1.Message) {
	o := c.sending[m.ClientMsgId]
	if o == nil || o.state == Rejected {
		return
	}
	if o.state == Sending {
		o.stored(conv, m)
		c.settle(o, Sent, nil)
	}
	c.remove(o)
}

// passed removes from the outbox those sent messages of v whose seqs are at most have.
func (c *core) passed(v *conv) {
	for _, l := range c.lanesOf(v.id, v.peer) {
		for _, o := range slices.Clone(l.show) {
			if o.state == Sent && o.seq <= v.have {
				c.remove(o)
			}
		}
	}
}

func (c *core) lanesOf(conv, peer string) []*lane {
	var ls []*lane
	if l := c.lanes["c:"+conv]; l != nil {
		ls = append(ls, l)
	}
	if peer != "" {
		if l := c.lanes["u:"+peer]; l != nil {
			ls = append(ls, l)
		}
	}
	return ls
}

// lookFor searches the history of the conversation for o, in the entries above the seq from. Spec: P-4.7, P-6.6.
func (c *core) lookFor(o *outgoing, from uint64) {
	id := c.target(o)
	if id == "" { // the conversation does not exist yet, so o is not stored
		o.look = false
		c.setAfter(o, o.until)
		c.wakeLane(o.lane)
		c.out.woken = true
		return
	}
	lv := c.live
	o.lane.busy++
	lv.reads++
	q := &petrelv1.GetHistory{Conv: id, After: from, Limit: uint32(c.pageLimit)}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: q}}, func(f *petrelv1.ServerFrame) {
		lv.reads--
		if f != nil {
			lv.pages++
		}
		o.lane.busy--
		if o.state == Sending && f != nil {
			c.looked(o, from, f)
		}
		c.wakeLane(o.lane)
		c.dropLane(o.lane)
	})
}

// looked applies one page of a search.
func (c *core) looked(o *outgoing, from uint64, f *petrelv1.ServerFrame) {
	p, e := f.GetHistory(), f.GetError()
	switch {
	case e != nil && e.Retryable:
		o.from, o.lane.at = from, c.retryAt(e)
	case e != nil: // no member: the server's answer to the send says more
		o.look = false
		c.setAfter(o, o.until)
	case p != nil:
		for _, m := range p.Messages {
			if m.From == c.meta.User && m.ClientMsgId == o.id {
				o.stored(p.Conv, m)
				c.settle(o, Sent, nil)
				if v := c.convs[p.Conv]; v != nil && m.Seq <= v.have {
					c.passed(v)
				}
				return
			}
		}
		if removedSince(o, from, p) {
			c.settle(o, Unknowable, ErrUnknowable)
			return
		}
		if p.More && len(p.Messages) > 0 {
			c.lookFor(o, p.Messages[len(p.Messages)-1].Seq)
			return
		}
		o.look = false
		c.setAfter(o, p.Head)
	}
}

// removedSince reports whether retention may have removed o. It may have if from is above 0 and the entry after it is
// gone. It also may have if the beginning of the history is gone and the oldest entry left is younger than o.
func removedSince(o *outgoing, from uint64, p *petrelv1.HistoryPage) bool {
	return p.FirstSeq > from+1 && from > 0 ||
		p.FirstSeq > 1 && len(p.Messages) > 0 && p.Messages[0].Seq == p.FirstSeq &&
			p.Messages[0].TimeMs > uint64(o.composed.UnixMilli())
}

// stored records the place of the message in the history.
func (o *outgoing) stored(conv string, m *petrelv1.Message) {
	o.conv, o.seq, o.time = conv, m.Seq, time.UnixMilli(int64(m.TimeMs))
}
