package petrel

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// giveUp is how long after its composition a message is still sent. Spec: P-4.8.
const giveUp = 30 * 24 * time.Hour

// Draft is a message to be sent. One of Conv and User is set, and at most one
// of Data, Edit, Recall and Forward; with none of them the body is Text.
type Draft struct {
	Conv string // conversation id
	User string // user id: the direct conversation with them
	// ID is the client message id; "": made at random. An application that gives
	// its own may send the same draft again, from another process too: it is
	// stored once. That costs the server a look-up.
	ID   string
	Type string // kind of text or data, at most 64 bytes; "" means "text"
	Text string
	Data []byte

	ReplyTo uint64 // seq of the entry that the message answers; 0: none
	Silent  bool   // nobody is to be disturbed by the message

	// Thread is the seq of the message to whose thread this one belongs; 0: none. Such a
	// message does not count as unread unless it has AlsoMain. Spec: P-5.12.
	Thread   uint64
	AlsoMain bool

	// Mentions are the users whom the message is meant for in particular, at most 50, in
	// any order; MentionAll names all members, which in a group only admins and the owner
	// may do. Spec: P-5.13.
	Mentions   []string
	MentionAll bool

	// Forward is a message to copy: the server fills in what it says and whose it is.
	// Spec: P-5.10.
	Forward *petrelv1.Ref

	Edit   *petrelv1.Edit
	Recall *petrelv1.Recall
}

// SendState is that of a message to be sent. Spec: P-4.9.
type SendState int

// The states of an Outgoing.
const (
	Sending    SendState = iota // queued, sent, or of unknown outcome: neither sent nor failed
	Sent                        // stored for ever, with a seq
	Rejected                    // not stored, and never will be
	Unknowable                  // ErrUnknowable
)

func (s SendState) String() string {
	return [...]string{"sending", "sent", "rejected", "unknowable"}[s]
}

// Outgoing is a message on its way.
type Outgoing struct {
	ID       string    // client message id
	Composed time.Time // by the clock of this device

	c    *Client
	lane *lane
	n    uint64        // order of composition
	done chan struct{} // closed when the state is final

	// Guarded by Client.mu.
	send  *petrelv1.Send // its after changes only as P-4.7 says
	state SendState
	conv  string // "" until known
	seq   uint64
	time  time.Time // when the server stored it
	err   error     // of the newest attempt
	safe  bool      // its row is durable: it may go out
	tried bool      // an attempt may have stored it
	look  bool      // to be looked for in the history before it is sent
	from  uint64
	until uint64 // after, if the history does not tell
	stale bool   // its target is a seq of another history id: it is not sent any more
	fresh bool   // never sent, composed under another history id: after is the head now
}

