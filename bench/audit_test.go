package bench

import (
	"testing"

	"github.com/petrel-im/petrel/internal/checker"
)

// book is an audit of one direct conversation, between connections 0 and 1, whose ops a test enters by hand.
type book struct {
	*audit
	t *testing.T
	v *convBook
}

func newBook(t *testing.T) *book {
	a := newAudit(newCorpus(1, 40))
	v := a.addDirect(0, 1)
	a.addSender("s", 0, v)
	a.learn(v, "dconv")
	return &book{a, t, v}
}

// sent composes messages up to n.
func (b *book) sent(n uint64) {
	for b.senders[0].composed < n {
		b.compose(0)
	}
}

func (b *book) entry(number, seq uint64) *entry {
	return &entry{conv: []byte("dconv"), from: []byte("s"), id: b.corpus.appendID(nil, 0, number),
		text: b.corpus.appendBody(nil, proof{0, number, 9}), hasText: true, seq: seq}
}

func (b *book) push(number, seq uint64) { b.pushed(1, b.entry(number, seq)) }

func (b *book) want(want checker.Findings) {
	b.t.Helper()
	if got := b.close(); got != want {
		b.t.Errorf("findings %v, want %v; %q", got, want, b.Witnesses)
	}
}

func TestTheBooksAreCleanInAnyOrderOfAckAndPush(t *testing.T) {
	b := newBook(t)
	b.sent(3)
	b.push(1, 1)
	b.ack(0, 1, 1, false)
	b.ack(0, 2, 2, false)
	b.push(2, 2)
	b.push(3, 3)
	b.ack(0, 3, 3, false)
	if !b.complete() || b.unknown() != 0 {
		t.Errorf("not complete, or %d unknown", b.unknown())
	}
	b.want(checker.Findings{})
}

func TestTheBooksFind(t *testing.T) {
	cases := []struct {
		name string
		do   func(b *book)
		want checker.Findings
	}{
		{"a loss in the middle", func(b *book) { b.push(1, 1); b.push(3, 3) }, checker.Findings{checker.Lost: 1}},
		{"a loss at the end", func(b *book) { b.push(1, 1); b.push(2, 2) }, checker.Findings{checker.Lost: 1}},
		{"everything lost", func(b *book) {}, checker.Findings{checker.Lost: 3}},
		{"a duplicate", func(b *book) { b.push(1, 1); b.push(2, 2); b.push(2, 2); b.push(3, 3) }, checker.Findings{checker.Duplicate: 1}},
		{"an old duplicate", func(b *book) { b.push(1, 1); b.push(2, 2); b.push(3, 3); b.push(1, 1) }, checker.Findings{checker.Duplicate: 1}},
		{"a reordered pair", func(b *book) { b.push(2, 2); b.push(1, 1); b.push(3, 3) }, checker.Findings{checker.Reordered: 1}},
		{"a message never sent", func(b *book) {
			b.push(1, 1)
			b.push(2, 2)
			b.push(3, 3)
			b.push(4, 4)
		}, checker.Findings{checker.Ghost: 1, checker.Lost: 0}},
		{"an altered body", func(b *book) {
			b.push(1, 1)
			e := b.entry(2, 2)
			e.text[30]++
			b.pushed(1, e)
			b.push(3, 3)
		}, checker.Findings{checker.Altered: 1}},
		{"another sender's name", func(b *book) {
			b.push(1, 1)
			e := b.entry(2, 2)
			e.from = []byte("t")
			b.pushed(1, e)
			b.push(3, 3)
		}, checker.Findings{checker.Altered: 1}},
		{"another client message id", func(b *book) {
			b.push(1, 1)
			e := b.entry(2, 2)
			e.id = b.corpus.appendID(nil, 0, 3)
			b.pushed(1, e)
			b.push(3, 3)
		}, checker.Findings{checker.Altered: 1}},
		{"a message for somebody else", func(b *book) {
			b.push(1, 1)
			b.push(2, 2)
			b.push(3, 3)
			b.pushed(2, b.entry(2, 2))
		}, checker.Findings{checker.Leaked: 1}},
		{"a message of another conversation", func(b *book) {
			b.push(1, 1)
			b.push(2, 2)
			b.push(3, 3)
			e := b.entry(3, 4)
			e.conv = []byte("dother")
			b.pushed(1, e)
		}, checker.Findings{checker.Ghost: 1}},
		{"two messages that changed places", func(b *book) { b.push(2, 1); b.push(1, 2); b.push(3, 3) }, checker.Findings{checker.Reordered: 2}},
		{"an entry of a conversation that is nobody's", func(b *book) {
			b.push(1, 1)
			b.push(2, 2)
			b.push(3, 3)
			b.pushed(1, &entry{conv: []byte("gelse"), seq: 1})
		}, checker.Findings{checker.Ghost: 1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.sent(3)
			for n := uint64(1); n <= 3; n++ {
				b.ack(0, n, n, false)
			}
			// The acks fill the sender's own stream. The audit does not raise the head for the ghost at seq 4.
			c.do(b)
			b.want(c.want)
		})
	}
}

