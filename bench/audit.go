package bench

import (
	"fmt"
)

// audit keeps the books of a run, in both directions: what was acked must reach
// everybody it is for, once, in order, at the acked place, unchanged; and
// what arrives must have been sent. It remembers 12 bytes for each message and
// nothing for each delivery that goes as it should.
//
// One goroutine at a time.
type audit struct {
	corpus  *corpus
	senders []senderBook
	convs   []*convBook
	byID    map[string]*convBook // those whose id is known

	early map[string][]earlyEntry // by the id of a conversation that is not known yet

	found     Findings
	witnesses []string
}

// earlyEntry is an entry of no sender that came before the first message told
// which of our conversations its id belongs to.
type earlyEntry struct {
	conn int
	seq  uint64
}

// Findings counts what must not happen.
type Findings struct {
	Lost      uint64 `json:"lost"`      // deliveries of a stored message that somebody entitled to it never got
	Duplicate uint64 `json:"duplicate"` // deliveries beyond the first, and messages stored twice
	Ghost     uint64 `json:"ghost"`     // deliveries of what was never sent, was refused, was altered, or was for somebody else
	Reordered uint64 `json:"reordered"` // out of order, or at another place than the acked one
}

// maxWitnesses bounds the explanations in a report.
const maxWitnesses = 20

// senderBook is what is known of one sender's messages.
type senderBook struct {
	user     string
	conn     int
	threads  []thread // in turn: message 1 goes to the first
	composed uint64
	acked    uint64
	rejected uint64

	places pages[uint32] // by number: the seq; 0: not known; refused
}

// thread is a conversation that a sender writes to.
type thread struct {
	conv    *convBook
	lastNum uint64 // highest number acked at its first attempt
	lastSeq uint64
}

// thread is where a message goes.
func (s *senderBook) thread(number uint64) *thread {
	return &s.threads[(number-1)%uint64(len(s.threads))]
}

// refused stands for the seq of a message that was rejected.
const refused = ^uint32(0)

// convBook is what is known of one conversation. A direct one has two streams,
// of its sender and of its receiver; a group has one for each connection.
type convBook struct {
	id      string // empty until it is known
	index   int
	members [2]int // connections of a direct conversation: sender, receiver
	group   bool
	head    uint64        // highest seq known to be stored
	places  pages[uint64] // by seq: what is there
	streams []stream
}

// A place of convBook: the sender's ordinal and the number of the message, and
// how it is known.
const (
	placeAcked   = 1 << 63
	placeSeen    = 1 << 62 // pushed or read
	placeForeign = 1 << 61 // an entry that no sender of this run made, a change of members for example
	placeWhat    = 1<<61 - 1
)

func placeOf(p proof) uint64 { return uint64(p.sender)<<36 | p.number&(1<<36-1) }

// stream is what one connection has got of one conversation: everything below
// next but the gaps.
type stream struct {
	next    uint64 // the seq that comes next; begins at what the sync said
	gaps    []span
	history uint64 // highest seq that came by a history page, not by a push
	gone    bool   // its connection has ended: what is missing is not lost by that alone
}

type span struct{ from, to uint64 } // both included

// newStream is a stream of somebody who knows everything up to head.
func newStream(head uint64) stream { return stream{next: head + 1} }

type arrival uint8

const (
	fresh   arrival = iota
	late            // fills a gap: it should have come before
	repeat          // is here already
	dropped         // is here already, by a history page: a push may repeat that
)

// push takes a seq that was pushed.
func (s *stream) push(seq uint64) arrival {
	switch {
	case seq == s.next:
		s.next++
		return fresh
	case seq > s.next:
		s.gaps = append(s.gaps, span{s.next, seq - 1})
		s.next = seq + 1
		return fresh
	case s.fill(seq):
		return late
	case seq <= s.history:
		return dropped
	}
	return repeat
}

// read takes a seq from a history page, or of the ack of a repeated send;
// those may bring what is here already.
func (s *stream) read(seq uint64) arrival {
	s.history = max(s.history, seq)
	switch {
	case seq >= s.next:
		return s.push(seq)
	case s.fill(seq):
		return fresh
	}
	return dropped
}

// fill removes seq from the gaps and reports whether it was in one.
func (s *stream) fill(seq uint64) bool {
	for i, g := range s.gaps {
		if seq < g.from || seq > g.to {
			continue
		}
		switch {
		case g.from == g.to:
			s.gaps = append(s.gaps[:i], s.gaps[i+1:]...)
		case seq == g.from:
			s.gaps[i].from++
		case seq == g.to:
			s.gaps[i].to--
		default:
			s.gaps[i].to = seq - 1
			s.gaps = append(s.gaps, span{seq + 1, g.to})
		}
		return true
	}
	return false
}

// lowest is the lowest seq that is missing.
func (s *stream) lowest() uint64 {
	low := s.next
	for _, g := range s.gaps {
		low = min(low, g.from)
	}
	return low
}