// lane is the queue of one conversation: one message at a time is on its way,
// which keeps the order even when the server refuses one for the moment.
// Spec: P-4.3.
type lane struct {
	key   string
	queue []*Outgoing // oldest first, not settled
	show  []*Outgoing // oldest first, not among the entries of the conversation
	busy  int         // messages whose answer is awaited: at most one, unless two lanes turned out to be one
	ready bool        // in Client.ready
	at    time.Time   // nothing is sent before
	fails int         // refusals in a row that named no time
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Send takes a message and returns at once; it is sent when the client is
// connected, behind what was taken for the same conversation before. Once it is
// taken it is kept (in the store, if there is one) and sent again until its
// fate is known, at most 30 days. The error is that of a draft that cannot be
// sent, or of the store. Spec: P-4.
func (c *Client) Send(d Draft) (*Outgoing, error) {
	s, err := d.frame()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if old := c.sending[s.ClientMsgId]; old != nil {
		c.mu.Unlock()
		if proto.Equal(entryOf(s), entryOf(old.send)) {
			return old, nil
		}
		return nil, &Error{Code: CodeConflict, Message: "this client message id is on its way with another body", Settled: true}
	}
	o := c.compose(s, d.ID == "")
	row := o.row()
	c.mu.Unlock()
	if c.o.Store != nil {
		err = c.o.Store.Write([]Row{row})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.remove(o)
		return nil, fmt.Errorf("store message %s: %w", o.ID, err)
	}
	c.toSync = append(c.toSync, o)
	c.wakeLane(o.lane)
	c.notify()
	return o, nil
}

// frame is the draft as a send without its after.
func (d *Draft) frame() (*petrelv1.Send, error) {
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
	for _, t := range append([]string{d.Conv, d.User, d.ID, d.Type, d.Text, d.Edit.GetText(), d.Edit.GetType(), d.Forward.GetConv()}, d.Mentions...) {
		if !utf8.ValidString(t) { // it would end the connection, P-2.4
			return nil, invalid("a text is not UTF-8")
		}
	}
	return s, nil
}

// relate says what the message has to do with others, and that the server must
// understand it. Spec: P-4.10, P-5.8.
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

// compose fixes what all attempts have in common. A new id says that no earlier
// attempt was made: then it has an after. c.mu is held. Spec: P-4.7.
func (c *Client) compose(s *petrelv1.Send, newID bool) *Outgoing {
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
	o := &Outgoing{ID: s.ClientMsgId, Composed: time.Now(), c: c, n: c.composed, send: s, conv: id, done: make(chan struct{})}
	c.enqueue(o)
	if id != "" {
		c.changed.touch(id)
	}
	return o
}

func (c *Client) enqueue(o *Outgoing) {
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
	l.queue = append(l.queue, o)
	l.show = append(l.show, o)
	c.sending[o.ID] = o
}

// remove forgets o: it is among the entries, or a person has seen its fate.
func (c *Client) remove(o *Outgoing) {
	l := o.lane
	is := func(x *Outgoing) bool { return x == o }
	l.queue = slices.DeleteFunc(l.queue, is)
	l.show = slices.DeleteFunc(l.show, is)
	delete(c.sending, o.ID)
	c.dropLane(l)
	if o.conv != "" {
		c.changed.touch(o.conv)
	}
}

func (c *Client) dropLane(l *lane) {
	if len(l.show) == 0 && l.busy == 0 && c.lanes[l.key] == l {
		delete(c.lanes, l.key)
	}
}

// join makes one lane of those to a direct conversation by its id and by its
// other user, once it is known that they are the same.
func (c *Client) join(v *conv) {
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
	byAge := func(a, b *Outgoing) int { return cmp.Compare(a.n, b.n) }
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

func (c *Client) wakeLane(l *lane) {
	if !l.ready && len(l.queue) > 0 {
		l.ready = true
		c.ready = append(c.ready, l)
	}
}

// sendAll sends what may go out.
func (c *Client) sendAll(now time.Time) {
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

// sendLane sends the first message of l. stay: the lane has to be looked at
// again; full: the window of the connection is.
func (c *Client) sendLane(l *lane, now time.Time) (stay, full bool) {
	for l.busy == 0 && len(l.queue) > 0 {
		o := l.queue[0]
		switch {
		case !o.safe:
			return true, false
		// Its after comes from what the client knew before the connection, and so
		// does where to look for it. Without an after the server looks up the id.
		case o.send.After != nil && !c.live.synced:
			return true, false
		case now.Sub(o.Composed) > giveUp:
			c.settle(o, Unknowable, ErrUnknowable)
			continue
		case now.Before(l.at):
			c.alarmAt(l.at)
			return true, false
		case o.stale && !o.look:
			c.settle(o, Rejected, &Error{Code: CodeNoTarget, Message: "the server was put back to an earlier state after this was composed, and its target may be another message now", Settled: true})
			c.notify()
			continue
		case o.fresh:
			o.fresh = false
			c.raise(o, c.headOf(o))
			c.notify()
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

// aims tells whether o is nothing without the entry that it names. Spec: P-5.3, P-5.10,
// P-5.12.
func (o *Outgoing) aims() bool {
	if o.send.Rel.GetForwardOf() != nil || o.send.Rel.GetThread() != 0 {
		return true
	}
	switch o.send.Body.(type) {
	case *petrelv1.Send_Edit, *petrelv1.Send_Recall:
		return true
	}
	return false
}

// headOf is the head of the conversation o goes to; 0 if it is not known.
func (c *Client) headOf(o *Outgoing) uint64 {
	if v := c.convs[c.target(o)]; v != nil {
		return v.head
	}
	return 0
}

func (c *Client) target(o *Outgoing) string {
	if o.send.User != "" {
		return c.direct[o.send.User]
	}
	return o.send.Conv
}

// raise gives o another after; it is stored before it is sent again.
func (c *Client) raise(o *Outgoing, after uint64) {
	s := proto.CloneOf(o.send)
	s.After = &after
	o.send = s
	o.safe = false
	c.store(o)
}

// sendOne sends o within the window. stay without full: o cannot be sent, and is settled.
// Spec: P-4.6.
func (c *Client) sendOne(l *lane, o *Outgoing) (stay, full bool) {
	lv := c.live
	f := &petrelv1.ClientFrame{Id: lv.nextID + 1, Body: &petrelv1.ClientFrame_Send{Send: o.send}}
	b, err := lv.link.encode(f)
	if err != nil { // a text that is not UTF-8; with protobuf the server says so
		c.giveUp(o, &Error{Code: CodeInvalid, Message: err.Error(), Settled: true})
		return true, false
	}
	if limit := int(lv.welcome.GetLimits().GetFrameBytes()); limit > 0 && len(b) > limit {
		c.giveUp(o, &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the frame has %d bytes", len(b)), Settled: true})
		return true, false
	}
	if w := lv.welcome.Window; w != nil && lv.sends > 0 && (lv.sends >= int(w.Sends) || lv.sendBytes+len(b) > int(w.Bytes)) {
		return true, true
	}
	lv.sends++
	lv.sendBytes += len(b)
	l.busy++
	lv.nextID++
	lv.waiting[f.Id] = func(f *petrelv1.ServerFrame) {
		lv.sends--
		lv.sendBytes -= len(b)
		o.lane.busy--
		c.answered(o, f)
		c.wakeLane(o.lane)
		c.dropLane(o.lane)
	}
	lv.link.push(b)
	return false, false
}

// giveUp settles a message that cannot be sent on this connection. If it was tried on
// another one, it may be stored.
func (c *Client) giveUp(o *Outgoing, e *Error) {
	if o.tried {
		c.settle(o, Unknowable, ErrUnknowable)
		return
	}
	c.settle(o, Rejected, e)
}

// answered applies the answer to an attempt; nil: the connection ended.
// Spec: P-4.8.
func (c *Client) answered(o *Outgoing, f *petrelv1.ServerFrame) {
	l := o.lane
	if o.state != Sending { // it was met in the history meanwhile
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
		c.settle(o, Rejected, fromWire(e))
	case e.Code == CodeTooOld:
		c.settle(o, Unknowable, ErrUnknowable)
	case (e.Code == CodeBehind || e.Code == CodeAfterAhead) && o.send.After != nil && !o.tried: // P-4.7: never stored
		c.raise(o, e.Head)
	case (e.Code == CodeBehind || e.Code == CodeAfterAhead) && o.send.After != nil:
		o.look, o.from, o.until = true, o.send.GetAfter(), e.Head
		if e.Code == CodeAfterAhead {
			o.from = 0
		}
	default:
		o.tried, o.err = true, fromWire(e)
		l.at = retryAt(e)
		if e.RetryAfterMs == 0 {
			l.at = time.Now().Add(min(firstWait<<min(l.fails, 5), maxWait))
			l.fails++
		}
	}
}

// acked makes an entry of what was sent. Spec: P-6.7.
func (c *Client) acked(o *Outgoing, a *petrelv1.Ack) {
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
	} else { // the history tells the whole of it
		c.touch(v)
		c.repair(v)
	}
	if v.known && a.Seq <= v.have {
		c.passed(v)
	}
}

// ownCopy is the entry that a send has become: the fields of the send and those of the
// ack. Without rel the count is that of the entry before, and nil: the client does not
// hold that one. Spec: P-4.3.
func (c *Client) ownCopy(v *conv, s *petrelv1.Send, a *petrelv1.Ack) *petrelv1.Message {
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

// countedBefore is counted of the entry below seq, if that is the last one the
// client holds.
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

// settle ends the sending of o.
func (c *Client) settle(o *Outgoing, s SendState, err error) {
	o.state, o.err, o.look = s, err, false
	o.lane.queue = slices.DeleteFunc(o.lane.queue, func(x *Outgoing) bool { return x == o })
	c.put(outgoingKey(o.ID), nil)
	close(o.done)
	if o.conv != "" {
		c.changed.touch(o.conv)
	}
}

// arrived: the own message m is among the entries of conv. Spec: P-4.7.
func (c *Client) arrived(conv string, m *petrelv1.Message) {
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

// passed drops what was sent from what is shown as on its way, when the
// client's view has moved over its place.
func (c *Client) passed(v *conv) {
	for _, l := range c.lanesOf(v.id, v.peer) {
		for _, o := range slices.Clone(l.show) {
			if o.state == Sent && o.seq <= v.have {
				c.remove(o)
			}
		}
	}
}

func (c *Client) lanesOf(conv, peer string) []*lane {
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

// lookFor reads the history of o's conversation above from, to the end, for o.
// Spec: P-4.7, P-6.6.
func (c *Client) lookFor(o *Outgoing, from uint64) {
	id := c.target(o)
	if id == "" { // there is no such conversation yet, so it is not in it
		o.look = false
		c.raise(o, o.until)
		c.wakeLane(o.lane)
		c.notify()
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
func (c *Client) looked(o *Outgoing, from uint64, f *petrelv1.ServerFrame) {
	p, e := f.GetHistory(), f.GetError()
	switch {
	case e != nil && e.Retryable:
		o.from, o.lane.at = from, retryAt(e)
	case e != nil: // no member: the server's answer to the send says more
		o.look = false
		c.raise(o, o.until)
	case p != nil:
		for _, m := range p.Messages {
			if m.From == c.meta.User && m.ClientMsgId == o.ID {
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
		c.raise(o, p.Head)
	}
}

// removedSince tells whether retention may have removed o: entries above from
// are gone, and what is left is younger than o.
func removedSince(o *Outgoing, from uint64, p *petrelv1.HistoryPage) bool {
	return p.FirstSeq > from+1 && from > 0 ||
		p.FirstSeq > 1 && len(p.Messages) > 0 && p.Messages[0].Seq == p.FirstSeq && p.Messages[0].TimeMs > uint64(o.Composed.UnixMilli())
}

// stored notes where the history has the message.
func (o *Outgoing) stored(conv string, m *petrelv1.Message) {
	o.conv, o.seq, o.time = conv, m.Seq, time.UnixMilli(int64(m.TimeMs))
}

// Time is when the server stored the message, by its clock; zero until it is Sent.
func (o *Outgoing) Time() time.Time {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	return o.time
}

// State is how far the message is. conv and seq are set when it is Sent. err is
// an *Error when it is Rejected, and while it is Sending if the server has put
// it off: it is sent again then.
func (o *Outgoing) State() (s SendState, conv string, seq uint64, err error) {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	return o.state, o.conv, o.seq, o.err
}

// Done is closed when the state is final.
func (o *Outgoing) Done() <-chan struct{} { return o.done }

// Wait waits until the fate of the message is known: its seq, or an *Error that
// says why it is rejected, or ErrUnknowable. When ctx ends it is still on its
// way.
func (o *Outgoing) Wait(ctx context.Context) (seq uint64, err error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-o.done:
	}
	_, _, seq, err = o.State()
	return seq, err
}

// Draft is what was sent, for another try after a rejection; its ID is empty.
func (o *Outgoing) Draft() Draft {
	o.c.mu.Lock()
	s := o.send
	o.c.mu.Unlock()
	return Draft{
		Conv: s.Conv, User: s.User, Type: s.Type, Text: s.GetText(), Data: s.GetData(),
		Edit: s.GetEdit(), Recall: s.GetRecall(),
		ReplyTo: s.Rel.GetReplyTo(), Silent: s.Rel.GetSilent(), Forward: s.Rel.GetForwardOf(),
		Thread: s.Rel.GetThread(), AlsoMain: s.Rel.GetAlsoMain(), Mentions: slices.Clone(s.Rel.GetMentions()), MentionAll: s.Rel.GetMentionAll(),
	}
}

// Discard stops showing a message that is Rejected or Unknowable among those
// on their way. Others stay.
func (o *Outgoing) Discard() {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.state == Rejected || o.state == Unknowable {
		o.c.remove(o)
		o.c.notify()
	}
}
