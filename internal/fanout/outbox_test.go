package fanout

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func want(t *testing.T, s *screen, frames ...string) {
	t.Helper()
	if d := cmp.Diff(frames, s.got()); d != "" {
		t.Errorf("frames (-want +got):\n%s", d)
	}
}

// Spec: P-6.4.
func TestOverflowIsOneLaggedFrameAndThenSilence(t *testing.T) {
	for _, shared := range []bool{true, false} {
		b := wire.AppendEvents(nil, protoTCP, [][]byte{row(1, "eve", "x")})
		s := connect(t, "bob", 3*len(b))
		var k WakeUps
		for i := range 10 {
			if took := s.out.pushed(b, shared, &k); took != (i < 3) {
				t.Errorf("event %d: taken %t", i, took)
			}
		}
		want(t, s, "1:x", "1:x", "1:x", "lagged")
		if s.out.pushed(b, shared, &k) {
			t.Error("a lagging outbox with room takes an event before the client has synced")
		}
		want(t, s)
		if !s.out.Resume() || s.out.Resume() {
			t.Error("Resume does not say once that it lagged")
		}
		if !s.out.pushed(b, shared, &k) {
			t.Error("no event is taken after Resume")
		}
		want(t, s, "1:x")
		for range 10 {
			s.out.pushed(b, shared, &k)
		}
		want(t, s, "1:x", "1:x", "1:x", "lagged")
	}
}

func TestEventThatNeverFitsMakesTheSessionSync(t *testing.T) {
	s := connect(t, "bob", 100)
	if s.out.pushed(event(1, 200), true, &WakeUps{}) {
		t.Error("an event above the limit was taken")
	}
	want(t, s, "lagged")
}

// Bytes that the transport holds count against the limit: if the socket is full, the
// client is slow.
func TestBacklogOfTheTransportCounts(t *testing.T) {
	b := event(1, 10)
	s := connect(t, "bob", 3*len(b))
	var k WakeUps
	s.out.pushed(b, true, &k)
	p, _ := s.out.Take()
	if got := s.out.Pending(); got != len(b) {
		t.Errorf("%d bytes wait while a piece is being written, want %d", got, len(b))
	}
	s.out.Wrote(p, 2*len(b)) // the transport also holds bytes of an earlier piece
	if !s.out.pushed(b, true, &k) || s.out.pushed(b, true, &k) {
		t.Error("with two thirds in the transport not exactly one event fits")
	}
	s.out.Backlog(0)
	s.out.Resume()
	if !s.out.pushed(b, true, &k) {
		t.Error("nothing fits after the transport has written")
	}
	if got := s.out.Pending(); got != 2*len(b)+len(wire.AppendFrame(nil, protoTCP, laggedFrame)) {
		t.Errorf("%d bytes wait", got)
	}
}

func TestNegativeLimitIsNone(t *testing.T) {
	s := connect(t, "bob", -1)
	for range 100 {
		if !s.out.pushed(event(1, 10_000), true, &WakeUps{}) {
			t.Fatal("an event is refused without a limit")
		}
	}
}

func TestAnswersAreNeverDropped(t *testing.T) {
	s := connect(t, "bob", 50)
	var k WakeUps
	var expected []string
	for i := range uint64(100) {
		s.out.pushed(event(1, 100), true, &k)
		if i == 0 {
			expected = append(expected, "lagged")
		}
		s.out.Answer(pong(i), &k)
		s.out.Window(1, -1, -1)
		Origin{Out: s.out, ID: i, Bytes: 1}.Reply(wire.Ack{Seq: i + 7}, nil, &k)
		s.out.Window(1, -1, -1)
		Origin{Out: s.out, ID: i, Bytes: 1}.Reply(wire.Ack{}, &im.Error{Code: im.CodeConflict}, &k)
		expected = append(expected, fmt.Sprint("pong ", i), fmt.Sprintf("ack %d of %d", i+7, i), fmt.Sprint("conflict of ", i))
	}
	want(t, s, expected...)
}

func TestNothingIsPushedBeforeTheWelcome(t *testing.T) {
	o := NewOutbox(protoTCP, NewFlusher(func() {}), 1<<20)
	s := &screen{t, o}
	var k WakeUps
	if o.pushed(event(1, 1), true, &k) || o.pushed(event(1, 1<<21), true, &k) {
		t.Error("an event was taken before the welcome")
	}
	want(t, s)
	o.Welcome(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{}}}, &k)
	if !o.pushed(wire.AppendEvents(nil, protoTCP, [][]byte{row(2, "eve", "hi")}), true, &k) {
		t.Error("an event was refused after the welcome")
	}
	want(t, s, "welcome", "2:hi")
	if o.Encoding() != protoTCP {
		t.Errorf("encoding %v", o.Encoding())
	}
}

