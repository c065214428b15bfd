package crowd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const sendWindow = 16

func codeOf(err error) im.Code {
	if e, ok := errors.AsType[*im.Error](err); ok {
		return e.Code
	}
	return ""
}

// message is one message of a sender. Its body follows from sender and number, so that a stored row proves its
// origin.
type message struct {
	sender, n int
	conv      *conv
	frame     *petrelv1.Send
	tried     int
	id        uint64    // of its frame on this connection
	at        time.Time // when the frame was sent
	hold      time.Time // not sent again before
	probe     bool      // repeats an acked message with another body: the answer must be conflict
}

func (m *message) k() string { return fmt.Sprintf("%d-%d", m.sender, m.n) }

// bodyOf returns the body of message n of a sender.
func (w *Crowd) bodyOf(sender, n int) string {
	rng := rand.New(rand.NewPCG(w.seed, uint64(sender)<<40|uint64(n)))
	return fmt.Sprintf("%d|%d|%d|%s", w.seed, sender, n, strings.Repeat(strconv.FormatUint(rng.Uint64(), 36),
		rng.IntN(12)))
}

// sender sends messages over every crash: it keeps its window full, or the pace. A message without an answer is
// sent again with the same client message id and after, the oldest first.
type sender struct {
	w     *Crowd
	i     int
	role  Role
	convs []int // conversations of which it is a member, as indexes into Crowd.convs
	heads map[*conv]uint64
	rng   *rand.Rand
	turn  int // index into its conversations, with a pace

	quiet   atomic.Bool  // compose nothing more
	waiting atomic.Int64 // messages without an answer

	open  []*message // composed and without an answer, oldest first
	acked *message   // the last one, for probes
	url   string     // of the connection
	name  string     // of the connection, in the op log
	count int        // connections so far
	heard time.Time  // when the last frame came on it

	due time.Time // when the next message is composed, with a pace
}

func newSender(w *Crowd, i int, r Role) *sender {
	s := &sender{w: w, i: i, role: r, heads: map[*conv]uint64{}, rng: rand.New(rand.NewPCG(w.seed, uint64(100+i)))}
	for n, c := range w.convs {
		for _, m := range c.members {
			if m == r.User {
				s.convs = append(s.convs, n)
			}
		}
	}
	return s
}

func (s *sender) run(ctx context.Context) {
	for ctx.Err() == nil {
		c := s.w.dialAt(ctx, s.role, "sender", func(url string) { s.url = url })
		if c == nil {
			return
		}
		s.session(ctx, c)
		_ = c.Close() // it has ended
	}
}

// session sends over one connection until it ends.
func (s *sender) session(ctx context.Context, c *wiretest.Conn) {
	s.count++
	s.name = fmt.Sprintf("sender-%d-%d", s.i, s.count)
	for _, m := range s.open {
		m.id = 0
	}
	for ctx.Err() == nil {
		if !s.fill(c) {
			return
		}
		patience := 100 * time.Millisecond
		if pace := s.w.o.Pace; pace > 0 {
			patience = pace
		}
		one, cancel := context.WithTimeout(ctx, patience)
		f, err := c.Recv(one)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded): // quiet, or the server is busy
			if s.impatient() {
				return
			}
		case err != nil:
			return
		default:
			s.heard = time.Now()
			s.take(ctx, f)
		}
	}
}

// fill composes messages up to the window, and sends those that have no frame on this connection yet. It returns
// false when the connection is broken.
func (s *sender) fill(c *wiretest.Conn) bool {
	for !s.quiet.Load() && len(s.open) < sendWindow && s.isDue() {
		s.open = append(s.open, s.compose())
	}
	s.waiting.Store(int64(len(s.open)))
	for _, m := range s.open {
		if m.id != 0 || time.Now().Before(m.hold) {
			continue
		}
		if m.tried++; m.tried > 1 && !m.probe {
			s.w.Ledger.add(&s.w.Ledger.resent, 1)
		}
		s.w.Ledger.write(s.op(checker.Invoke, m, ""))
		id, err := c.SendAsync(m.frame)
		if err != nil {
			return false
		}
		m.id, m.at = id, time.Now()
	}
	return true
}

// impatient reports whether an answer on this connection is overdue while nothing else arrives: like the SDKs, a
// sender keeps a connection on which other frames arrive.
func (s *sender) impatient() bool {
	for _, m := range s.open {
		if p := s.w.o.Patience; p > 0 && m.id != 0 && time.Since(m.at) > p && time.Since(s.heard) > p {
			return true
		}
	}
	return false
}

// isDue reports whether it is time for another message.
func (s *sender) isDue() bool {
	pace, now := s.w.o.Pace, time.Now()
	if pace == 0 {
		return true
	}
	if now.Before(s.due) {
		return false
	}
	s.due = s.due.Add(pace)
	if s.due.Before(now) { // after a delay, it does not make up for the messages that it missed
		s.due = now.Add(pace)
	}
	return true
}

