package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/im"
	petrel "github.com/petrel-im/petrel/sdk/go"
)

// reliability is one run of the scenario openim-reliability.
type reliability struct {
	*run
	p Params
	n int // the number of the run, from 0

	users  []string
	tokens []string
	group  string // of the last two users; the senders are no members

	tried, failed, strangers, refused, unknowable, settled atomic.Uint64
	kills                                                  uint64

	mu     sync.Mutex // tier 0; guards the fields below
	begun  time.Time
	log    *checker.Writer
	direct map[string][2]int            // by conversation: the two users
	heads  map[string]uint64            // by conversation: the highest acked seq
	seen   map[string]map[string]uint64 // user → conversation → the newest entry that was shown
}

const (
	writes = "writes" // the device of a client in the op log, for what it sends
	shows  = "shows"  // the same for what it shows: own messages as well, in the order of the conversation
)

// play runs all clients until every message is answered and shown everywhere, or until there is no more progress.
func (x *reliability) play(ctx context.Context) (err error) {
	name := fmt.Sprintf("run%d-%06x-", x.n, rand.Uint32()>>8)
	for i := range x.p.Connections {
		x.users = append(x.users, fmt.Sprintf("%s%d", name, i))
		x.seen[x.users[i]] = map[string]uint64{}
	}
	if x.tokens, err = x.ops[0].createUsers(ctx, x.users); err != nil {
		return err
	}
	if x.group, err = x.ops[0].createGroup(ctx, name+"group", x.users[x.p.Connections-2:]); err != nil {
		return err
	}
	x.heads[x.group] = 1
	x.begun = time.Now()
	running, stop := context.WithCancel(ctx)
	defer stop()
	var clients, senders sync.WaitGroup
	errs := make([]error, x.p.Connections+1)
	begin := func(i int, f func() error) {
		clients.Go(func() {
			if errs[i] = f(); errs[i] != nil {
				stop()
			}
		})
	}
	senders.Add(x.p.Senders)
	for i := range x.p.Connections {
		begin(i, func() error { return x.live(running, i, senders.Done) })
	}
	sent := make(chan struct{})
	clients.Go(func() { senders.Wait(); close(sent) })
	if x.p.KillS > 0 {
		begin(x.p.Connections, func() error { return x.kill(ctx, sent) })
	}
	x.await(running, sent)
	stop()
	clients.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return context.Cause(ctx) // nil unless ctx has ended
}

// kill kills the server every KillS seconds until everything is sent, and starts it again at the same addresses. After
// each start it waits until a send was answered or an entry shown: clients wait ever longer between their tries, and
// could find the server dead each time.
func (x *reliability) kill(ctx context.Context, sent <-chan struct{}) error {
	for {
		due, before := time.Now().Add(seconds(x.p.KillS)), x.happened()
		for time.Now().Before(due) || x.happened() == before {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-sent:
				return nil
			}
		}
		x.kills++
		if err := x.killNode(ctx, 0); err != nil {
			return err
		}
	}
}