// missing counts what is missing up to head.
func (s *stream) missing(head uint64) (n uint64) {
	for _, g := range s.gaps {
		n += g.to - g.from + 1
	}
	if head >= s.next {
		n += head - s.next + 1
	}
	return n
}

func (v *convBook) stream(conn int) *stream {
	switch {
	case v.group:
		if conn < len(v.streams) {
			return &v.streams[conn]
		}
	case conn == v.members[0]:
		return &v.streams[0]
	case conn == v.members[1]:
		return &v.streams[1]
	}
	return nil
}

func (v *convBook) String() string {
	if v.id == "" {
		return fmt.Sprintf("conversation %d", v.index)
	}
	return v.id
}

// newAudit makes the books of a run without conversations.
func newAudit(c *corpus) *audit {
	return &audit{corpus: c, byID: map[string]*convBook{}, early: map[string][]earlyEntry{}, witnesses: []string{}}
}

// learn notes the id of a direct conversation.
func (a *audit) learn(v *convBook, id string) {
	v.id = id
	a.byID[id] = v
	for _, e := range a.early[id] {
		if s := v.stream(e.conn); s != nil {
			a.foreign(v, e.seq)
			a.count(v, e.conn, e.seq, s.push(e.seq))
		}
	}
	delete(a.early, id)
}

// foreign books an entry that no sender of this run made.
func (a *audit) foreign(v *convBook, seq uint64) {
	*v.places.at(seq) = placeForeign | placeSeen
	v.head = max(v.head, seq)
}

// addDirect opens the book of a direct conversation between two connections,
// in which the first one sends.
func (a *audit) addDirect(sender, receiver int) *convBook {
	v := &convBook{index: len(a.convs), members: [2]int{sender, receiver}, streams: []stream{newStream(0), newStream(0)}}
	a.convs = append(a.convs, v)
	return v
}

// addGroup opens the book of a group of connections 0..members-1.
func (a *audit) addGroup(id string, members int) *convBook {
	v := &convBook{id: id, index: len(a.convs), group: true, streams: make([]stream, members)}
	a.byID[id] = v
	for i := range v.streams {
		v.streams[i] = newStream(0)
	}
	a.convs = append(a.convs, v)
	return v
}

// addSender gives a sender, who writes to convs in turn, its ordinal.
func (a *audit) addSender(user string, conn int, convs ...*convBook) uint32 {
	s := senderBook{user: user, conn: conn}
	for _, v := range convs {
		s.threads = append(s.threads, thread{conv: v})
	}
	a.senders = append(a.senders, s)
	return uint32(len(a.senders) - 1)
}

// witness keeps one explanation.
func (a *audit) witness(format string, args ...any) {
	if len(a.witnesses) < maxWitnesses {
		a.witnesses = append(a.witnesses, fmt.Sprintf(format, args...))
	}
}

// compose counts a message that is about to be sent and returns its number.
func (a *audit) compose(sender uint32) uint64 {
	a.senders[sender].composed++
	return a.senders[sender].composed
}

// ack takes the ack of a message. repeated says that it was sent more than
// once: then the seq may be an old one.
func (a *audit) ack(sender uint32, number, seq uint64, repeated bool) {
	s := &a.senders[sender]
	t := s.thread(number)
	v := t.conv
	s.acked++
	a.place(v, seq, proof{sender: sender, number: number}, placeAcked)
	if repeated {
		v.stream(s.conn).read(seq)
		return
	}
	if number > t.lastNum {
		if seq <= t.lastSeq {
			a.found.Reordered++
			a.witness("%s: message %d of %s is acked at seq %d, the one before at %d", v, number, s.user, seq, t.lastSeq)
		}
		t.lastNum, t.lastSeq = number, seq
	}
	a.count(v, s.conn, seq, v.stream(s.conn).push(seq))
}

// ghostAck takes an ack that answers nothing.
func (a *audit) ghostAck(conn int, id uint64) {
	a.found.Ghost++
	a.witness("connection %d got an ack of %d, which is not waiting for one", conn, id)
}

// reject takes a settled error.
func (a *audit) reject(sender uint32, number uint64) {
	s := &a.senders[sender]
	s.rejected++
	place := s.places.at(number)
	if *place != 0 && *place != refused {
		a.found.Ghost++
		a.witness("%s: message %d of %s is rejected and stored at seq %d", s.thread(number).conv, number, s.user, *place)
	}
	*place = refused
}

// pushed takes an event that connection conn got. It returns when the message
// was sent and whether this is its first arrival there.
func (a *audit) pushed(conn int, e *entry) (sentNs int64, first bool) {
	v, p, ok := a.recognise(conn, e)
	if v == nil {
		return 0, false
	}
	came := v.stream(conn).push(e.seq)
	a.count(v, conn, e.seq, came)
	if !ok {
		return 0, false
	}
	return p.sentNs, came == fresh || came == late
}

// readBack takes an entry of a history page that connection conn asked for;
// below 0, nobody did.
func (a *audit) readBack(conn int, e *entry) (sentNs int64, first bool) {
	v, p, ok := a.recognise(conn, e)
	if v == nil || conn < 0 {
		return 0, false
	}
	came := v.stream(conn).read(e.seq)
	return p.sentNs, ok && came == fresh
}

