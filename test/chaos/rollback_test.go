package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/test/crowd"
)

// rollbacks are what takes the database of a cluster back in time, under load.
// Nobody is answered from the past, and in the end the clients of the Go SDK hold
// what the server holds.
//
//	go test ./test/chaos -run TestRollback/promote-lagging -v -args -times=50
var rollbacks = []struct {
	name string
	long int // how often it is worth to happen, on 1 node and on 3
	run  func(p *past, rng *rand.Rand)
}{
	{"promote-lagging", 25, promoteLagging},
	{"old-primary", 25, oldPrimary},
}

func TestRollback(t *testing.T) {
	besideOthers(t)
	for i, r := range rollbacks {
		for k, nodes := range []int{1, 3} {
			n := *repeat
			switch {
			case n < 0:
				n = r.long
			case n == 0 && i == k:
				n = 1 // each of them once
			}
			for j := range n {
				t.Run(fmt.Sprintf("%s/%d-nodes", r.name, nodes), func(t *testing.T) {
					besideOthers(t)
					seed := *seed + uint64(j)
					t.Logf("-seed=%d", seed)
					p := newPast(t, nodes, r.name == "old-primary")
					r.run(p, rand.New(rand.NewPCG(seed, 2)))
					p.settle()
					p.equal()
				})
			}
		}
	}
}

// past is a cluster, its primary and a standby, and clients that write.
type past struct {
	*world
	standby *pgtest.Server
	users   []*writer
	stop    context.CancelFunc
	running sync.WaitGroup
	load    atomic.Bool // they write
	kept    bool        // nothing that was acked may be missing
}

// writer is a client that writes, and keeps what it has.
type writer struct {
	*petrel.Client
	name  string
	acked atomic.Int64
}

// newPast starts a cluster. synchronous says that its commits wait for the standby.
func newPast(t *testing.T, nodes int, synchronous bool) *past {
	w := &world{t: t}
	for i := range nodes {
		w.nodes = append(w.nodes, newNode(t, fmt.Sprintf("n%d", i+1)))
	}
	w.cluster = w.embedded
	imtest.Program(t)
	w.primary = pgtest.Own(t, pgtest.Options{})
	if _, err := w.primary.Create(); err != nil {
		t.Fatal(err)
	}
	standby, err := w.primary.Follower()
	if synchronous && err == nil {
		err = w.primary.WaitFor(standby)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Remove)
	p := &past{world: w, standby: &pgtest.Server{Server: standby}}
	w.ports = [2]int{w.primary.Port, standby.Port}
	t.Cleanup(w.bury)
	for _, n := range w.nodes {
		w.configure(n)
		p.mark(n)
		n.start()
	}
	roles := []crowd.Role{{User: "ann"}, {User: "bob"}, {User: "cyd"}, {User: "dan"}}
	var names []string
	for _, r := range roles {
		names = append(names, r.User)
	}
	w.crowd = crowd.New(t, crowd.Options{Senders: roles, Outsider: crowd.Role{User: "zoe"}, Groups: [][]string{names}})
	link, err := os.ReadFile(filepath.Join(w.nodes[0].dir, "setup-link"))
	if err != nil {
		t.Fatal(err)
	}
	w.crowd.Populate(w.nodes[0].base(), string(link))
	ctx, stop := context.WithCancel(t.Context())
	p.stop = func() { stop(); p.running.Wait() }
	t.Cleanup(p.stop)
	p.load.Store(true)
	for i, name := range names {
		u := &writer{Client: p.client(name, i), name: name}
		p.users = append(p.users, u)
		p.running.Go(func() { _ = u.Run(ctx) }) // ends with the test
		p.running.Go(func() { p.write(ctx, u) })
	}
	if !crowd.Until(t.Context(), 30*time.Second, func() bool { return p.acked() > 60 }) {
		t.Fatal("the clients do not get going")
	}
	return p
}

// mark adds a store mark to the file of a node.
func (p *past) mark(n *node) {
	p.edit(n, "[store]\n", fmt.Sprintf("[store]\nmark = %q\n", filepath.Join(n.dir, "mark")))
}

func (p *past) edit(n *node, old, fresh string) {
	p.t.Helper()
	b, err := os.ReadFile(n.config)
	if err == nil {
		err = os.WriteFile(n.config, bytes.Replace(b, []byte(old), []byte(fresh), 1), 0o600)
	}
	p.must(err)
}

