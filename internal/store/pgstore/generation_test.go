package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// twins are a primary and a server that follows it, with one database.
type twins struct {
	*testing.T
	primary  *pgtest.Server
	follower *pgtest.Server
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	p := pgtest.Own(t, pgtest.Options{Settings: map[string]string{"wal_log_hints": "on"}})
	p.New(t)
	f, err := p.Follower()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Remove)
	return &twins{t, p, &pgtest.Server{Server: f}}
}

// dsn names servers by their ports, in this order.
func (w *twins) dsn(ports ...int) string {
	var hosts []string
	for _, p := range ports {
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", p))
	}
	return "postgres://petrel@" + strings.Join(hosts, ",") + "/petrel1?sslmode=disable"
}

func (w *twins) both() string { return w.dsn(w.primary.Port, w.follower.Port) }

func (w *twins) open(dsn string) *Store {
	w.Helper()
	st := mustOpen(w.T, Options{DSNs: []string{dsn}, CheckEvery: 20 * time.Millisecond})
	w.Cleanup(func() { _ = st.Close() }) // it may have failed
	return st
}

func (w *twins) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// failed waits until a store has ended for what it lacks.
func (w *twins) failed(st *Store, want ...string) {
	w.Helper()
	eventually.Receive(w.T, "the store fails without what was acked", st.Failed())
	p, ok := errors.AsType[*Problem](st.Writable())
	if !ok || p.Code != "rewound" {
		w.Fatalf("the store has failed with %v, want rewound", st.Writable())
	}
	for _, x := range want {
		if !strings.Contains(p.Error(), x) {
			w.Errorf("got %q, want %q in it", p, x)
		}
	}
}

// lag commits n more on the primary, of which the follower gets nothing, and
// promotes it.
func (w *twins) lag(st *Store, f *feedWriter, n int) {
	w.Helper()
	w.caughtUp()
	w.must(w.follower.Detach())
	f.add(w.T, st, n)
	w.must(w.primary.Kill())
	w.must(w.follower.Promote())
}

// caughtUp waits until the follower has what the primary has.
func (w *twins) caughtUp() {
	w.Helper()
	r := newRaw(w.T, w.primary.DSN("petrel1"))
	eventually.True(w.T, "the follower has what the primary has", func() bool {
		return r.number(`SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()`) == 1
	})
}

// goOn takes the feed over and adds a row, as soon as that can be done: at first an
// append may have an unknown outcome. Each commit of f has one row.
func (f *feedWriter) goOn(t *testing.T, st *Store) {
	t.Helper()
	var last error
	if !eventually.Holds(func() bool {
		epoch, pos, err := st.Takeover(context.Background(), f.feed, holder)
		if err == nil {
			f.epoch, f.pos, f.heads[0] = epoch, pos, im.Seq(pos)
			err = appendOne(st, f.next())
		}
		if last = err; err == nil {
			f.pos++
		}
		return err == nil
	}) {
		t.Fatalf("no append is taken again: %v", last)
	}
}

