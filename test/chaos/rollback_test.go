package chaos

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
	"github.com/petrel-im/petrel/test/clients"
	"github.com/petrel-im/petrel/test/crowd"
)

// rollbacks are what takes the database of a cluster back in time, under load.
// Nobody is answered from the past, and in the end the clients of the Go SDK, and
// one that was written from the protocol alone, hold what the server holds.
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
				})
			}
		}
	}
}

// past is a cluster, its primary and a standby, and clients that write.
type past struct {
	*world
	*clients.Clients
	standby *pgtest.Server
	kept    bool     // nothing that was acked may be missing
	pending []string // sends on their way when the database was lost
}

// newPast starts a cluster. synchronous says that its commits wait for the standby.
func newPast(t *testing.T, nodes int, synchronous bool) *past {
	w := &world{t: t}
	for i := range nodes {
		w.nodes = append(w.nodes, newNode(t, fmt.Sprintf("n%d", i+1)))
	}
	w.cluster = w.embedded
	proctest.Program(t)
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
	roles := []crowd.Role{{User: "ann"}, {User: "bob"}, {User: "cyd"}, {User: "dan"}, {User: "eve"}}
	var names, urls []string
	for _, r := range roles {
		names = append(names, r.User)
	}
	for _, n := range w.nodes {
		urls = append(urls, n.url(wire.WebSocket))
	}
	w.crowd = crowd.New(t, crowd.Options{Senders: roles, Outsider: crowd.Role{User: "zoe"}, Groups: [][]string{names}})
	link, err := os.ReadFile(filepath.Join(w.nodes[0].dir, "setup-link"))
	if err != nil {
		t.Fatal(err)
	}
	w.crowd.Populate(w.nodes[0].operators(), string(link))
	p.Clients = clients.Start(t, clients.Options{
		URLs: urls, Users: names[:4], Foreign: names[4], Group: w.crowd.Group(0), Token: w.crowd.Token,
		Admin: func() petrelv1connect.AdminServiceClient { return w.crowd.Admin(w.nodes[0].operators()) },
	})
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
	before := p.Acked()
	crowd.Wait(p.t.Context(), lag(rng))
	eventually.True(p.t, "something is acked while the standby lags", func() bool { return p.Acked() > before })
	p.must(p.primary.Kill())
	p.breathe(rng, time.Second)
	p.pending = p.Pending() // acks from before the kill have come
	p.must(p.standby.Promote())
	positions := p.number(p.standby, `SELECT sum(pos)::bigint FROM petrel.part`)
	for _, n := range p.nodes {
		p.ends(n, "rewound")
	}
	p.t.Logf("%d acked while the standby lagged", p.Acked()-before)
	if now := p.number(p.standby, `SELECT sum(pos)::bigint FROM petrel.part`); now != positions {
		p.t.Errorf("%d commits were made in a database that lacks what was acked", now-positions)
	}
	// It does not start either, until the operator has accepted the loss.
	p.nodes[0].launch()
	p.ends(p.nodes[0], "rewound")
	out, err := exec.Command(proctest.Program(p.t), "repair", "--config", p.nodes[0].config).CombinedOutput()
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
	p.pending = p.Pending()
	p.breathe(rng, time.Second)
	p.must(p.standby.Promote())
	p.Served("after the failover")
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
	p.Served("with the former primary there")
	// And one that knows no other address is not let in.
	n.kill()
	both, old := fmt.Sprintf(":%d,127.0.0.1:%d/", p.ports[0], p.ports[1]), fmt.Sprintf(":%d/", p.ports[0])
	p.edit(n, both, old)
	n.launch()
	p.ends(n, "database_behind")
	p.edit(n, old, both)
	n.start()
	if now := p.number(p.primary, `SELECT sum(pos + epoch)::bigint FROM petrel.part`); now != positions {
		p.t.Errorf("the former primary has %d commits and takeovers more", now-positions)
	}
	var used int64 // a connection that is only tried is closed
	if !eventually.Holds(func() bool {
		used = p.number(p.primary, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'petrel' AND state IS NOT NULL AND now() - backend_start > interval '1 second'`)
		return used == 0
	}) {
		p.t.Errorf("%d connections to the former primary are used", used)
	}
}

// ends waits until a node has ended by itself, and said why.
func (p *past) ends(n *node, code string) {
	p.t.Helper()
	if !n.running().hasEnded() {
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
	eventually.True(p.t, "the standby catches up", func() bool {
		return p.number(p.primary, `SELECT count(*) FROM pg_stat_replication WHERE replay_lsn - '0/0' >= $1::bigint`, at) == 1
	})
}

func (p *past) number(s *pgtest.Server, sql string, args ...any) (n int64) {
	p.t.Helper()
	ctx := p.t.Context()
	c, err := pgx.Connect(ctx, s.DSN("petrel1"))
	p.must(err)
	defer func() { _ = c.Close(ctx) }() // only read
	p.must(c.QueryRow(ctx, sql, args...).Scan(&n))
	return n
}

// settle waits until nothing is on its way any more, and compares what each
// client holds with what the server does.
func (p *past) settle() {
	p.t.Helper()
	p.Served("in the end")
	p.Settle()
	n := p.Equal(p.pending)
	if p.kept && !eventually.Holds(func() bool { return int64(n-1) == p.AllAcked() }) { // the first entry made the group
		p.t.Errorf("%d messages were acked, and there are %d", p.AllAcked(), n-1)
	}
	p.t.Logf("%d acked; each client holds the %d messages of the server", p.AllAcked(), n)
}