// await returns when everything is sent and shown, when LateS plus reliabilityPatience have passed without progress, or
// when ctx ends.
func (x *reliability) await(ctx context.Context, sent <-chan struct{}) {
	last, since, all := uint64(0), time.Now(), false
	for ctx.Err() == nil {
		select {
		case <-sent:
			all = true
		default:
		}
		missing, _ := x.missing()
		if all && missing == 0 {
			return
		}
		if now := x.happened(); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > reliabilityPatience+seconds(x.p.LateS) {
			x.say("nothing happens any more: %d entries are not shown", missing)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// happened counts the answers and the shown messages.
func (x *reliability) happened() uint64 {
	_, shown := x.missing()
	return shown + x.settled.Load()
}

// missing counts, for both users of each conversation, the seqs up to the highest acked one that were not shown to the
// user, and the seqs that were shown.
func (x *reliability) missing() (missing, shown uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for conv, head := range x.heads {
		for _, i := range x.membersLocked(conv) {
			got := x.seen[x.users[i]][conv]
			shown += got
			missing += head - min(head, got)
		}
	}
	return missing, shown
}

func (x *reliability) membersLocked(conv string) [2]int {
	if conv == x.group {
		return [2]int{x.p.Connections - 2, x.p.Connections - 1}
	}
	return x.direct[conv]
}

// live runs client i until ctx ends. A sender calls sent when its messages were sent and answered, or when it fails.
func (x *reliability) live(ctx context.Context, i int, sent func()) error {
	if i >= x.p.Senders {
		sent = func() {}
	}
	rng := rand.New(rand.NewPCG(x.p.Seed, uint64(x.n)<<32|uint64(i)))
	select {
	case <-time.After(time.Duration(rng.Float64() * float64(seconds(x.p.LateS)))):
	case <-ctx.Done():
		sent()
		return nil
	}
	c, err := petrel.New(petrel.Options{URL: "ws://" + x.addrs[0], Token: petrel.StaticToken(x.tokens[i]),
		Device: "device", Keep: 1 << 20, Newest: 1 << 20})
	if err != nil {
		sent()
		return err
	}
	changes := c.Subscribe()
	defer changes.Close()
	return c.While(ctx, func(ctx context.Context) (err error) {
		var sending sync.WaitGroup
		sending.Go(func() {
			defer sent()
			if i < x.p.Senders {
				err = x.send(ctx, c, i, rng)
			}
		})
		for {
			change, ended := changes.Next(ctx)
			if ended != nil {
				sending.Wait()
				return err
			}
			for _, conv := range change.Conversations {
				x.show(c, i, conv)
			}
		}
	})
}

// send writes the messages of client i, and waits for their answers.
func (x *reliability) send(ctx context.Context, c *petrel.Client, i int, rng *rand.Rand) (err error) {
	outs := make(chan *petrel.Outgoing, reliabilityWindow) // while it is full, the client waits
	var answers sync.WaitGroup
	defer answers.Wait()
	defer close(outs)
	answers.Go(func() {
		// in the order of sending; an answer that comes out of this order is noted later than it came
		for out := range outs {
			x.answered(ctx, i, out)
		}
	})
	pace := time.NewTicker(max(1, time.Duration(x.p.IntervalMS[0]*float64(time.Millisecond))))
	defer pace.Stop()
	for n := range x.p.Messages {
		if n%strangerEvery == 0 {
			if err := x.write(ctx, c, i, petrel.Draft{Conv: x.group, Text: "let me in"}, outs); err != nil {
				return err
			}
		}
		peer := rng.IntN(x.p.Connections - 1)
		if peer >= i {
			peer++
		}
		text := fmt.Sprintf("%d of %s: %s", n, x.users[i], strings.Repeat("x", rng.IntN(100)))
		if err := x.write(ctx, c, i, petrel.Draft{User: x.users[peer], Text: text}, outs); err != nil {
			return err
		}
		if x.p.IntervalMS[0] > 0 {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
	return nil
}

// write sends a message and notes it in the op log, with the time before the send. It puts the message into outs.
func (x *reliability) write(ctx context.Context, c *petrel.Client, i int, d petrel.Draft,
	outs chan<- *petrel.Outgoing) error {
	at := x.now()
	out, err := c.Send(d)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	op := x.op(checker.Invoke, i, d.Conv, d.User, out.ID)
	op.At, op.Body = at, checker.Digest("", []byte(d.Text))
	x.mu.Lock()
	x.noteLocked(op)
	x.mu.Unlock()
	if d.Conv == "" {
		x.tried.Add(1)
	} else {
		x.strangers.Add(1)
	}
	select {
	case outs <- out:
	case <-ctx.Done():
		x.failed.Add(1)
	}
	return nil
}

// answered waits until the fate of a message is known or ctx ends, and notes it in the op log and the counts.
func (x *reliability) answered(ctx context.Context, i int, out *petrel.Outgoing) {
	_, err := out.Wait(ctx)
	_, conv, seq, _ := out.State()
	d := out.Draft()
	stranger := d.Conv != ""
	op := x.op(checker.Unknown, i, d.Conv, d.User, out.ID)
	e, refused := errors.AsType[*petrel.Error](err)
	switch {
	case err == nil:
		op.Kind, op.Conv, op.Seq = checker.OK, conv, seq
	case refused && e.Settled:
		op.Kind = checker.Rejected
		out.Discard()
	}
	switch {
	case stranger && op.Kind == checker.Rejected:
		x.refused.Add(1)
	case stranger && errors.Is(err, petrel.ErrUnknowable):
		x.unknowable.Add(1)
	case !stranger && err != nil:
		x.failed.Add(1)
	}
	x.settled.Add(1)
	x.mu.Lock()
	defer x.mu.Unlock()
	op.At = x.now()
	x.noteLocked(op)
	if err == nil && !stranger {
		x.heads[conv] = max(x.heads[conv], seq)
		if _, known := x.direct[conv]; !known {
			x.direct[conv] = [2]int{i, slices.Index(x.users, d.User)} // all messages go to users of the run
		}
	}
}

// now returns the time for the op log, in ns.
func (x *reliability) now() int64 { return int64(time.Since(x.begun)) + 1 }

// op makes an op of the client that sends.
func (x *reliability) op(kind checker.Kind, client int, conv, to, id string) checker.Op {
	user := x.users[client]
	return checker.Op{Kind: kind, User: user, Device: writes, Session: user, Conv: conv, To: to, ID: id}
}

func (x *reliability) noteLocked(ops ...checker.Op) {
	for i := range ops {
		_ = x.log.Write(&ops[i]) // the error stays, and Flush returns it
	}
}

// show records in the op log the entries of a conversation that client i shows and has not recorded. Each client has
// one goroutine that calls it.
func (x *reliability) show(c *petrel.Client, i int, conv string) {
	if conv[0] == byte(im.Inbox) {
		return // an inbox has entries of the server for one user
	}
	x.mu.Lock()
	seen := x.seen[x.users[i]]
	after := seen[conv]
	x.mu.Unlock()
	all := c.Messages(conv, after, 0)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range all {
		op := checker.Shown(checker.Deliver, m.Message)
		op.At, op.User, op.Device, op.Session = x.now(), x.users[i], shows, x.users[i]
		x.noteLocked(op)
		seen[conv] = m.Seq
	}
}

// readBack records the history of all conversations, and which users had to be shown it.
func (x *reliability) readBack(ctx context.Context) error {
	x.say("reading back %d conversations", len(x.heads))
	x.mu.Lock() // all clients have ended
	defer x.mu.Unlock()
	for conv := range x.heads {
		after := uint64(0)
		for more := true; more; {
			page, err := x.ops[0].history(ctx, conv, after)
			if err != nil {
				return err
			}
			for _, m := range page.Messages {
				x.noteLocked(checker.Shown(checker.Entry, m))
				after = m.Seq
			}
			if more = page.More; more && len(page.Messages) == 0 {
				return fmt.Errorf("read history of %s after %d: an empty page says that there is more", conv, after)
			}
		}
		members := x.membersLocked(conv)
		a, b := x.users[members[0]], x.users[members[1]]
		x.noteLocked(checker.Op{Kind: checker.History, Conv: conv, Seq: after},
			checker.Op{Kind: checker.Follow, Conv: conv, User: a, Device: shows},
			checker.Op{Kind: checker.Follow, Conv: conv, User: b, Device: shows})
		if conv != x.group {
			x.noteLocked(checker.Op{Kind: checker.Conv, Conv: conv, User: a, To: b, Added: []string{a, b}})
		}
	}
	return nil
}