// client is one of a user, at the node i.
func (p *past) client(name string, i int) *petrel.Client {
	p.t.Helper()
	c, err := petrel.New(petrel.Options{
		URL: p.nodes[i%len(p.nodes)].url(wire.WebSocket), Token: petrel.StaticToken(p.crowd.Token(name)), Device: fmt.Sprint(name, i),
		Store: petrel.NewMemory(), Keep: 1 << 20, Newest: 1 << 20,
	})
	p.must(err)
	return c
}

// write has a client write to the group and to the next user, a few at a time.
func (p *past) write(ctx context.Context, u *writer) {
	for n := 0; ctx.Err() == nil; n++ {
		crowd.Wait(ctx, 20*time.Millisecond)
		group := p.groupOf(u.Client)
		if !p.load.Load() || group == "" || len(u.Pending(group)) > 4 {
			continue
		}
		o, err := u.Send(petrel.Draft{Conv: group, Text: fmt.Sprintf("%s %d", u.name, n)})
		if err != nil {
			p.t.Errorf("%s: %v", u.name, err)
			return
		}
		p.running.Go(func() {
			if _, err := o.Wait(ctx); err == nil {
				u.acked.Add(1)
			}
		})
	}
}

func (p *past) groupOf(c *petrel.Client) string {
	for _, v := range c.Conversations() {
		if v.Known && v.Peer == "" {
			return v.ID
		}
	}
	return ""
}

func (p *past) acked() (n int64) {
	for _, u := range p.users {
		n += u.acked.Load()
	}
	return n
}

// lag of the standby: short ones in a run of all tests.
func lag(rng *rand.Rand) time.Duration {
	if *repeat == 0 {
		return between(rng, 100*time.Millisecond, 600*time.Millisecond)
	}
	return between(rng, 100*time.Millisecond, 10*time.Second)
}

// promoteLagging: the primary is lost, and the standby that takes its place had
// fallen behind. Every node ends, and none has answered from the new primary.
func promoteLagging(p *past, rng *rand.Rand) {
	p.caughtUp()
	p.must(p.standby.Detach())
	before := p.acked()
	crowd.Wait(p.t.Context(), lag(rng))
	if !crowd.Until(p.t.Context(), 10*time.Second, func() bool { return p.acked() > before }) {
		p.t.Fatal("nothing was acked while the standby lagged")
	}
	p.must(p.primary.Kill())
	p.breathe(rng, time.Second)
	p.must(p.standby.Promote())
	positions := p.number(p.standby, `SELECT sum(pos)::bigint FROM petrel.part`)
	begun := time.Now()
	for _, n := range p.nodes {
		p.ends(n, "rewound")
	}
	p.t.Logf("%d acked while the standby lagged; all nodes have ended after %v", p.acked()-before, time.Since(begun).Round(time.Millisecond))
	if now := p.number(p.standby, `SELECT sum(pos)::bigint FROM petrel.part`); now != positions {
		p.t.Errorf("%d commits were made in a database that lacks what was acked", now-positions)
	}
	// It does not start either, until the operator has accepted the loss.
	p.nodes[0].launch()
	p.ends(p.nodes[0], "rewound")
	out, err := exec.Command(imtest.Program(p.t), "repair", "--config", p.nodes[0].config).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "missing") {
		p.t.Fatalf("repair: %v\n%s", err, out)
	}
	p.t.Logf("repair says:\n%s", bytes.Join(bytes.SplitN(out, []byte("\n"), 5)[:3], []byte("\n")))
	for _, n := range p.nodes {
		n.start()
	}
}

