package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	frame byte = 1 // payload: what
	hint  byte = 2
)

// node is one process with streams over a bus that loses what a test says.
type node struct {
	*stream.Streams
	t    *testing.T
	bus  *bustest.LossyBus
	stop func()
	hold chan struct{} // set: the handlers of frames wait for it

	mu  sync.Mutex
	got []string // "b up", "b frame x", "b hint x", "b reset", …
}

// start runs a node in a bubble.
func start(t *testing.T, net *localbus.Net, name im.Node, incarnation uint64, o stream.Options) *node {
	t.Helper()
	b, err := net.Join(name)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, bus: bustest.Lossy(b, bustest.Rules{})}
	n.Streams = stream.New(n.bus, incarnation, o)
	note := func(what string) func(im.Node, []byte) {
		return func(from im.Node, p []byte) {
			if n.hold != nil {
				<-n.hold
			}
			n.note(string(from) + " " + what + " " + string(p))
		}
	}
	n.Handle(frame, note("frame"))
	n.Handle(hint, note("hint"))
	n.OnReset(func(from im.Node) { n.note(string(from) + " reset") })
	n.OnPeer(func(p im.Node, up bool) { n.note(string(p) + map[bool]string{true: " up", false: " down"}[up]) })
	ctx, cancel := context.WithCancel(t.Context())
	streams, cancelStreams := context.WithCancel(ctx)
	var wg, sg sync.WaitGroup
	wg.Go(func() {
		if err := n.bus.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	sg.Go(func() {
		if err := n.Run(streams); err != nil {
			t.Error(err)
		}
	})
	n.stop = sync.OnceFunc(func() { cancelStreams(); sg.Wait(); cancel(); wg.Wait() })
	return n
}

func (n *node) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, what)
}

// news is what was noted since the last call, and waits until nothing moves.
func (n *node) news() string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	all := strings.Join(n.got, ", ")
	n.got = nil
	return all
}

func (n *node) send(to im.Node, what string) stream.Mark {
	n.t.Helper()
	m, err := n.Send(to, frame, []byte(what), stream.Hint{Kind: hint, Key: what[:1], Payload: []byte(what)})
	if err != nil {
		n.t.Fatal(err)
	}
	return m
}

func (n *node) expect(want string) {
	n.t.Helper()
	if got := n.news(); got != want {
		n.t.Errorf("%s noted %q, want %q", n.bus.Self(), got, want)
	}
}

// state is what n knows of its only peer.
func (n *node) state() stream.Peer {
	n.t.Helper()
	synctest.Wait()
	all := n.Peers()
	if len(all) != 1 {
		n.t.Fatalf("%s has the peers %v", n.bus.Self(), all)
	}
	return all[0]
}

// two runs f with nodes a and b that have agreed, in a bubble.
func two(t *testing.T, o stream.Options, f func(t *testing.T, net *localbus.Net, a, b *node)) {
	synctest.Test(t, func(t *testing.T) {
		net := localbus.New()
		a, b := start(t, net, "a", 1, o), start(t, net, "b", 2, o)
		defer a.stop()
		defer b.stop()
		pass(time.Second)
		a.expect("b up")
		b.expect("a up")
		f(t, net, a, b)
	})
}

// pass lets time pass in a bubble, and all that is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestFramesAreAppliedInOrder(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		var marks []stream.Mark
		for _, s := range []string{"x1", "y1", "x2"} {
			marks = append(marks, a.send("b", s))
		}
		b.send("a", "z")
		b.expect("a frame x1, a frame y1, a frame x2")
		a.expect("b frame z")
		if got := b.Applied("a"); got != marks[2] || got.Num != 3 {
			t.Errorf("b has applied %v, want %v", got, marks[2])
		}
		if n := a.SentPackets.Load(); n > 6 {
			t.Errorf("%d packets for three frames and a beacon or two", n)
		}
		pass(time.Second)
		if s := a.state(); s.AppliedByIt != 3 || s.Sent != 3 || s.Applied != 1 || s.Waiting != 0 || s.Incarnation != 2 || s.Silent > 500*time.Millisecond || s.Deaf > 500*time.Millisecond {
			t.Errorf("a knows of b: %+v", s)
		}
	})
}