func TestAMessageStoredTwiceIsADuplicate(t *testing.T) {
	b := newBook(t)
	b.sent(1)
	b.ack(0, 1, 1, false)
	b.push(1, 1)
	b.push(1, 2)
	b.v.streams[0].Read(2)
	b.want(checker.Findings{checker.Duplicate: 1})
}

func TestAPushAtAnotherPlaceThanTheAckedOneIsFound(t *testing.T) {
	b := newBook(t)
	b.sent(1)
	b.ack(0, 1, 1, false)
	b.push(1, 2)
	b.v.streams[0].Read(2)
	b.want(checker.Findings{checker.Reordered: 1, checker.Lost: 1})
}

func TestARejectedMessageMustNotArrive(t *testing.T) {
	for _, pushFirst := range []bool{false, true} {
		b := newBook(t)
		b.sent(2)
		b.ack(0, 1, 1, false)
		b.push(1, 1)
		if pushFirst {
			b.push(2, 2)
		}
		b.reject(0, 2)
		if !pushFirst {
			b.push(2, 2)
		}
		b.v.streams[0].Read(2)
		b.want(checker.Findings{checker.Refused: 1})
	}
}

func TestAcksOfOneSenderAscend(t *testing.T) {
	b := newBook(t)
	b.sent(2)
	b.push(2, 1)
	b.push(1, 2)
	b.ack(0, 1, 2, false)
	b.ack(0, 2, 1, false)
	if got := b.close(); got[checker.Reordered] == 0 || got.Sum() != got[checker.Reordered] {
		t.Errorf("findings %v", got)
	}
}

func TestHistoryFillsWhatALaggingClientMissed(t *testing.T) {
	b := newBook(t)
	b.sent(6)
	for n := uint64(1); n <= 6; n++ {
		b.ack(0, n, n, false)
	}
	b.push(1, 1)
	b.push(6, 6) // pushed on before the history page came
	for n := uint64(2); n <= 6; n++ {
		_, first := b.readBack(1, b.entry(n, n))
		if first != (n < 6) {
			t.Errorf("seq %d came for the first time: %v", n, first)
		}
	}
	b.push(5, 5) // an event may repeat what a page has brought
	b.want(checker.Findings{})
}

func TestAnEntryBeforeTheConversationIsKnownIsBookedLater(t *testing.T) {
	a := newAudit(newCorpus(1, 40))
	v := a.addDirect(0, 1)
	a.addSender("s", 0, v)
	b := &book{a, t, v}
	b.sent(1)
	for conn := range 2 {
		b.pushed(conn, &entry{conv: []byte("dconv"), seq: 1})
	}
	b.push(1, 2)
	b.ack(0, 1, 2, false)
	b.want(checker.Findings{})
}
