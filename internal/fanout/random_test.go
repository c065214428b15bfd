package fanout

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
)

var oneSeed = flag.Uint64("seed", 0, "run only this seed of the random schedules; 0: all")

// world is a few nodes on a bus that loses, delays and cuts at random. The nodes own
// conversations and have sessions, which come, go, sync and read. The world knows
// which entries each session must get.
type world struct {
	t        *testing.T
	seed     uint64
	dice     *rand.Rand
	mu       sync.Mutex // guards changes of sites
	sites    []*site
	convs    []*conversation
	sessions []*client
	syncs    sync.WaitGroup
	log      []string
}

// conversation is a conversation as the store of its owner has it.
type conversation struct {
	key        im.Key
	owner      int // index of the node
	mu         sync.Mutex
	head       im.Seq
	members    map[im.User]bool
	upTo       map[im.User]im.Seq // up to which seq users who were removed may read
	recipients map[im.Seq][]im.User
}

// mayRead returns up to which seq a user may read. In the end the user's sessions
// must know entries up to there.
func (c *conversation) mayRead(u im.User) im.Seq {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[u] {
		return c.head
	}
	return c.upTo[u]
}

func (c *conversation) list() []im.User {
	var all []im.User
	for u := range c.members {
		all = append(all, u)
	}
	slices.Sort(all)
	return all
}

// client is a session with what its client knows.
type client struct {
	*screen
	w     *world
	at    int // index of the node
	stop  context.CancelFunc
	ctx   context.Context
	mu    sync.Mutex
	knows map[im.ConvID]im.Seq
	last  map[im.ConvID]im.Seq // seq of the last event
}

var worldUsers = []im.User{"u0", "u1", "u2", "u3", "u4", "u5"}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 3))}
	o := stream.Options{}
	if w.dice.IntN(2) == 0 {
		o.Hints = 1 + w.dice.IntN(4)
	}
	if w.dice.IntN(2) == 0 {
		o.RingBytes = 10_000 + w.dice.IntN(10_000) // just large enough for a whole table
	}
	w.sites = sites(t, 3, o)
	for i, id := range convs(4) {
		c := &conversation{key: im.Key{Tenant: im.DefaultTenant, Conv: id}, owner: i % 3, members: map[im.User]bool{}, upTo: map[im.User]im.Seq{}, recipients: map[im.Seq][]im.User{}}
		for _, u := range worldUsers {
			if w.dice.IntN(2) == 0 {
				c.members[u] = true
			}
		}
		w.convs = append(w.convs, c)
	}
	return w
}

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, l := range w.log[max(0, len(w.log)-80):] {
		w.t.Log(l)
	}
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// login begins a session, and its client syncs.
func (w *world) login() {
	at, u := w.dice.IntN(3), worldUsers[w.dice.IntN(len(worldUsers))]
	c := &client{w: w, at: at, knows: map[im.ConvID]im.Seq{}, last: map[im.ConvID]im.Seq{}}
	c.screen = connect(w.t, u, 1<<20)
	c.out.Hints = w.dice.IntN(2) == 0
	c.ctx, c.stop = context.WithCancel(w.t.Context())
	s := w.sites[at]
	s.fan.Table.Enter(c.out.Account, c.out, -1)
	w.sessions = append(w.sessions, c)
	w.logf("%s logs in at %s", u, s.id)
	c.sync()
}

func (c *client) know(id im.ConvID, q im.Seq) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.knows[id] = max(c.knows[id], q)
}

// sync reads the heads at each owner, after the announcement of the session.
func (c *client) sync() {
	for _, conv := range c.w.convs {
		c.w.syncs.Go(func() {
			for c.ctx.Err() == nil {
				if c.ask(conv) {
					return
				}
				select {
				case <-time.After(300 * time.Millisecond):
				case <-c.ctx.Done():
				}
			}
		})
	}
}