func TestSendToNobody(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		if _, err := a.Send("c", frame, nil, stream.Hint{}); !errors.Is(err, bus.ErrNoNode) {
			t.Errorf("to a node that is not there: %v", err)
		}
		if _, err := a.Send("a", frame, nil, stream.Hint{}); !errors.Is(err, bus.ErrNoNode) {
			t.Errorf("to itself: %v", err)
		}
		if _, err := a.Send("b", frame, make([]byte, stream.MaxFrame+1), stream.Hint{}); !errors.Is(err, bus.ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		if _, err := a.Send("b", frame, make([]byte, stream.MaxFrame), stream.Hint{Optional: true}); err != nil {
			t.Errorf("as large as can be: %v", err)
		}
		if _, err := a.Send("b", 77, nil, stream.Hint{Optional: true}); err != nil {
			t.Error(err)
		}
		if got := b.news(); len(got) != len("a frame ")+stream.MaxFrame || b.Unknown.Load() != 1 {
			t.Errorf("b noted %d bytes, and %d frames of a kind it does not know", len(got), b.Unknown.Load())
		}
	})
}

// F9a: the last frame is lost and nothing follows.
func TestF9aTheLastFrameIsLostAndSilenceFollows(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		a.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, _ bus.Subject, p []byte) bool { return strings.Contains(string(p), "last") }})
		a.send("b", "first")
		b.expect("a frame first")
		a.send("b", "last")
		b.expect("")
		a.bus.SetRules(bustest.Rules{})
		pass(1400 * time.Millisecond)
		b.expect("a frame last")
		if n := a.Again.Load(); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
}

func TestF9DuplicatesAreAppliedOnce(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		a.bus.SetRules(bustest.Rules{Duplicate: 1})
		want := make([]string, 20)
		for i := range want {
			a.send("b", fmt.Sprint("x", i))
			want[i] = fmt.Sprint("a frame x", i)
			synctest.Wait()
		}
		pass(2 * time.Second)
		b.expect(strings.Join(want, ", "))
		if b.ReceivedPackets.Load() < 40 {
			t.Error("nothing came twice")
		}
	})
}

// F9e: 12 arrives while 11 is asked for again.
func TestF9eOrderWhileAFrameIsAskedForAgain(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		lost := false
		a.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, _ bus.Subject, p []byte) bool {
			if !lost && strings.Contains(string(p), "number 11") {
				lost = true
				return true
			}
			return false
		}})
		b.bus.SetRules(bustest.Rules{Delay: 1, MaxDelay: 100 * time.Millisecond}) // the question takes its time
		for _, s := range []string{"10", "11", "12", "13"} {
			a.send("b", "number "+s) // "11" alone may be part of any packet
			synctest.Wait()
		}
		if got := b.news(); got != "a frame number 10" {
			t.Errorf("before 11 is there: %q", got)
		}
		a.send("b", "number 14")
		pass(150 * time.Millisecond)
		b.expect("a frame number 11, a frame number 12, a frame number 13, a frame number 14")
	})
}

func TestF9AnythingMayHappenOnTheWay(t *testing.T) {
	two(t, stream.Options{Ring: time.Minute, Forget: time.Hour}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		for i, n := range []*node{a, b} {
			n.bus.SetRules(bustest.Rules{Seed: uint64(i), Lose: 0.3, Duplicate: 0.2, Delay: 0.5})
		}
		var wantA, wantB []string
		for i := range 500 {
			a.send("b", fmt.Sprint("x", i))
			b.send("a", fmt.Sprint("y", i))
			wantA, wantB = append(wantA, fmt.Sprint("b frame y", i)), append(wantB, fmt.Sprint("a frame x", i))
			pass(10 * time.Millisecond)
		}
		pass(20 * time.Second)
		a.expect(strings.Join(wantA, ", "))
		b.expect(strings.Join(wantB, ", "))
	})
}