func TestStandbyThatLaggedIsNotServed(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	st, other := w.open(w.both()), w.open(w.both())
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 3)
	w.lag(st, f, 2)
	w.failed(st, "database 1", "at least 2 commits", "feed 1 has 3 of 5", "petrel repair")
	_, err := st.LastRow(t.Context(), conv(1, 0))
	wantErr(t, "read", err, store.ErrFailed)
	// Another node that knew nothing is fenced, and finds what was written down.
	if _, _, err := other.Takeover(t.Context(), 2, 7); err == nil {
		t.Error("another node takes a feed over")
	}
	w.failed(other, "feed 1 has 3 of 5")
	o := Options{DSNs: []string{w.both()}}
	if st, err := Open(t.Context(), o); err == nil {
		mustClose(t, st)
		t.Fatal("a store that lacks what was acked opens")
	} else if p, ok := errors.AsType[*Problem](err); !ok || p.Code != "rewound" {
		t.Fatalf("open: %v, want rewound", err)
	}
	mustClose(t, st)
	mustClose(t, other)
	r, err := renew(t, o)
	w.must(err)
	if len(r.Proofs) != 1 || !strings.Contains(r.Proofs[0], "feed 1 has 3 of 5") || r.History == r.Former {
		t.Errorf("renewed: %+v, want feed 1 that has 3 of 5, and another history", r)
	}
	st = w.open(w.both())
	if st.Info().HistoryID != r.History {
		t.Errorf("history %x, want %x", st.Info().HistoryID, r.History)
	}
	f = newFeedWriter(t, st, 1)
	if f.pos != 3 {
		t.Errorf("the feed is at %d, want 3", f.pos)
	}
	f.heads[0] = 3
	f.add(t, st, 1)
	// The former primary comes back with the former history, as the first that the URL names.
	w.must(w.primary.Start())
	st.dbs[0].pool.Reset()
	if h := head(t, st, 1); h != 4 {
		t.Errorf("last row is %d, want 4", h)
	}
	f.add(t, st, 1)
	if p, ok := errors.AsType[*Problem](st.dbs[0].checkServerState(&serverState{store: st.Info().StoreID + 1})); !ok || p.Code != "other_store" || st.Writable() == nil {
		t.Errorf("a server with another store: %v", p)
	}
}

// A promoted standby that has all commits is used at once. The former primary is not used again, whichever DSN
// names it.
func TestPrimaryFromBeforeAFailoverIsRefused(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	st := w.open(w.both())
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 3)
	w.lag(st, f, 0)
	f.goOn(t, st)
	f.add(t, st, 1)
	last := im.Seq(f.pos)
	if g := st.Figures(0).Generation; g != 2 {
		t.Errorf("generation %d, want 2", g)
	}
	w.must(w.primary.Start())
	// A node that knows nothing comes to the old one, and hears of the other.
	late := mustOpen(t, unhurried(Options{DSNs: []string{w.dsn(w.primary.Port)}, CheckEvery: 20 * time.Millisecond}))
	t.Cleanup(func() { mustClose(t, late) })
	late.Hear("a", st.Seen())
	ctx := eventually.Context(t)
	if _, _, err := late.Takeover(ctx, 9, 7); err == nil {
		t.Fatal("a feed was taken over in the old primary")
	}
	_, err := late.Holders(ctx, late.Feeds())
	wantErr(t, "holders", err, store.ErrStalled)
	_, err = late.Record(ctx, store.Users, 1, []byte("ann"))
	wantErr(t, "read", err, store.ErrStalled)
	if ctx.Err() != nil {
		t.Error("the store waits for a database that it refuses")
	}
	eventually.True(t, "it says so", func() bool {
		p, ok := errors.AsType[*Problem](late.Behind())
		return ok && p.Code == "database_behind" && late.Writable() != nil && strings.Contains(p.Fix, "pg_rewind")
	})
	if late.Figures(0).Refused == 0 {
		t.Error("nothing was refused")
	}
	// One that names both finds the right one behind the wrong one.
	both := w.open(w.both())
	both.Hear("a", st.Seen())
	eventually.True(t, "the right one is used", func() bool { return both.Behind() == nil && both.Writable() == nil })
	if h := head(t, both, 1); h != last {
		t.Errorf("last row is %d, want %d", h, last)
	}
	// And who lost its connections does not come back to the old one.
	st.dbs[0].pool.Reset()
	if h := head(t, st, 1); h != last {
		t.Errorf("last row is %d, want %d", h, last)
	}
	f.add(t, st, 1)
}