func (c *client) ask(conversation *conversation) bool {
	c.w.mu.Lock()
	here, owner := c.w.sites[c.at], c.w.sites[conversation.owner]
	c.w.mu.Unlock()
	if here != owner {
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
		defer cancel()
		if owner.streams.WaitApplied(ctx, here.id, here.nodes.Mark(owner.id)) != nil {
			return false
		}
	}
	c.know(conversation.key.Conv, conversation.mayRead(c.out.Account.User))
	return true
}

// logout ends a session.
func (w *world) logout(i int) {
	c := w.sessions[i]
	w.read(c)
	c.stop()
	w.sites[c.at].fan.Table.Leave(c.out.Account, c.out)
	w.sessions = slices.Delete(w.sessions, i, i+1)
	w.logf("%s logs out at %s", c.out.Account.User, w.sites[c.at].id)
}

// read takes what a session has got.
func (w *world) read(c *client) {
	u := c.out.Account.User
	p, _ := c.out.Take()
	defer c.out.Wrote(p, 0)
	for _, f := range frames(w.t, p.Bytes) {
		for _, h := range f.GetEvents().GetHints() {
			id, _ := im.ParseConvID(h.Conv)
			c.know(id, im.Seq(h.Head))
		}
		for _, m := range f.GetEvents().GetMessages() {
			id, _ := im.ParseConvID(m.Conv)
			q := im.Seq(m.Seq)
			for _, conversation := range w.convs {
				if conversation.key.Conv == id && !slices.Contains(conversation.recipients[q], u) {
					w.fail("%s got entry %d of %s, which is for %v", u, q, m.Conv, conversation.recipients[q])
				}
			}
			if q <= c.last[id] {
				w.fail("%s at %s got entry %d of %s after entry %d", u, w.sites[c.at].id, q, m.Conv, c.last[id])
			}
			c.last[id] = q
			c.know(id, q)
		}
		if f.GetLagged() != nil {
			w.logf("%s at %s lags", u, w.sites[c.at].id)
			c.out.Resume()
			c.sync()
		}
	}
}

// commit adds an entry to a conversation. Some entries add or remove a member.
func (w *world) commit() {
	c := w.convs[w.dice.IntN(len(w.convs))]
	c.mu.Lock()
	recipients := c.list()
	c.head++
	if w.dice.IntN(4) == 0 {
		u := worldUsers[w.dice.IntN(len(worldUsers))]
		if c.members[u] {
			delete(c.members, u)
			c.upTo[u] = c.head
		} else {
			c.members[u] = true
			recipients = c.list()
		}
	}
	q := c.head
	c.recipients[q] = recipients
	c.mu.Unlock()
	fan := w.sites[c.owner].fan
	w.logf("commit %d of %s at %s for %v", q, c.key.Conv, w.sites[c.owner].id, recipients)
	fan.Deliver(im.DefaultTenant, recipients, []Item{entry(c.key.Conv, q, "x")})
	fan.Flush()
}

// restart kills a node, with its sessions. The new process owns the conversations of
// the former one, and sends hints with their heads.
func (w *world) restart() {
	i := w.dice.IntN(3)
	for n := len(w.sessions) - 1; n >= 0; n-- {
		if w.sessions[n].at == i {
			w.logout(n)
		}
	}
	w.logf("restart %s", w.sites[i].id)
	w.sites[i].end()
	w.pass(time.Duration(w.dice.IntN(2000)) * time.Millisecond)
	restarted := w.sites[i].restart()
	w.mu.Lock()
	w.sites[i] = restarted
	w.mu.Unlock()
	w.pass(2 * time.Second)
	for _, c := range w.convs {
		if c.owner == i {
			w.sites[i].hint(c.key, c.list(), c.head, 0)
			for u, q := range c.upTo {
				if !c.members[u] {
					w.sites[i].hint(c.key, []im.User{u}, q, 0) // the last entries for those who were removed may be lost as well
				}
			}
			w.sites[i].fan.Flush()
		}
	}
}