// F9c: either end restarts, and counts from 1 again.
func TestF9cEitherEndRestarts(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, net *localbus.Net, a, b *node) {
		for i := range 900 {
			a.send("b", fmt.Sprint("x", i))
		}
		old := b.Applied("a")
		_ = b.news()
		a.stop()
		b.expect("a down")
		a2 := start(t, net, "a", 3, stream.Options{})
		defer a2.stop()
		pass(time.Second)
		b.expect("a up")
		if m := a2.send("b", "fresh"); m.Num != 1 || m.Stream == old.Stream {
			t.Errorf("the first frame of a new process is %v, the old stream is %v", m, old)
		}
		b.expect("a frame fresh")
		if err := b.WaitApplied(t.Context(), "a", old); !errors.Is(err, stream.ErrEnded) {
			t.Errorf("wait for a number of the former process: %v", err)
		}
		_ = a2.news()

		b.stop()
		b2 := start(t, net, "b", 4, stream.Options{})
		defer b2.stop()
		pass(time.Second)
		a2.expect("b down, b up")
		if m := a2.send("b", "for the new one"); m.Num != 1 {
			t.Errorf("a fresh receiver gets frame %d first", m.Num)
		}
		b2.expect("a up, a frame for the new one")
		if s := a2.state(); s.Incarnation != 4 {
			t.Errorf("a knows of b: %+v", s)
		}
		b2.stop()
		if pass(time.Minute); len(a2.Peers()) != 0 {
			t.Errorf("a keeps %v of a node that left long ago", a2.Peers())
		}
	})
}

// F9c: a process that is killed says nothing, and its successor is there before
// it is missed.
func TestF9cAProcessIsKilled(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, net *localbus.Net, a, b *node) {
		a.send("b", "x")
		b.expect("a frame x")
		a.bus.Cut("b", true) // its last words too
		a.stop()
		b.expect("")
		a2 := start(t, net, "a", 3, stream.Options{})
		defer a2.stop()
		pass(time.Second)
		b.expect("a down, a up")
		a2.expect("b up")
		a2.send("b", "y")
		b.send("a", "z")
		b.expect("a frame y")
		a2.expect("b frame z")
	})
}

// F9d: a cut in one direction. Both know, what is lost meanwhile becomes hints,
// and the healed stream goes on behind them.
func TestF9dBothEndsKnowOfACutInOneDirection(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		a.bus.Cut("b", true)
		a.send("b", "x1")
		a.send("b", "y1")
		a.send("b", "x2")
		b.send("a", "z")
		pass(4 * time.Second)
		a.expect("b frame z")
		b.expect("")
		if s := a.state(); s.Silent > time.Second || s.Deaf < 3*time.Second || s.Waiting < 4*time.Second {
			t.Errorf("a knows of b: %+v", s)
		}
		if s := b.state(); s.Silent < 3*time.Second || s.Waiting < 3*time.Second {
			t.Errorf("b knows of a: %+v", s)
		}
		a.send("b", "w1")
		a.bus.Cut("b", false)
		pass(1200 * time.Millisecond)
		b.expect("a hint y1, a hint x2, a frame w1")
		pass(time.Second)
		if s := a.state(); s.Deaf > time.Second || s.Waiting != 0 {
			t.Errorf("healed, a knows of b: %+v", s)
		}
	})
}

// F9f: a message that was recalled meanwhile leaves the ring within 5 s of the recall, from
// when on nobody may get it.
func TestF9fABodyIsNotServedFromTheRingForLong(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		for _, c := range []struct {
			cut  time.Duration
			want string
		}{{2 * time.Second, "a frame x0"}, {3500 * time.Millisecond, "a hint x1"}} {
			a.bus.Cut("b", true)
			a.send("b", "x"+c.want[len(c.want)-1:])
			pass(c.cut)
			a.bus.Cut("b", false)
			pass(1200 * time.Millisecond)
			b.expect(c.want)
		}
	})
}