// Commits that another node has added since a failover do not hide the loss of two commits: the feed stands higher than
// the first node knows, but it lacks commits that this node acked before the failover.
func TestCommitsThatCameSinceHideNothing(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	p, far := newProxy(t, w.follower.DSN("petrel1"))
	port := strings.Split(strings.TrimPrefix(far, "postgres://petrel@127.0.0.1:"), "/")[0]
	st := w.open(strings.Replace(w.both(), fmt.Sprint(w.follower.Port), port, 1))
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 3)
	p.close(true)
	w.lag(st, f, 2)
	other := w.open(w.both())
	g := newFeedWriter(t, other, 1)
	if g.pos != 3 {
		t.Fatalf("the other node is at %d, want 3", g.pos)
	}
	g.heads[0] = 3
	g.add(t, other, 7)
	select {
	case <-st.Failed():
		t.Fatal("the store has failed before it has seen the new primary")
	default:
	}
	p.close(false)
	w.failed(st, "feed 1 has 3 of 5")
	// The one that went on is fenced at that moment.
	wantErr(t, "append of the other node", appendOne(other, g.next()), store.ErrStale)
	_, err := other.Holders(t.Context(), []store.Feed{1})
	wantErr(t, "holders", err, store.ErrFailed)
	w.failed(other)
}

// Hear compares the positions that another node knows with those of the generation in use, which may lack commits.
func TestWhatPeersKnowIsCompared(t *testing.T) {
	st, r := one(t)
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 3)
	m := st.Seen()
	m.Positions[1], m.Positions[2] = 3, 0
	st.Hear("b", m)
	if _, err := st.Holders(t.Context(), st.Feeds()); err != nil {
		t.Fatal(err)
	}
	m.Positions[2] = 4 // of a feed that this node has nothing of
	st.Hear("b", m)
	_, _, err := st.Takeover(t.Context(), 2, 7)
	wantErr(t, "takeover below what a peer knows", err, store.ErrFailed)
	if n := r.number(`SELECT count(*) FROM petrel.part WHERE state = 3`); n != im.Partitions {
		t.Errorf("%d feeds are closed, want all", n)
	}
}

func TestPeerOfAFormerGenerationTellsWhatIsMissing(t *testing.T) {
	st, r := one(t)
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 3)
	old := st.Seen()
	// As a failover does: the server has another timeline than what is written down.
	r.do(`UPDATE petrel.generations SET timeline = timeline + 7`)
	r.do(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	eventually.True(t, "a new generation", func() bool { return st.Figures(0).Generation == 2 })
	f.goOn(t, st)
	f.add(t, st, 8)
	st.Hear("b", old)
	if err := st.Writable(); err != nil {
		t.Fatalf("what the peer knows is there: %v", err)
	}
	old.Positions[1] = 4 // it acked one more, that was not there when the generation began
	st.Hear("b", old)
	if err := st.Writable(); err == nil || !strings.Contains(err.Error(), "feed 1 has 3 of 4") {
		t.Errorf("the store has failed with %v", err)
	}
}

// A dump, or a base backup, that lacks one commit is used on another server, whose system identifier is not the
// recorded one; after a restore to a point in time the timeline is another one. A node that knows the commit shows
// what is missing, also when a node that knew nothing has written to the database since.
func TestDatabasesRestoredOnAnotherServerAreRefused(t *testing.T) {
	for what, other := range map[string]string{
		"system identifier": `UPDATE petrel.generations SET system = system + 7`,
		"timeline":          `UPDATE petrel.generations SET timeline = timeline + 7`,
	} {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, written since: %v", what, written), func(t *testing.T) {
				dsn := blank(t)
				st := mustOpen(t, Options{DSNs: []string{dsn}})
				newFeedWriter(t, st, 1).add(t, st, 3)
				known := st.Seen()
				mustClose(t, st)
				r := newRaw(t, dsn)
				r.do(`UPDATE petrel.part SET pos = 2 WHERE id = 1`)
				r.do(`DELETE FROM petrel.feed WHERE pos > 2`)
				r.do(other)
				st = mustOpen(t, Options{DSNs: []string{dsn}})
				defer func() { _ = st.Close() }() // it has failed
				if n := st.Figures(0).Generation; n != 2 {
					t.Fatalf("generation %d, want 2", n)
				}
				if written {
					f := newFeedWriter(t, st, 1)
					f.heads[0] = 3
					f.add(t, st, 4)
				}
				st.Hear("b", known)
				if err := st.Writable(); err == nil || !strings.Contains(err.Error(), "feed 1 has 2 of 3") {
					t.Errorf("the store has failed with %v", err)
				}
			})
		}
	}
}

