package pgstore

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

var seed = flag.Uint64("seed", rand.Uint64(), "of the random tests")

func TestStoreLivesThroughTheEndOfItsServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t, pgtest.Options{})
	st := mustOpen(t, unhurried(Options{DSNs: []string{server.New(t)}, CheckEvery: 20 * time.Millisecond}))
	defer mustClose(t, st)
	w := newFeedWriter(t, st, 1)
	w.add(t, st, 3)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "appends are refused while nobody asks", func() bool { return errors.Is(st.Writable(), store.ErrStalled) })
	ctx := eventually.Context(t)
	wantErr(t, "append", eventually.Receive(t, "the refusal of an append", start(st, w.next())), store.ErrStalled)
	_, err := st.LastRow(ctx, conv(1, 0))
	wantErr(t, "read", err, store.ErrStalled)
	wantErr(t, "update", st.Update(ctx, []store.RecordPut{{Table: store.Users, Key: []byte("a"), Value: []byte("b")}}), store.ErrStalled)
	if ctx.Err() != nil {
		t.Error("the store waits for a database that it knows to be away")
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "appends are taken again", func() bool { return st.Writable() == nil })
	select {
	case <-st.Failed():
		t.Error("the store has failed")
	default:
	}
	if h := head(t, st, 1); h != 3 {
		t.Errorf("last row is %d, want 3", h)
	}
	// Nothing was written of what was refused as stalled: the writer goes on.
	w.heads[0] = 3
	w.add(t, st, 1)
}

// unhurried are options of a store that never gives up waiting: what it refuses, it refuses
// at once.
func unhurried(o Options) Options {
	o.Timeout, o.StallAfter = time.Hour, time.Hour
	return o
}

func TestReadSurvivesTheLossOfItsConnection(t *testing.T) {
	st, r := one(t)
	w := newFeedWriter(t, st, 1)
	w.add(t, st, 1)
	for range 5 {
		head(t, st, 1)
		r.do(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if h := head(t, st, 1); h != 1 {
			t.Errorf("last row is %d, want 1", h)
		}
	}
}

func TestReadThatGetsNoAnswerInItsTimeSaysThatTheStoreStalls(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t, pgtest.Options{})
	st := mustOpen(t, Options{DSNs: []string{server.New(t)}, CheckEvery: time.Hour})
	defer mustClose(t, st)
	w := newFeedWriter(t, st, 1)
	w.add(t, st, 1)
	if err := server.Pause(true); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Pause(false); err != nil {
			t.Error(err)
		}
	}()
	for what, read := range map[string]func(context.Context) error{
		"read":            func(ctx context.Context) error { _, err := st.LastRow(ctx, conv(1, 0)); return err },
		"read of holders": func(ctx context.Context) error { _, err := st.Holders(ctx, st.Feeds()); return err },
	} {
		ctx, end := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() { answered <- read(overdue{ctx}) }() // ends with ctx
		eventually.True(t, "a "+what+" waits for the server", func() bool { return st.dbs[0].pool.Stat().AcquiredConns() > 0 })
		end()
		wantErr(t, what, <-answered, store.ErrStalled)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := st.LastRow(ctx, conv(1, 0)); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrStalled) {
		t.Errorf("a read that was called off ended with %v", err)
	}
}

// overdue is a context whose end is the end of its time.
type overdue struct{ context.Context }