// F9b: what does not fit into the ring becomes the newest hint of each key; too
// many keys become one word.
func TestF9bOverflowBecomesHints(t *testing.T) {
	two(t, stream.Options{RingBytes: 3000, Hints: 10}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		a.bus.Cut("b", true)
		var last stream.Mark
		for i := range 1000 {
			last = a.send("b", fmt.Sprintf("%d in %d", i%5, i))
		}
		a.bus.Cut("b", false)
		pass(time.Second)
		got := strings.Split(b.news(), ", ")
		hints, frames := 0, 0
		for i, s := range got {
			if strings.HasPrefix(s, "a hint") {
				hints++
				continue
			}
			frames++
			if want := fmt.Sprintf("a frame %d in %d", (1000-len(got)+i)%5, 1000-len(got)+i); s != want {
				t.Fatalf("frame %q, want %q", s, want)
			}
		}
		if hints != 5 || frames < 10 || b.Applied("a") != last || a.Resets.Load() != 0 {
			t.Errorf("%d hints, %d frames, applied %v of %v", hints, frames, b.Applied("a"), last)
		}
		if !slices.IsSortedFunc(got[:5], func(x, y string) int { return strings.Compare(x[len(x)-3:], y[len(y)-3:]) }) {
			t.Errorf("hints in another order than sent: %q", got[:5])
		}

		a.bus.Cut("b", true)
		for i := range 1000 {
			a.send("b", string(rune('A'+i%26)))
		}
		a.bus.Cut("b", false)
		pass(time.Second)
		got = strings.Split(b.news(), ", ")
		// A second one, if not all was taken yet when the cut ended, and overflowed again.
		if n := strings.Count(strings.Join(got, ", "), "a reset"); n < 1 || n > 2 || got[0] != "a reset" || got[len(got)-1] != "a frame "+string(rune('A'+999%26)) {
			t.Errorf("%d resets: %q … %q", n, got[0], got[len(got)-1])
		}
	})
}

// Hints of more than a message are sent in several.
func TestF9bManyLargeHints(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		a.bus.Cut("b", true)
		large := strings.Repeat("x", 100<<10)
		want := make([]string, 26)
		for round := range 2 {
			for i := range want {
				a.send("b", string(rune('A'+i))+fmt.Sprint(round)+large)
				want[i] = "a hint " + string(rune('A'+i)) + "1" + large
			}
		}
		pass(4 * time.Second)
		a.bus.Cut("b", false)
		pass(time.Second)
		if got := b.news(); got != strings.Join(want, ", ") {
			t.Errorf("%d bytes of hints, want %d", len(got), len(strings.Join(want, ", ")))
		}
		if n := a.Resets.Load(); n != 0 {
			t.Errorf("%d resets", n)
		}
	})
}

// A frame that nothing can tell of, and one nobody misses.
func TestF9bFramesWithoutHints(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		a.bus.Cut("b", true)
		a.send("b", "x")
		if _, err := a.Send("b", frame, []byte("nobody misses me"), stream.Hint{Optional: true}); err != nil {
			t.Fatal(err)
		}
		pass(4 * time.Second)
		a.bus.Cut("b", false)
		pass(time.Second)
		b.expect("a hint x")

		a.bus.Cut("b", true)
		a.send("b", "y")
		if _, err := a.Send("b", frame, []byte("nothing tells me"), stream.Hint{}); err != nil {
			t.Fatal(err)
		}
		a.send("b", "z")
		pass(4 * time.Second)
		a.bus.Cut("b", false)
		pass(time.Second)
		b.expect("a reset, a hint z")
	})
}