// One of two databases goes back to before a partition was moved to it. A node that starts makes the partition anew,
// empty; the other node knows what is missing.
func TestPartitionThatIsMadeAnewIsNotServed(t *testing.T) {
	o := Options{DSNs: []string{blank(t), blank(t)}, CheckEvery: 20 * time.Millisecond}
	st := mustOpen(t, o)
	defer func() { _ = st.Close() }() // it has failed
	newFeedWriter(t, st, 2).add(t, st, 2)
	if err := st.MovePartition(t.Context(), 2, 2); err != nil {
		t.Fatal(err)
	}
	second := newRaw(t, o.DSNs[1])
	if n := second.number(`SELECT pos FROM petrel.part WHERE id = 2`); n != 2 {
		t.Fatalf("the partition was moved with %d commits, want 2", n)
	}
	second.do(`DELETE FROM petrel.part WHERE id = 2`)
	second.do(`DELETE FROM petrel.feed`)
	late := mustOpen(t, o)
	defer func() { _ = late.Close() }() // it may have failed
	if n := second.number(`SELECT pos FROM petrel.part WHERE id = 2`); n != 0 {
		t.Fatalf("the new partition is at %d, want 0", n)
	}
	_, err := st.Holders(t.Context(), []store.Feed{2})
	wantErr(t, "holders", err, store.ErrFailed)
	if got := st.Writable().Error(); !strings.Contains(got, "database 2") || !strings.Contains(got, "feed 2 has 0 of 2") {
		t.Errorf("the store has failed with %q", got)
	}
	_, _, err = late.Takeover(t.Context(), 2, 7)
	wantErr(t, "takeover by another node", err, store.ErrFailed)
}

// Two standbys that were both promoted begin generations with the same number. All nodes use the same one of them.
func TestTwoPromotedStandbysAreNotBothUsed(t *testing.T) {
	st, _ := one(t)
	m := st.Seen()
	own := m.Generations[0]
	m.Generations[0] = &storepb.Generation{Number: own.Number, Token: own.Token - 1}
	st.Hear("b", m)
	if err := st.Behind(); err != nil || st.Writable() != nil {
		t.Errorf("the higher one is refused: %v", err)
	}
	m.Generations[0] = &storepb.Generation{Number: own.Number, Token: own.Token + 1}
	st.Hear("b", m)
	eventually.True(t, "the lower one is refused", func() bool { return st.Behind() != nil && st.Writable() != nil })
}