// All outboxes of an encoding share the bytes of an event. An event that is added to one of
// them later must not appear in another.
func TestSharedBytesAreNotModified(t *testing.T) {
	b := append(make([]byte, 0, 4096), event(1, 30)...) // with free capacity, into which append would write
	kept := bytes.Clone(b[:cap(b)])
	alice, bob, carol := connect(t, "alice", 1<<20), connect(t, "bob", 1<<20), connect(t, "carol", 1<<20)
	var k WakeUps
	for _, s := range []*screen{alice, bob, carol} {
		s.out.pushed(b, true, &k)
	}
	alice.out.Answer(pong(1), &k)
	alice.out.pushed(b, true, &k)
	p, _ := carol.out.Take()
	carol.out.Wrote(p, 0) // must not put the shared bytes into the pool
	for range 50 {        // or one of these would write into them
		dave := connect(t, "dave", 1<<20)
		dave.out.pushed(event(9, 30), false, &k)
		dave.out.Answer(pong(9), &k)
		dave.got()
	}
	bob.out.Close()
	if !bytes.Equal(b[:cap(b)], kept) {
		t.Error("shared bytes were changed")
	}
	text := "1:" + strings.Repeat("\x00", 30)
	want(t, alice, text, "pong 1", text)
}

func TestBytesThatAreNotSharedAreCopied(t *testing.T) {
	s := connect(t, "bob", 1<<20)
	b := event(1, 10)
	s.out.pushed(b, false, &WakeUps{})
	clear(b) // the caller uses the bytes again
	want(t, s, "1:"+strings.Repeat("\x00", 10))
}

func TestWrittenPieceStaysWhileItIsWritten(t *testing.T) {
	s := connect(t, "bob", 1<<20)
	var k WakeUps
	s.out.Answer(pong(1), &k)
	p, _ := s.out.Take()
	kept := bytes.Clone(p.Bytes)
	s.out.Answer(pong(2), &k) // while the first piece is being written
	s.out.Close()
	for range 50 {
		connect(t, "dave", 1<<20).got()
	}
	if !bytes.Equal(p.Bytes, kept) {
		t.Error("a piece changed before Wrote")
	}
	s.out.Wrote(p, 0)
}

// Spec: P-1.6, P-3.5.
func TestEndIsSentOnceAndLast(t *testing.T) {
	s := connect(t, "bob", 1<<20)
	var k WakeUps
	first, second := &im.Error{Code: im.CodeRevoked}, &im.Error{Code: im.CodeSlowConsumer}
	s.out.Answer(pong(1), &k)
	s.out.Window(1, -1, -1)
	s.out.End(first, &k)
	s.out.End(second, &k)
	s.out.EndAfterAnswer(second, &k)
	s.out.Answer(pong(2), &k)
	Origin{Out: s.out, Bytes: 1}.Reply(wire.Ack{Seq: 1}, nil, &k)
	if s.out.pushed(event(1, 1), true, &k) || s.out.Window(1, -1, -1) {
		t.Error("an event or a send was taken after the end")
	}
	p, end := s.out.Take()
	if d := cmp.Diff([]string{"pong 1", "kick revoked"}, show(t, p.Bytes)); d != "" || end != first {
		t.Errorf("end %v, frames (-want +got):\n%s", end, d)
	}
	s.out.Wrote(p, 0)
	s.out.Answer(pong(3), &k)
	if p, end = s.out.Take(); len(p.Bytes) != 0 || end != first {
		t.Errorf("after the end %d bytes and %v come, want 0 and the reason", len(p.Bytes), end)
	}
}

func TestQuietEndHasNoKick(t *testing.T) {
	s := connect(t, "bob", 1<<20)
	var k WakeUps
	e := &im.Error{Code: im.CodeUnauthenticated}
	s.out.Answer(pong(1), &k)
	s.out.EndAfterAnswer(e, &k)
	s.out.End(&im.Error{Code: im.CodeDraining}, &k)
	p, end := s.out.Take()
	if d := cmp.Diff([]string{"pong 1"}, show(t, p.Bytes)); d != "" || end != e {
		t.Errorf("end %v, frames (-want +got):\n%s", end, d)
	}
	s.out.Wrote(p, 0)
}

func TestClosedOutboxTakesNothing(t *testing.T) {
	s := connect(t, "bob", 1<<20)
	var k WakeUps
	s.out.Answer(pong(1), &k)
	s.out.Window(5, -1, -1)
	s.out.Close()
	s.out.Close()
	s.out.Answer(pong(2), &k)
	s.out.End(&im.Error{Code: im.CodeDraining}, &k)
	s.out.EndAfterAnswer(&im.Error{Code: im.CodeDraining}, &k)
	s.out.Welcome(pong(3), &k)
	Origin{Out: s.out, Bytes: 5}.Reply(wire.Ack{Seq: 1}, nil, &k)
	if s.out.pushed(event(1, 1), true, &k) || s.out.pushed(event(1, 1), false, &k) {
		t.Error("an event was taken")
	}
	if p, end := s.out.Take(); len(p.Bytes) != 0 || end != nil || s.out.Pending() != 0 {
		t.Errorf("%d bytes, end %v, %d pending", len(p.Bytes), end, s.out.Pending())
	}
}