// F2: a request with the mark of a frame is served after that frame.
func TestF2ARequestWaitsForTheFrameItIsBehind(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		a.bus.Cut("b", true)
		m := a.send("b", "x")
		done := make(chan error, 2)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- b.WaitApplied(t.Context(), "a", m) }()
		go func() { done <- b.WaitApplied(ctx, "a", stream.Mark{Stream: m.Stream, Num: m.Num + 1}) }()
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("nobody waits")
		}
		a.bus.Cut("b", false)
		pass(time.Second)
		if err := <-done; err != nil {
			t.Errorf("the frame was applied: %v", err)
		}
		b.expect("a frame x")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("wait for a frame that does not come: %v", err)
		}
		go func() { done <- b.WaitApplied(t.Context(), "a", stream.Mark{Stream: m.Stream, Num: m.Num + 1}) }()
		synctest.Wait()
		a.stop()
		if err := <-done; !errors.Is(err, stream.ErrEnded) {
			t.Errorf("wait for a frame of a process that has ended: %v", err)
		}
		if err := b.WaitApplied(t.Context(), "a", stream.Mark{}); err != nil {
			t.Errorf("wait for nothing: %v", err)
		}
	})
}

// A peer that is silent for long is down; when it speaks again, both begin anew.
func TestASilentPeerIsDown(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		a.bus.Cut("b", true)
		b.bus.Cut("a", true)
		pass(29 * time.Second)
		a.expect("")
		pass(2 * time.Second)
		a.expect("b down")
		b.expect("a down")
		if _, err := a.Send("b", frame, nil, stream.Hint{}); !errors.Is(err, bus.ErrNoNode) {
			t.Errorf("Send: %v", err)
		}
		a.bus.Cut("b", false)
		b.bus.Cut("a", false)
		pass(time.Second)
		a.expect("b up")
		b.expect("a up")
		a.send("b", "x")
		b.expect("a frame x")
	})
}

// A receiver that stands still holds the sender's window; nothing is lost to a
// full queue, and everything comes when it goes on.
func TestASlowReceiverHoldsTheWindow(t *testing.T) {
	two(t, stream.Options{Ring: time.Hour, Forget: time.Hour}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		b.hold = make(chan struct{})
		const n = 20000
		for i := range n {
			a.send("b", fmt.Sprint("x", i))
			if i%10 == 0 {
				synctest.Wait() // a packet for every ten
			}
		}
		pass(5 * time.Second)
		sent := a.SentPackets.Load()
		if sent > 700 {
			t.Errorf("%d packets were sent to a receiver that stands still", sent)
		}
		close(b.hold)
		pass(time.Minute)
		if got := strings.Count(b.news(), "frame"); got != n {
			t.Errorf("%d frames were applied, want %d", got, n)
		}
		if s := a.state(); s.AppliedByIt != n {
			t.Errorf("a knows of b: %+v", s)
		}
	})
}

// Many frames a second share packets; few never wait, as the other tests show,
// in which no time passes.
func TestManyFramesShareAPacket(t *testing.T) {
	two(t, stream.Options{}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		const n = 4000
		begun := a.SentPackets.Load()
		for range n {
			a.send("b", "x")
			pass(100 * time.Microsecond)
		}
		if sent := a.SentPackets.Load() - begun; sent > n/3 {
			t.Errorf("%d packets for %d frames", sent, n)
		}
		pass(10 * time.Millisecond)
		if got := strings.Count(b.news(), "frame"); got != n {
			t.Errorf("%d of %d frames were applied", got, n)
		}
	})
}

// The sender hears of what is applied before its window is full.
func TestAFastReceiverDoesNotWaitForBeacons(t *testing.T) {
	two(t, stream.Options{RingBytes: 64 << 20}, func(t *testing.T, _ *localbus.Net, a, b *node) {
		begin := time.Now()
		for range 100 {
			a.send("b", strings.Repeat("x", 500<<10))
		}
		if got := strings.Count(b.news(), "frame"); got != 100 || time.Since(begin) != 0 {
			t.Errorf("%d frames in %s", got, time.Since(begin))
		}
	})
}