func (s *sender) compose() *message {
	if s.acked != nil && s.rng.IntN(50) == 0 {
		p := &message{sender: s.i, n: s.acked.n, conv: s.acked.conv, probe: true}
		p.frame = &petrelv1.Send{Conv: s.acked.frame.Conv, User: s.acked.frame.User,
			ClientMsgId: s.acked.frame.ClientMsgId, After: s.acked.frame.After}
		p.frame.Body = &petrelv1.Send_Text{Text: "another body"}
		return p
	}
	at := s.convs[s.rng.IntN(len(s.convs))]
	if s.w.o.Pace > 0 {
		s.turn++
		at = s.convs[s.turn%len(s.convs)]
	}
	m := &message{sender: s.i, n: s.w.Ledger.composed(s.i), conv: s.w.convs[at]}
	m.frame = &petrelv1.Send{ClientMsgId: m.k(), Body: &petrelv1.Send_Text{Text: s.w.bodyOf(s.i, m.n)}}
	if s.i%3 != 0 { // every third sender keeps no heads
		after := s.heads[m.conv]
		m.frame.After = &after
	}
	switch {
	case m.conv.a == "":
		m.frame.Conv = s.w.idOf(m.conv)
	case m.conv.a == s.role.User:
		m.frame.User = m.conv.b
	default:
		m.frame.User = m.conv.a
	}
	return m
}

// take applies a frame: events, or the answer to a message.
func (s *sender) take(ctx context.Context, f *petrelv1.ServerFrame) {
	l := s.w.Ledger
	for _, e := range f.GetEvents().GetMessages() {
		l.told(shown(checker.Read, s.role, "sender", s.name, e))
	}
	if f.Id == 0 {
		return
	}
	for i, m := range s.open {
		if m.id != f.Id {
			continue
		}
		switch a, e := f.GetAck(), f.GetError(); {
		case a != nil && m.probe:
			s.acks(m, a) // the checker reports that
		case a != nil:
			s.acks(m, a)
			s.stored(m, a)
		case e != nil && e.Settled && m.probe && e.Code == string(im.CodeConflict):
			l.write(s.op(checker.Rejected, m, ""))
			l.add(&l.conflicts, 1)
		case e != nil && e.Settled:
			l.write(s.op(checker.Rejected, m, ""))
			l.fault("%s of %s was refused: %s: %s", m.k(), s.role, e.Code, e.Message)
		case e != nil:
			m.id = 0 // nothing was decided: the same again
			l.write(s.op(checker.Unknown, m, ""))
			if !m.probe {
				l.add(&l.unsettled, 1)
			}
			m.hold = time.Now().Add(min(time.Duration(e.RetryAfterMs)*time.Millisecond, 100*time.Millisecond))
			if !e.Retryable {
				l.fault("%s of %s: %s: %s", m.k(), s.role, e.Code, e.Message)
			}
			return
		}
		s.open = append(s.open[:i], s.open[i+1:]...)
		s.waiting.Store(int64(len(s.open)))
		return
	}
}

// op returns an op about a message, in the conversation conv; "": the one of the message, if its id is known.
func (s *sender) op(kind checker.Kind, m *message, conv string) checker.Op {
	op := checker.Op{Kind: kind, User: s.role.User, Device: "sender", Session: s.name, ID: m.frame.ClientMsgId,
		Body: checker.Digest("", []byte(m.frame.GetText()))}
	if op.Conv = cmp.Or(conv, m.frame.Conv, s.w.idOf(m.conv)); m.frame.User != "" {
		op.To = m.frame.User
	}
	return op
}

// acks writes the op of an ack.
func (s *sender) acks(m *message, a *petrelv1.Ack) {
	op := s.op(checker.OK, m, a.Conv)
	op.Seq = a.Seq
	s.w.Ledger.write(op)
}

func (s *sender) stored(m *message, a *petrelv1.Ack) {
	if m.conv.a != "" {
		s.w.named(m.conv, a.Conv)
	}
	s.w.Ledger.ack(m, s.url, s.w.idOf(m.conv), a.Seq)
	s.heads[m.conv] = max(s.heads[m.conv], a.Seq)
	s.acked = m
}

// intrude sends to a group of which the outsider is no member: each send must be refused.
func (w *Crowd) intrude(ctx context.Context, r Role) {
	l := w.Ledger
	for n := 0; ctx.Err() == nil; n++ {
		c := w.dial(ctx, r, "outsider")
		if c == nil {
			return
		}
		for ctx.Err() == nil {
			op := checker.Op{Kind: checker.Invoke, User: r.User, Conv: w.convs[0].id, ID: fmt.Sprintf("zoe-%d", n),
				Body: checker.Digest("", []byte("let me in"))}
			l.write(op)
			_, err := c.Send(ctx, &petrelv1.Send{Conv: op.Conv, ClientMsgId: op.ID,
				Body: &petrelv1.Send_Text{Text: "let me in"}})
			if n++; err == nil {
				l.fault("somebody who is no member was acked")
			}
			if codeOf(err).Info().Settled {
				op.Kind = checker.Rejected
				l.write(op)
			}
			if code := codeOf(err); code == im.CodeNoConversation {
				l.add(&l.refused, 1)
			} else if wiretest.Unknown(err) {
				break
			}
			Wait(ctx, 5*time.Millisecond)
		}
		_ = c.Close() // it has ended
	}
}
