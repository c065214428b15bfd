package bench

import (
	"fmt"

	"github.com/petrel-im/petrel/internal/checker"
)

// audit keeps the books of a run: it records (books) what was sent, acked, pushed and read, and compares that in both
// directions. Each acked message must reach all its recipients, once, in order, at the acked seq, unchanged. Each
// arriving message must have been sent. The books take 12 bytes for each message and nothing for a correct delivery.
//
// One goroutine at a time uses it.
type audit struct {
	corpus  *corpus
	senders []senderBook
	convs   []*convBook
	byID    map[string]*convBook // those whose id is known

	early map[string][]earlyEntry // by the id of a conversation that is not known yet

	checker.Verdict
}

// earlyEntry is an entry of the server that came before the audit knew to which conversation of the run its id
// belongs.
type earlyEntry struct {
	conn int
	seq  uint64
}

// senderBook is the book of one sender's messages.
type senderBook struct {
	user     string
	conn     int
	threads  []thread // message 1 goes to the first, message 2 to the second, and so on in turn
	composed uint64
	acked    uint64
	rejected uint64

	places checker.Pages[uint32] // by number: the seq; 0: not known; checker.None: rejected
}

// thread is a conversation that a sender writes to.
type thread struct {
	conv    *convBook
	lastNum uint64 // highest number acked at its first attempt
	lastSeq uint64
}

// thread returns the conversation of a message.
func (s *senderBook) thread(number uint64) *thread {
	return &s.threads[(number-1)%uint64(len(s.threads))]
}

// convBook is the book of one conversation. A direct one has two streams, of its sender and of its receiver; a
// group has one for each member.
type convBook struct {
	id      string // empty until it is known
	index   int
	members [2]int // connections of a direct conversation: sender, receiver
	group   bool
	first   int // the first connection of a group; the others follow it
	streams []checker.Stream

	checker.Places
}

func placeOf(p proof) uint64 { return uint64(p.sender)<<36 | p.number&(1<<36-1) }