// pass waits for a while, during which clients read.
func (w *world) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(min(time.Until(end), 50*time.Millisecond)) {
		synctest.Wait()
		for _, c := range w.sessions {
			w.read(c)
		}
	}
}

func (w *world) disturb() {
	s := w.sites[w.dice.IntN(3)]
	to := w.sites[w.dice.IntN(3)].id
	switch w.dice.IntN(6) {
	case 0:
		w.logf("%s to %s is cut", s.id, to)
		s.bus.Cut(to, true)
	case 1:
		w.logf("all at %s is lost", s.id)
		s.bus.SetRules(bustest.Rules{Lose: 1})
	case 2:
		s.bus.SetRules(bustest.Rules{Seed: w.seed, Lose: 0.3, Duplicate: 0.2, Delay: 0.5, MaxDelay: 200 * time.Millisecond})
	case 3:
		w.restart()
	default:
		w.calm()
	}
}

func (w *world) calm() {
	for _, s := range w.sites {
		s.bus.SetRules(bustest.Rules{})
		for _, to := range w.sites {
			s.bus.Cut(to.id, false)
		}
	}
	w.logf("calm")
}

func (w *world) run() {
	for range 60 {
		switch n := w.dice.IntN(16); {
		case n < 3:
			w.login()
		case n == 3 && len(w.sessions) > 0:
			w.logout(w.dice.IntN(len(w.sessions)))
		case n < 10:
			w.commit()
		case n < 12:
			w.disturb()
		case n == 12:
			w.pass(time.Duration(w.dice.IntN(6000)) * time.Millisecond)
		case n == 13 && w.dice.IntN(4) == 0:
			w.pass(40 * time.Second)
		default:
			w.pass(time.Duration(w.dice.IntN(30)) * time.Millisecond)
		}
	}
	w.calm()
	w.pass(20 * time.Second)
	synctest.Wait()
	for _, s := range w.sessions {
		for _, c := range w.convs {
			if got, want := s.knows[c.key.Conv], c.mayRead(s.out.Account.User); got != want {
				w.fail("%s at %s knows entry %d of %s at %s, want %d", s.out.Account.User, w.sites[s.at].id, got, c.key.Conv, w.sites[c.owner].id, want)
			}
		}
	}
	w.checkTables()
	for _, s := range w.sessions {
		s.stop()
	}
	w.syncs.Wait()
	endAll(w.sites)
}

// checkTables compares what each node knows of the others with who is online there.
func (w *world) checkTables() {
	synctest.Wait()
	for _, here := range w.sites {
		for _, there := range w.sites {
			if here == there {
				continue
			}
			bit := uint64(1) << here.nodes.node(there.id).index.Load()
			for part := range tableParts {
				for h, at := range here.nodes.online.parts[part].nodes {
					if at&bit != 0 && len(there.fan.Table.withHash(h)) == 0 {
						w.fail("%s has a user at %s who is not online", here.id, there.id)
					}
				}
				for h := range there.fan.Table.parts[part].online {
					if here.nodes.online.nodesOf(h)&bit == 0 {
						w.fail("%s does not have a user who is online at %s", here.id, there.id)
					}
				}
			}
		}
	}
}

// If frames between the nodes are lost or delayed, in the end every session knows all
// entries that it may read, and has got no entry that it may not. PETREL_SCHEDULES is how
// many schedules there are, 60 by itself and 20,000 for `make long`.
func TestRandomSchedulesEndWithAllEntriesKnown(t *testing.T) {
	seeds := uint64(60)
	if n, err := strconv.ParseUint(os.Getenv("PETREL_SCHEDULES"), 10, 64); err == nil {
		seeds = n
	}
	if *oneSeed != 0 {
		synctest.Test(t, func(t *testing.T) { newWorld(t, *oneSeed).run() })
		return
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		synctest.Test(t, func(t *testing.T) { newWorld(t, seed).run() })
	}
}