// A server that does not tell who it is has a generation, and is compared.
func TestServerThatDoesNotTellWhoItIs(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.Empty(t)
	r := newRaw(t, dsn)
	r.do(`REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	server.Role(t, "plain", `LOGIN`)
	r.do(`DO $$ BEGIN EXECUTE 'GRANT CREATE ON DATABASE ' || current_database() || ' TO plain'; END $$`)
	st := mustOpen(t, Options{DSNs: []string{strings.Replace(dsn, "petrel@", "plain@", 1)}, CheckEvery: 20 * time.Millisecond})
	defer func() { _ = st.Close() }() // it has failed
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 2)
	if n := r.number(`SELECT system + timeline FROM petrel.generations`); n != 0 {
		t.Errorf("system and timeline are %d, want 0", n)
	}
	r.do(`UPDATE petrel.part SET pos = 1 WHERE id = 1`)
	_, err := st.Holders(t.Context(), []store.Feed{1})
	wantErr(t, "holders", err, store.ErrFailed)
}

// The answer of a lower generation may arrive after a higher one has become known. It is not believed.
func TestAnswerOfALowerGenerationIsNotBelieved(t *testing.T) {
	st, r := one(t)
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 1)
	r.do(`BEGIN`)
	r.do(`SELECT 1 FROM petrel.part WHERE id = 1 FOR UPDATE`)
	r.do(`LOCK TABLE petrel.msg IN ACCESS EXCLUSIVE MODE`)
	got := start(st, f.next())
	read := make(chan error, 1)
	go func() { // ends with its answer
		_, err := st.LastRow(context.Background(), conv(1, 0))
		read <- err
	}()
	waiting(t, st, 2)
	m := st.Seen()
	m.Generations[0] = &storepb.Generation{Number: 2}
	st.Hear("b", m)
	r.do(`COMMIT`)
	wantErr(t, "append", <-got, store.ErrUnknown)
	wantErr(t, "read", <-read, store.ErrStalled)
	wantErr(t, "append after that", appendOne(st, f.next()), store.ErrStalled)
}

// The steps of docs/guide/cluster.md, "Failover of a database": a synchronous
// standby takes over, the former primary is fenced, made a standby with pg_rewind,
// and takes over in its turn.
func TestFailoverByTheGuide(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.must(w.primary.WaitFor(w.follower.Server))
	st := mustOpen(t, Options{DSNs: []string{w.both() + "&target_session_attrs=read-write"}, RequireStandby: true, CheckEvery: 20 * time.Millisecond})
	t.Cleanup(func() { mustClose(t, st) })
	f := newFeedWriter(t, st, 1)
	f.add(t, st, 3)
	for i, from := range []*pgtest.Server{w.primary, w.follower} {
		to := w.follower
		if from == w.follower {
			to = w.primary
		}
		w.must(from.Stop())  // pg_ctl stop -m fast
		w.must(to.Promote()) // SELECT pg_promote()
		f.goOn(t, st)
		f.add(t, st, 1)
		if g := st.Figures(0).Generation; g != uint64(i+2) {
			t.Errorf("generation %d after %d failovers", g, i+1)
		}
		w.must(to.Rewind(from.Server)) // pg_rewind, then the former primary follows
		w.must(to.WaitFor(from.Server))
		r := newRaw(t, to.DSN("petrel1"))
		eventually.True(t, "the former primary follows", func() bool {
			return r.number(`SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
		})
		f.add(t, st, 1)
	}
	if err := st.Rows(t.Context(), conv(1, 0), 1, im.Seq(f.pos), func(store.Row) bool { return true }); err != nil {
		t.Error(err)
	}
}

// Each database is compared with the known positions of its own feeds. If one lacks commits, the store ends.
func TestOneOfSeveralDatabasesWentBack(t *testing.T) {
	o := Options{DSNs: []string{blank(t), blank(t)}, CheckEvery: 20 * time.Millisecond}
	st, other := mustOpen(t, o), mustOpen(t, o)
	near, far := newFeedWriter(t, st, 0), newFeedWriter(t, st, 1)
	near.add(t, st, 2)
	far.add(t, st, 2)
	second := newRaw(t, o.DSNs[1])
	second.do(`UPDATE petrel.part SET pos = 1 WHERE id = 1`)
	if _, err := st.Holders(t.Context(), []store.Feed{0, 2, 3}); err != nil {
		t.Fatalf("feeds that lack nothing: %v", err)
	}
	_, err := st.Holders(t.Context(), []store.Feed{0, 1})
	wantErr(t, "holders", err, store.ErrFailed)
	if got := st.Writable().Error(); !strings.Contains(got, "database 2") || !strings.Contains(got, "feed 1 has 1 of 2") {
		t.Errorf("the store has failed with %q", got)
	}
	if n := newRaw(t, o.DSNs[0]).number(`SELECT count(*) FROM petrel.part WHERE state = 3`); n != 0 {
		t.Errorf("%d feeds of the other database are closed", n)
	}
	_, _, err = other.Takeover(t.Context(), 3, 7)
	wantErr(t, "takeover by another node", err, store.ErrFailed)
	mustClose(t, st)
	mustClose(t, other)
	r, err := renew(t, Options{DSNs: o.DSNs})
	if err != nil || len(r.Proofs) != 1 || !strings.HasPrefix(r.Proofs[0], "database 2: ") || !strings.Contains(r.Proofs[0], "feed 1 has 1 of 2") {
		t.Fatalf("renewed: %+v, %v", r, err)
	}
	again := mustOpen(t, Options{DSNs: o.DSNs})
	defer mustClose(t, again)
	newFeedWriter(t, again, 2).add(t, again, 1)
}