// oldPrimary: a failover loses nothing. Then the former primary comes back, takes
// writes, and stands first in the address of the databases. Nobody uses it.
func oldPrimary(p *past, rng *rand.Rand) {
	p.kept = true
	p.breathe(rng, time.Second)
	p.must(p.primary.Kill())
	p.breathe(rng, time.Second)
	p.must(p.standby.Promote())
	p.served("after the failover")
	p.must(p.primary.Start())
	p.must(p.primary.Exec("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''"))
	p.must(p.primary.Exec("postgres", "SELECT pg_reload_conf()"))
	positions := p.number(p.primary, `SELECT sum(pos + epoch)::bigint FROM petrel.part`)
	p.breathe(rng, time.Second)
	// Everybody connects again, and one node starts again.
	p.must(p.standby.Exec("petrel1", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'petrel'"))
	n := p.nodes[rng.IntN(len(p.nodes))]
	n.kill()
	n.start()
	p.served("with the former primary there")
	// And one that knows no other address is not let in.
	n.kill()
	both, old := fmt.Sprintf(":%d,127.0.0.1:%d/", p.ports[0], p.ports[1]), fmt.Sprintf(":%d/", p.ports[0])
	p.edit(n, both, old)
	n.launch()
	p.ends(n, "database_behind")
	p.edit(n, old, both)
	n.start()
	p.served("in the end")
	if now := p.number(p.primary, `SELECT sum(pos + epoch)::bigint FROM petrel.part`); now != positions {
		p.t.Errorf("the former primary has %d commits and takeovers more", now-positions)
	}
	if used := p.number(p.primary, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'petrel' AND state IS NOT NULL AND now() - backend_start > interval '1 second'`); used != 0 {
		p.t.Errorf("%d connections to the former primary are used", used)
	}
}

// served waits until more is acked.
func (p *past) served(when string) {
	p.t.Helper()
	begun, before := time.Now(), p.acked()
	if !crowd.Until(p.t.Context(), 30*time.Second, func() bool { return p.acked() > before+20 }) {
		p.t.Fatalf("nothing is acked %s", when)
	}
	p.t.Logf("%s: served after %v", when, time.Since(begun).Round(time.Millisecond))
}

// ends waits until a node has ended by itself, and said why.
func (p *past) ends(n *node, code string) {
	p.t.Helper()
	select {
	case <-n.running().done:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("%s goes on\n%s", n.name, n.tail(20))
	}
	if said := n.tail(12); !strings.Contains(said, code) {
		p.t.Fatalf("%s did not say %s:\n%s", n.name, code, said)
	}
	n.forget()
}

// caughtUp waits until the standby has what the primary has, but for what comes
// at this moment.
func (p *past) caughtUp() {
	p.t.Helper()
	at := p.number(p.primary, `SELECT (pg_current_wal_lsn() - '0/0')::bigint`)
	if !crowd.Until(p.t.Context(), 10*time.Second, func() bool {
		return p.number(p.primary, `SELECT count(*) FROM pg_stat_replication WHERE replay_lsn - '0/0' >= $1::bigint`, at) == 1
	}) {
		p.t.Fatal("the standby does not catch up")
	}
}

func (p *past) number(s *pgtest.Server, sql string, args ...any) (n int64) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN("petrel1"))
	p.must(err)
	defer func() { _ = c.Close(ctx) }() // only read
	p.must(c.QueryRow(ctx, sql, args...).Scan(&n))
	return n
}

// settle waits until nothing is on its way any more.
func (p *past) settle() {
	p.t.Helper()
	p.served("behind it all")
	p.load.Store(false)
	if !crowd.Until(p.t.Context(), 60*time.Second, func() bool {
		for _, u := range p.users {
			if g := p.groupOf(u.Client); g == "" || len(u.Pending(g)) > 0 {
				return false
			}
		}
		return true
	}) {
		p.t.Fatal("some messages are never answered")
	}
}

// equal compares what each client holds with what one reads that begins now.
func (p *past) equal() {
	p.t.Helper()
	fresh := p.client("ann", 7)
	ctx, stop := context.WithCancel(p.t.Context())
	defer stop()
	p.running.Go(func() { _ = fresh.Run(ctx) }) // ends with this function
	said := func(c *petrel.Client) []string {
		g := p.groupOf(c)
		v, _ := c.Conversation(g)
		if g == "" || v.Have < v.Head {
			return nil
		}
		var list []string
		for _, m := range c.Messages(g, 0, 0) {
			list = append(list, fmt.Sprintf("%d %s %s %s", m.Seq, m.From, m.ClientMsgId, m.GetText()))
		}
		return list
	}
	for _, u := range p.users {
		var want, got []string
		if !crowd.Until(p.t.Context(), 20*time.Second, func() bool {
			want, got = said(fresh), said(u.Client)
			return len(want) > 60 && strings.Join(want, "\n") == strings.Join(got, "\n")
		}) {
			p.t.Errorf("%s holds %d messages, the server has %d, and they differ", u.name, len(got), len(want))
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					p.t.Errorf("first: %q, want %q", got[i], want[i])
					break
				}
			}
		}
	}
	if n := int64(len(said(fresh))) - 1; p.kept && n != p.acked() { // the first entry made the group
		p.t.Errorf("%d messages were acked, and there are %d", p.acked(), n)
	}
	p.t.Logf("%d acked; each client holds the %d messages of the server", p.acked(), len(said(fresh)))
}