// count books an arrival that should not be.
func (a *audit) count(v *convBook, conn int, seq uint64, came arrival) {
	switch came {
	case late:
		a.found.Reordered++
		a.witness("%s: connection %d got seq %d behind a higher one", v, conn, seq)
	case repeat:
		a.found.Duplicate++
		a.witness("%s: connection %d got seq %d twice", v, conn, seq)
	}
}

// recognise finds out which message e is and books its place. The conversation
// is nil when e is none of this run's; ok is false when it is no message of a
// sender, or a ghost.
func (a *audit) recognise(conn int, e *entry) (v *convBook, p proof, ok bool) {
	if len(e.conv) > 0 && e.conv[0] == 'i' {
		return nil, proof{}, false // an inbox
	}
	if e.hasText {
		if p, ok = a.corpus.read(e.text); ok && int(p.sender) < len(a.senders) {
			if v = a.ours(e, p); v != nil && (conn < 0 || v.stream(conn) != nil) {
				a.place(v, e.seq, p, placeSeen)
				return v, p, true
			}
		}
	}
	if v = a.named(e.conv); v != nil && conn >= 0 && v.stream(conn) == nil {
		v = nil
	}
	if len(e.from) == 0 && !e.hasText && e.seq > 0 && e.seq < uint64(refused) {
		if v != nil {
			a.foreign(v, e.seq)
		} else {
			a.early[string(e.conv)] = append(a.early[string(e.conv)], earlyEntry{conn, e.seq})
		}
		return v, proof{}, false
	}
	a.found.Ghost++
	a.witness("%s seq %d from %q: connection %d got what was not sent: %.60q", e.conv, e.seq, e.from, conn, e.text)
	return v, proof{}, false
}

// ours is the conversation of e if e is, in all its parts, what the sender in
// its proof has composed.
func (a *audit) ours(e *entry, p proof) *convBook {
	s := &a.senders[p.sender]
	if p.number == 0 || p.number > s.composed || string(e.from) != s.user || !a.corpus.isID(e.id, p.sender, p.number) {
		return nil
	}
	v := s.thread(p.number).conv
	if v.id == "" { // the event of a first message may come before its ack
		a.learn(v, string(e.conv))
	}
	if v.id != string(e.conv) {
		return nil
	}
	return v
}

// named is the conversation with an id, nil if it is none of this run.
func (a *audit) named(id []byte) *convBook {
	return a.byID[string(id)]
}

// place books that a message is at a seq, and compares with what is known.
func (a *audit) place(v *convBook, seq uint64, p proof, how uint64) {
	if seq == 0 || seq >= uint64(refused) {
		a.found.Ghost++
		a.witness("%s: seq %d is none", v, seq)
		return
	}
	v.head = max(v.head, seq)
	here := v.places.at(seq)
	what := placeOf(p)
	switch {
	case *here == 0:
		*here = what | how
	case *here&(placeWhat|placeForeign) == what:
		*here |= how
	default:
		a.found.Reordered++
		a.witness("%s: two entries at seq %d, one of them message %d of %s", v, seq, p.number, a.senders[p.sender].user)
		return
	}
	known := a.senders[p.sender].places.at(p.number)
	switch *known {
	case uint32(seq):
	case 0:
		*known = uint32(seq)
	case refused:
		a.found.Ghost++
		a.witness("%s: message %d of %s was rejected and is at seq %d", v, p.number, a.senders[p.sender].user, seq)
	default:
		if other := *v.places.at(uint64(*known)); how == placeSeen && other&placeSeen != 0 {
			a.found.Duplicate++
		} else {
			a.found.Reordered++
		}
		a.witness("%s: message %d of %s is at seq %d and at %d", v, p.number, a.senders[p.sender].user, *known, seq)
	}
}

// complete reports whether every connection that is still there has got
// everything that is known to be stored.
func (a *audit) complete() bool {
	for _, v := range a.convs {
		for i := range v.streams {
			if s := &v.streams[i]; !s.gone && (s.next <= v.head || len(s.gaps) > 0) {
				return false
			}
		}
	}
	return true
}

// close counts what is missing, and what belongs to no conversation of ours,
// and returns the findings.
func (a *audit) close() Findings {
	for id, es := range a.early {
		a.found.Ghost += uint64(len(es))
		a.witness("%s: an entry of a conversation that is none of this run", id)
	}
	for _, v := range a.convs {
		for i := range v.streams {
			s := &v.streams[i]
			if n := s.missing(v.head); n > 0 {
				a.found.Lost += n
				a.witness("%s: stream %d lacks %d of %d entries, the first at seq %d", v, i, n, v.head, s.lowest())
			}
		}
	}
	return a.found
}

// unknown counts the messages that were sent and have no answer.
func (a *audit) unknown() (n uint64) {
	for i := range a.senders {
		s := &a.senders[i]
		n += s.composed - s.acked - s.rejected
	}
	return n
}