func (c overdue) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// TestKillsLoseNothingAcked ends the server at random moments and compares what
// it comes back with to what its users were told.
func TestKillsLoseNothingAcked(t *testing.T) {
	t.Parallel()
	t.Logf("replay with -seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 0))
	server := pgtest.Own(t, pgtest.Options{})
	o := Options{DSNs: []string{server.New(t)}}
	told := storetest.NewWorkload()
	st := mustOpen(t, o)
	if f, err := told.Promise().Check(t.Context(), st); err != nil {
		t.Fatal(err)
	} else {
		told.Adopt(st, f)
	}
	mustClose(t, st)
	for life := range lives() {
		st := mustOpen(t, o)
		var wg sync.WaitGroup
		until := told.Acked() + rng.IntN(50)
		wg.Go(func() {
			if !eventually.Holds(func() bool { return told.Acked() >= until }) {
				t.Error("the writer stands still")
			}
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
		})
		driven := rand.New(rand.NewPCG(*seed, uint64(life)+1))
		if err := told.Drive(t.Context(), st, driven, 1<<20); err == nil || errors.Is(err, store.ErrFailed) {
			t.Fatalf("a writer whose server was killed ends with %v", err)
		}
		wg.Wait()
		_ = st.Close() // its server is gone
		promise := told.Promise()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		st = mustOpen(t, o)
		found, err := promise.Check(t.Context(), st)
		if err != nil {
			t.Fatalf("life %d, %d commits acked: %v", life, promise.Acked(), err)
		}
		told.Adopt(st, found)
		mustClose(t, st)
	}
	t.Logf("%d commits", told.Acked())
}

// lives is how often the server is killed.
func lives() int {
	if n, err := strconv.Atoi(os.Getenv("PETREL_KILLS")); err == nil {
		return n / 10
	}
	return 3
}

func TestRestoredCopyEndsTheStore(t *testing.T) {
	st, r := one(t)
	r.do(`UPDATE petrel.store SET history_id = history_id + 1`)
	r.do(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	eventually.Receive(t, "the store fails with another history", st.Failed())
	wantErr(t, "Writable", st.Writable(), store.ErrFailed)
	wantErr(t, "append", appendOne(st, &store.Batch{Feed: 1}), store.ErrFailed)
	_, err := st.LastRow(t.Context(), conv(1, 0))
	wantErr(t, "read", err, store.ErrFailed)
}

func TestNodesThatStartTogetherMakeOneStore(t *testing.T) {
	for range 3 {
		server := pgtest.Shared(t)
		dsns := []string{server.Empty(t), server.Empty(t)}
		const nodes = 6
		infos := make([]store.Info, nodes)
		var wg sync.WaitGroup
		for i := range nodes {
			wg.Go(func() {
				st, err := Open(t.Context(), Options{DSNs: dsns, Conns: 2})
				if err != nil {
					t.Errorf("node %d: %v", i, err)
					return
				}
				infos[i] = st.Info()
				if _, _, err := st.Takeover(t.Context(), store.Feed(i), holder); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
				mustClose(t, st)
			})
		}
		wg.Wait()
		for i, info := range infos {
			if info != infos[0] || info.StoreID == 0 {
				t.Errorf("node %d is of store %+v, node 0 of %+v", i, info, infos[0])
			}
		}
	}
}

// TestStartSaysWhatToDo has a start fail for each reason there is.
func TestStartSaysWhatToDo(t *testing.T) {
	server := pgtest.Shared(t)
	made := func(t *testing.T, dsn string) string { // of a store
		mustClose(t, mustOpen(t, Options{DSNs: []string{dsn}}))
		return dsn
	}
	const password = "hunter2"
	server.Role(t, "locked", `LOGIN PASSWORD 'other'`)
	server.Role(t, "weak", `LOGIN`)
	as := func(dsn, user string) string { return strings.Replace(dsn, "petrel@", user+"@", 1) }
	for _, c := range []struct {
		name    string
		options func(t *testing.T) Options
		want    []string
	}{
		{"nothing is named", func(*testing.T) Options { return Options{} }, []string{"no database is named"}},
		{"no DSN", func(*testing.T) Options {
			return Options{DSNs: []string{"postgres://u:" + password + "@host:port/x"}}
		}, []string{"database 1", "cannot be read", "postgres://user:password@host"}},
		{"unreachable", func(*testing.T) Options {
			return Options{DSNs: []string{"postgres://u:" + password + "@127.0.0.1:1/x"}}
		}, []string{"database 1", "127.0.0.1:1", "does not answer", "check that PostgreSQL runs"}},
		{"two hosts", func(*testing.T) Options {
			return Options{DSNs: []string{"postgres://u:" + password + "@127.0.0.1:1,127.0.0.1:2/x"}}
		}, []string{"database 1 (u@127.0.0.1:1,127.0.0.1:2/x)", "127.0.0.1:1, 127.0.0.1:2 does not answer"}},
		{"wrong password", func(t *testing.T) Options {
			return Options{DSNs: []string{as(blank(t), "locked:"+password)}}
		}, []string{`user "locked"`, "correct user or password"}},
		{"no such database", func(*testing.T) Options {
			return Options{DSNs: []string{server.DSN("nowhere")}}
		}, []string{`no database "nowhere"`, "createdb"}},
		{"no rights", func(t *testing.T) Options {
			return Options{DSNs: []string{as(server.Empty(t), "weak")}}
		}, []string{`"weak"`, "GRANT CREATE ON DATABASE"}},
		{"old server", func(t *testing.T) Options {
			return Options{DSNs: []string{blank(t)}, oldest: 990000}
		}, []string{"too old", "needs 99"}},
		{"no standby", func(t *testing.T) Options {
			return Options{DSNs: []string{blank(t)}, RequireStandby: true}
		}, []string{"set synchronous_standby_names"}},
		{"schema too new", func(t *testing.T) Options {
			dsn := made(t, server.New(t))
			newRaw(t, dsn).do(`UPDATE petrel.migrations SET version = 43, min_reader = 42`)
			return Options{DSNs: []string{dsn}}
		}, []string{"version 43", "schema 42", "this one has 1", "install the newer Petrel"}},
		{"level too new", func(t *testing.T) Options {
			dsn := made(t, server.New(t))
			newRaw(t, dsn).do(`UPDATE petrel.migrations SET level = 43, min_level = 42`)
			return Options{DSNs: []string{dsn}}
		}, []string{"level 43", "level 42", "this one has 1"}},
		{"other partitions", func(t *testing.T) Options {
			dsn := made(t, blank(t))
			newRaw(t, dsn).do(`UPDATE petrel.store SET partitions = 128`)
			return Options{DSNs: []string{dsn}}
		}, []string{"128 partitions", "256"}},
		{"two clusters", func(t *testing.T) Options { return Options{DSNs: []string{made(t, blank(t)), made(t, blank(t))}} },
			[]string{"database 2", "two clusters cannot share"}},
		{"other order", func(t *testing.T) Options {
			dsns := []string{blank(t), blank(t)}
			mustClose(t, mustOpen(t, Options{DSNs: dsns}))
			return Options{DSNs: []string{dsns[1], dsns[0]}}
		}, []string{"is database 2", "names it as database 1", "in the same order as before"}},
		{"one is missing", func(t *testing.T) Options {
			dsns := []string{blank(t), blank(t)}
			mustClose(t, mustOpen(t, Options{DSNs: dsns}))
			return Options{DSNs: dsns[:1]}
		}, []string{"is in database 2, and store.postgres names 1 databases"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			o := c.options(t)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			st, err := Open(t.Context(), o)
			if err == nil {
				mustClose(t, st)
				t.Fatal("it was opened")
			}
			t.Log(err)
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q, want %q in it", err, w)
				}
			}
			if strings.Contains(err.Error()+log.String(), password) {
				t.Errorf("the password is told: %v %s", err, &log)
			}
		})
	}
}