// Spec: P-4.6.
func TestWindowTakesNoMoreThanItSays(t *testing.T) {
	for _, c := range []struct {
		sends, bytes int
		sizes        []int
		want         []bool
	}{
		{2, -1, []int{1000, 1000, 0}, []bool{true, true, false}},
		{-1, 100, []int{60, 40, 1, 0}, []bool{true, true, false, true}},
		{3, 100, []int{101, 1}, []bool{true, false}}, // alone a send has room, however large it is
		{3, 100, []int{1, 100, 99}, []bool{true, false, true}},
		{0, 0, []int{0}, []bool{false}},
		{-1, -1, []int{1 << 40, 1 << 40}, []bool{true, true}},
	} {
		o := NewOutbox(protoTCP, NewFlusher(func() {}), 1)
		for i, n := range c.sizes {
			if got := o.Window(n, c.sends, c.bytes); got != c.want[i] {
				t.Errorf("window of %d sends and %d bytes: send %d of %v is taken %t", c.sends, c.bytes, i, c.sizes, got)
			}
		}
	}
}

// Each answer gives the room of its send back, once. It does not matter how a send is
// answered, or what becomes of the connection meanwhile.
func TestWindowIsGivenBackByEveryAnswer(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		o := NewOutbox(protoTCP, NewFlusher(func() {}), 100)
		var k WakeUps
		var waiting []Origin
		bytes := 0
		for step := range 300 {
			switch n := r.IntN(100); {
			case r.IntN(2) == 0:
				if took := o.Window(n, 10, 500); took != (step <= 250 && len(waiting) < 10 && bytes+n <= 500) {
					t.Fatalf("seed %d: %d sends of %d bytes wait, one of %d is taken %t", seed, len(waiting), bytes, n, took)
				} else if took {
					waiting = append(waiting, Origin{Out: o, Bytes: n})
					bytes += n
				}
			case len(waiting) > 0:
				i := r.IntN(len(waiting))
				g := waiting[i]
				waiting = append(waiting[:i], waiting[i+1:]...)
				bytes -= g.Bytes
				var e *im.Error
				if n < 50 {
					e = &im.Error{Code: im.CodeNotMember}
				}
				g.Reply(wire.Ack{Seq: 1}, e, &k)
			}
			if step == 250 {
				if r.IntN(2) == 0 {
					o.End(&im.Error{Code: im.CodeDraining}, &k)
				} else {
					o.Close()
				}
			}
			if int(o.unansweredSends) != len(waiting) || o.unansweredBytes != bytes {
				t.Fatalf("seed %d: the window counts %d sends of %d bytes, %d of %d wait", seed, o.unansweredSends, o.unansweredBytes, len(waiting), bytes)
			}
		}
	}
}

// Spec: P-7.4.
func TestClientThatWantsToKnowHearsOfLargeFrames(t *testing.T) {
	e := wire.Encoding{Codec: wire.JSON, Framing: wire.WebSocket}
	for _, shared := range []bool{true, false} {
		for _, large := range []bool{true, false} {
			out := NewOutbox(e, NewFlusher(func() {}), 1<<20)
			out.Large = large
			out.Welcome(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{}}}, &WakeUps{})
			welcome, _ := out.Take()
			out.Wrote(welcome, 0)
			b := wire.AppendEvents(nil, e, [][]byte{row(1, "eve", strings.Repeat("x", wire.LargeFrame))})
			before := bytes.Clone(b)
			if !out.pushed(b, shared, &WakeUps{}) {
				t.Fatal("the event was not taken")
			}
			p, _ := out.Take()
			if !bytes.Equal(b, before) || !bytes.HasSuffix(p.Bytes, b) || bytes.Contains(p.Bytes, []byte(`{"large":{"bytes":`)) != large {
				t.Errorf("shared %t, large %t: %d bytes became %d: %.100q", shared, large, len(b), len(p.Bytes), p.Bytes)
			}
			if p.pooled == shared && !large || large && !p.pooled {
				t.Errorf("shared %t, large %t: pooled %t", shared, large, p.pooled)
			}
			if waits := out.Pending(); waits != len(p.Bytes) {
				t.Errorf("shared %t, large %t: %d bytes are on their way, and %d are counted", shared, large, len(p.Bytes), waits)
			}
		}
	}
}

// probe is a body that tells whether the outbox was free while the frame was encoded.
type probe struct {
	*petrelv1.ServerFrame_Pong
	out  *Outbox
	free bool
}

// SizeVT is part of the encoding.
func (p *probe) SizeVT() int {
	if p.free = p.out.mu.TryLock(); p.free {
		p.out.mu.Unlock()
	}
	return p.ServerFrame_Pong.SizeVT()
}

// A large answer takes milliseconds to encode. The writer of all connections of a loop, and
// commits that push to the session, wait for the lock. Spec: P-2.2.
func TestAnswersAreEncodedWithoutTheLock(t *testing.T) {
	s := connect(t, "bob", 1000)
	body := &probe{ServerFrame_Pong: &petrelv1.ServerFrame_Pong{Pong: &petrelv1.Pong{}}, out: s.out}
	s.out.Answer(&petrelv1.ServerFrame{Id: 7, Body: body}, &WakeUps{})
	if !body.free {
		t.Error("the outbox is locked while an answer is encoded")
	}
}