func (v *convBook) stream(conn int) *checker.Stream {
	switch {
	case v.group:
		if i := conn - v.first; i >= 0 && i < len(v.streams) {
			return &v.streams[i]
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
	return &audit{corpus: c, byID: map[string]*convBook{}, early: map[string][]earlyEntry{}}
}

// learn notes the id of a direct conversation, and books the entries of the server that came before.
func (a *audit) learn(v *convBook, id string) {
	v.id = id
	a.byID[id] = v
	for _, e := range a.early[id] {
		if s := v.stream(e.conn); s != nil {
			a.foreign(v, e.seq)
			a.count(v, e.conn, e.seq, s.Push(e.seq))
		}
	}
	delete(a.early, id)
}

// foreign books an entry that no sender of this run made.
func (a *audit) foreign(v *convBook, seq uint64) {
	if v.Foreign(seq, checker.ByClient) {
		a.convict(checker.Altered, v, seq, "%s: an entry of the server stands at seq %d, where a message was", v, seq)
	}
}

// addDirect opens the book of a direct conversation between two connections, in which the first one sends.
func (a *audit) addDirect(sender, receiver int) *convBook {
	v := &convBook{index: len(a.convs), members: [2]int{sender, receiver},
		streams: []checker.Stream{checker.NewStream(0), checker.NewStream(0)}}
	a.convs = append(a.convs, v)
	return v
}

// addGroup opens the book of a group. Its members are the connections from first to first+members-1.
func (a *audit) addGroup(id string, first, members int) *convBook {
	v := &convBook{id: id, index: len(a.convs), group: true, first: first, streams: make([]checker.Stream, members)}
	a.byID[id] = v
	for i := range v.streams {
		v.streams[i] = checker.NewStream(0)
	}
	a.convs = append(a.convs, v)
	return v
}

// addSender gives an ordinal to a sender, who writes to convs in turn.
func (a *audit) addSender(user string, conn int, convs ...*convBook) uint32 {
	s := senderBook{user: user, conn: conn}
	for _, v := range convs {
		s.threads = append(s.threads, thread{conv: v})
	}
	a.senders = append(a.senders, s)
	return uint32(len(a.senders) - 1)
}

// convict books one finding.
func (a *audit) convict(c checker.Class, v *convBook, seq uint64, format string, args ...any) {
	conv := ""
	if v != nil {
		conv = v.id
	}
	a.Convict(c, 1, conv, seq, format, args...)
}

// compose counts a message that is about to be sent and returns its number.
func (a *audit) compose(sender uint32) uint64 {
	a.senders[sender].composed++
	return a.senders[sender].composed
}

// ack books the ack of a message. repeated says that the message was sent more than once: then its seq need not follow
// that of the message before, and the sender may have got it already.
func (a *audit) ack(sender uint32, number, seq uint64, repeated bool) {
	s := &a.senders[sender]
	t := s.thread(number)
	v := t.conv
	s.acked++
	a.place(v, seq, proof{sender: sender, number: number}, checker.ByAck)
	if repeated {
		v.stream(s.conn).Read(seq)
		return
	}
	if number > t.lastNum {
		if seq <= t.lastSeq {
			a.convict(checker.Reordered, v, seq, "%s: message %d of %s is acked at seq %d, the one before at %d", v,
				number, s.user, seq, t.lastSeq)
		}
		t.lastNum, t.lastSeq = number, seq
	}
	a.count(v, s.conn, seq, v.stream(s.conn).Push(seq))
}

// ghostAck books an ack with an id that no unanswered send of the connection has.
func (a *audit) ghostAck(conn int, id uint64) {
	a.convict(checker.Ghost, nil, 0, "connection %d got an ack of %d, which is not waiting for one", conn, id)
}

// reject books a message that the server rejected by a settled error. If the message is known to stand at a seq, that
// is a finding.
func (a *audit) reject(sender uint32, number uint64) {
	s := &a.senders[sender]
	s.rejected++
	place := s.places.At(number)
	if *place != 0 && *place != checker.None {
		a.convict(checker.Refused, s.thread(number).conv, uint64(*place),
			"%s: message %d of %s is rejected and stands at seq %d", s.thread(number).conv, number, s.user, *place)
	}
	*place = checker.None
}

// pushed books an entry that was pushed to connection conn. It returns when the message was sent, and whether this is
// the first push of a message of this run there.
func (a *audit) pushed(conn int, e *entry) (sentNs int64, first bool) {
	v, p, ok := a.recognise(conn, e)
	if v == nil {
		return 0, false
	}
	came := v.stream(conn).Push(e.seq)
	a.count(v, conn, e.seq, came)
	if !ok {
		return 0, false
	}
	return p.sentNs, came == checker.Fresh || came == checker.Late
}

// stored books an entry of a history page that no connection asked for, and reports whether it is a message of
// this run.
func (a *audit) stored(e *entry) bool {
	_, _, ok := a.recognise(-1, e)
	return ok
}

// readBack books an entry of a history page that connection conn asked for.
func (a *audit) readBack(conn int, e *entry) (sentNs int64, first bool) {
	v, p, ok := a.recognise(conn, e)
	if v == nil {
		return 0, false
	}
	came := v.stream(conn).Read(e.seq)
	return p.sentNs, ok && came == checker.Fresh
}

// count books an arrival as a finding if it is a repeat, or comes after a higher seq.
func (a *audit) count(v *convBook, conn int, seq uint64, came checker.Arrival) {
	switch came {
	case checker.Late:
		a.convict(checker.Reordered, v, seq, "%s: connection %d got seq %d after a higher one", v, conn, seq)
	case checker.Repeat:
		a.convict(checker.Duplicate, v, seq, "%s: connection %d got seq %d twice", v, conn, seq)
	}
}

// recognise identifies the message of e and books its place, or a finding. conn is -1 if the operator has read e. v is
// nil if e is in no conversation of this run, or in one of which conn is no member. ok says that e is a message that a
// sender of this run has sent.
func (a *audit) recognise(conn int, e *entry) (v *convBook, p proof, ok bool) {
	if len(e.conv) > 0 && e.conv[0] == 'i' {
		return nil, proof{}, false // an inbox
	}
	if e.hasText {
		if p, ok = a.corpus.read(e.text); ok && int(p.sender) < len(a.senders) {
			if v = a.ours(e, p); v != nil && (conn < 0 || v.stream(conn) != nil) {
				how := uint64(checker.ByClient)
				if conn < 0 {
					how = checker.ByHistory
				}
				a.place(v, e.seq, p, how)
				return v, p, true
			}
		}
	}
	if v = a.named(e.conv); v != nil && conn >= 0 && v.stream(conn) == nil {
		a.convict(checker.Leaked, v, e.seq, "%s: connection %d got seq %d and is no member", v, conn, e.seq)
		return nil, proof{}, false
	}
	if len(e.from) == 0 && !e.hasText && e.seq > 0 && e.seq < uint64(checker.None) {
		if v != nil {
			a.foreign(v, e.seq)
		} else {
			a.early[string(e.conv)] = append(a.early[string(e.conv)], earlyEntry{conn, e.seq})
		}
		return v, proof{}, false
	}
	class, what := checker.Ghost, "what was not sent"
	if a.altered(e, p, ok) {
		class, what = checker.Altered, "another body, sender or id than was sent"
	}
	a.convict(class, v, e.seq, "%s seq %d from %q: connection %d got %s: %.60q", e.conv, e.seq, e.from, conn, what,
		e.text)
	return v, proof{}, false
}

// searchedIDs is how many of a sender's newest messages are searched for an id.
const searchedIDs = 1 << 16

// altered reports whether an entry that equals no message of this run is one that was altered: its body, or its id and
// its sender, are those of a message that was sent to the conversation of the entry.
func (a *audit) altered(e *entry, p proof, proven bool) bool {
	if proven && int(p.sender) < len(a.senders) && p.number > 0 && p.number <= a.senders[p.sender].composed &&
		a.named(e.conv) == a.senders[p.sender].thread(p.number).conv {
		return true
	}
	for i := range a.senders {
		s := &a.senders[i]
		if s.user != string(e.from) {
			continue
		}
		for n := s.composed; n > 0 && n+searchedIDs > s.composed; n-- {
			if a.corpus.isID(e.id, uint32(i), n) && a.named(e.conv) == s.thread(n).conv {
				return true
			}
		}
	}
	return false
}

// ours returns the conversation of e if all parts of e are those of the message that p names; otherwise nil.
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

// named returns the conversation with an id, nil if it is none of this run.
func (a *audit) named(id []byte) *convBook {
	return a.byID[string(id)]
}

// place books that a message stands at a seq, by the evidence how. It is a finding if the message is known to stand
// elsewhere or to be rejected, or if another one stands there.
func (a *audit) place(v *convBook, seq uint64, p proof, how uint64) {
	s := &a.senders[p.sender]
	known := s.places.At(p.number)
	was := *known
	switch v.Place(seq, placeOf(p), how, known) {
	case checker.NoSeq:
		a.convict(checker.Ghost, v, seq, "%s: %d is not a valid seq", v, seq)
	case checker.Taken:
		a.convict(checker.Reordered, v, seq, "%s: two entries at seq %d, one of them message %d of %s", v, seq,
			p.number, s.user)
	case checker.Rejects:
		class := checker.Refused
		if how == checker.ByHistory {
			class = checker.Ghost
		}
		a.convict(class, v, seq, "%s: message %d of %s was rejected and is at seq %d", v, p.number, s.user, seq)
	case checker.Twice:
		a.convict(checker.Duplicate, v, seq, "%s: message %d of %s is at seq %d and at %d", v, p.number, s.user, was,
			seq)
	case checker.Moved:
		a.convict(checker.Reordered, v, seq, "%s: message %d of %s is at seq %d and at %d", v, p.number, s.user, was,
			seq)
	}
}

// complete reports whether all streams that are not Gone have everything that is known to be stored.
func (a *audit) complete() bool {
	for _, v := range a.convs {
		for i := range v.streams {
			if s := &v.streams[i]; !s.Gone && !s.Complete(v.Head) {
				return false
			}
		}
	}
	return true
}

// close books missing messages, and entries of conversations that stayed unknown, and returns all findings.
func (a *audit) close() checker.Findings {
	for id, es := range a.early {
		a.Convict(checker.Ghost, uint64(len(es)), id, es[0].seq,
			"%s: an entry of a conversation that is none of this run", id)
	}
	for _, v := range a.convs {
		for i := range v.streams {
			s := &v.streams[i]
			if n := s.Missing(v.Head); n > 0 {
				a.Convict(checker.Lost, n, v.id, s.Lowest(),
					"%s: stream %d lacks %d of %d entries, the first at seq %d", v, i, n, v.Head, s.Lowest())
			}
		}
	}
	return a.Findings
}

// unknown counts the messages that were sent and have no answer.
func (a *audit) unknown() (n uint64) {
	for i := range a.senders {
		s := &a.senders[i]
		n += s.composed - s.acked - s.rejected
	}
	return n
}