// A primary whose standby is away takes statements and lets each commit wait. The start says
// that, and which server it is; and where there is nothing to change it writes nothing.
func TestStartSaysThatItsCommitsWaitForAStandby(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t, pgtest.Options{})
	made, fresh := server.New(t), server.New(t)
	mustClose(t, mustOpen(t, Options{DSNs: []string{made}}))
	r := newRaw(t, made)
	before := r.number(`SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`)
	d, err := newDatabase(Options{DSNs: []string{made}}.withDefaults(), 0, &outage{}, func() *store.Info { return nil }, &seen{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.prepare(t.Context(), nil, 1); err != nil {
		t.Fatal(err)
	}
	if after := r.number(`SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint`); after != before {
		t.Errorf("%d transactions were written where there was nothing to change", after-before)
	}

	r.do(`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
	r.do(`SELECT pg_reload_conf()`)
	eventually.True(t, "the server to wait for its standby", func() bool {
		return newRaw(t, fresh).number(`SELECT (current_setting('synchronous_standby_names') = 'nobody')::int`) == 1
	})
	var log bytes.Buffer
	_, err = Open(t.Context(), Options{DSNs: []string{fresh}, Timeout: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, want := range []string{fmt.Sprintf("127.0.0.1:%d has stored the commit and waits for a standby", server.Port), `"nobody"`, "start the standby"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if n := strings.Count(log.String(), "the start waits for the database"); n != 1 {
		t.Errorf("it was said %d times: %s", n, &log)
	}
}

func TestNewerSchemaIsOpenedIfItsOldestReaderIsNotNewer(t *testing.T) {
	dsn := pgtest.Shared(t).New(t)
	mustClose(t, mustOpen(t, Options{DSNs: []string{dsn}}))
	r := newRaw(t, dsn)
	r.do(`UPDATE petrel.migrations SET version = 43`)
	st := mustOpen(t, Options{DSNs: []string{dsn}})
	defer mustClose(t, st)
	newFeedWriter(t, st, 1).add(t, st, 1)
	if v := r.number(`SELECT version FROM petrel.migrations`); v != 43 {
		t.Errorf("the schema has version %d now, want 43", v)
	}
}

func TestFeedsAreInTheirDatabases(t *testing.T) {
	o := Options{DSNs: []string{blank(t), blank(t)}}
	st := mustOpen(t, o)
	for f := range store.Feed(4) {
		newFeedWriter(t, st, f).add(t, st, 1)
	}
	mustClose(t, st)
	for n, dsn := range o.DSNs {
		r := newRaw(t, dsn)
		if parts := r.number(`SELECT count(*) FROM petrel.part`); parts != im.Partitions/2 {
			t.Errorf("database %d has %d partitions", n+1, parts)
		}
		if rows := r.number(`SELECT count(*) FROM petrel.msg`); rows != 2 {
			t.Errorf("database %d has %d rows, want 2", n+1, rows)
		}
	}
	// One that is named later holds nothing, and is part of the store.
	o.DSNs = append(o.DSNs, blank(t))
	st = mustOpen(t, o)
	defer mustClose(t, st)
	if h := head(t, st, 3); h != 1 {
		t.Errorf("last row is %d, want 1", h)
	}
	if parts := newRaw(t, o.DSNs[2]).number(`SELECT count(*) FROM petrel.part`); parts != 0 {
		t.Errorf("the new database has %d partitions", parts)
	}
}

func TestOneDatabaseAwayLeavesTheOthers(t *testing.T) {
	p, second := newProxy(t, blank(t))
	st := mustOpen(t, Options{DSNs: []string{blank(t), second}, CheckEvery: 20 * time.Millisecond})
	defer mustClose(t, st)
	near, far := newFeedWriter(t, st, 0), newFeedWriter(t, st, 1)
	far.add(t, st, 1)
	p.close(true)
	p.cut()
	eventually.True(t, "the loss is seen", st.dbs[1].stalled)
	far.heads[0] = 1
	wantErr(t, "append to the one that is away", appendOne(st, far.next()), store.ErrStalled)
	near.add(t, st, 1)
	if err := st.Writable(); err != nil {
		t.Errorf("the other database takes appends: %v", err)
	}
	p.close(false)
	eventually.True(t, "it is back", func() bool { return !st.dbs[1].stalled() })
	far.heads[0] = 1
	far.add(t, st, 1)
}

// TestCloseAnswersWhatIsUnderWay: an append that has returned gets its done.
func TestCloseAnswersWhatIsUnderWay(t *testing.T) {
	dsn := blank(t)
	st := mustOpen(t, Options{DSNs: []string{dsn}})
	var all []<-chan error
	for f := range store.Feed(50) {
		all = append(all, start(st, newFeedWriter(t, st, f).next()))
	}
	mustClose(t, st)
	for f, got := range all {
		select {
		case err := <-got:
			if err != nil {
				t.Errorf("append to feed %d: %v", f, err)
			}
		default:
			t.Errorf("append to feed %d was not answered", f)
		}
	}
	if err := st.Update(context.Background(), []store.RecordPut{{Table: store.Users}}); err == nil {
		t.Error("a closed store took a record")
	}
}
