package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/store/pgserver"
	"github.com/petrel-im/petrel/internal/store/pgstore"
	"github.com/petrel-im/petrel/internal/store/pgtest"
)

// combination is what a scenario runs on.
type combination struct {
	name     string
	postgres bool // otherwise the embedded store
	nodes    int  // of more than one the bus is NATS, embedded in them
	all      bool // each file is run in all its ways
	first    int  // otherwise, which of its ways the first file is run in; the next file is run in the next way
	raced    int  // under the race detector one file of this many is run, and those about nodes
}

// Three nodes: the sessions are spread over them, and come back to another one;
// calls go to each in turn.
var combinations = []combination{
	{"Pebble", false, 1, !raced, 1, 1},
	{"Postgres", true, 1, false, 4, 3},
	{"PostgresNATS3", true, 3, false, 3, 3},
}

// waysOf is in which ways the i-th file is run.
//
// The race detector makes a run five times as expensive. Under it a file is run
// once on the embedded store. On three nodes every third file is run, and those
// about nodes that come and go: the others take the same way between the nodes.
// On one node with a database every third is: that node is made of parts which
// the other two combinations have.
func (c combination) waysOf(i int, lines []line) []way {
	all := waysOf(lines)
	if needsCluster(lines) && c.nodes == 1 {
		return nil
	}
	if raced && (i%c.raced != 0 && !needsCluster(lines) || c.postgres && has(lines, "raced on Pebble") || racedBy(lines) != "") {
		return nil
	}
	if c.all {
		return all
	}
	if raced {
		i /= c.raced
	}
	return []way{all[(i+c.first)%len(all)]}
}

// has tells whether a file has a directive.
func has(lines []line, text string) bool {
	return slices.ContainsFunc(lines, func(l line) bool { return l.kind == directive && l.text == text })
}

// racedBy is the file that goes the same paths with less of everything, so that
// the race detector need not watch this one; "": none.
func racedBy(lines []line) string {
	for _, l := range lines {
		if file, ok := strings.CutPrefix(l.text, "raced by "); ok && l.kind == directive {
			return file
		}
	}
	return ""
}

// Every file is run on every combination that it can be run on, and each
// combination sees every way. Under the race detector every file is run at least
// once, and each combination still sees every way.
func TestEveryCombinationSeesEveryWay(t *testing.T) {
	seen, files, by := map[string]bool{}, map[string]bool{}, map[string]string{}
	for i, f := range readFiles(t) {
		runs := 0
		if files[f.name] = racedBy(f.lines) == ""; !files[f.name] {
			by[f.name] = racedBy(f.lines) + ".txt"
		}
		for _, c := range combinations {
			in := c.waysOf(i, f.lines)
			if len(in) == 0 && !raced && !(needsCluster(f.lines) && c.nodes == 1) {
				t.Errorf("%s is not run on %s", f.name, c.name)
			}
			for _, w := range in {
				seen[c.name+" "+w.name] = true
			}
			runs += len(in)
		}
		if runs == 0 && (!raced || files[f.name]) {
			t.Errorf("%s is not run", f.name)
		}
	}
	for file, other := range by {
		if !files[other] {
			t.Errorf("%s is raced by %s, which is not there, or not raced", file, other)
		}
	}
	for _, c := range combinations {
		for _, w := range ways {
			if !seen[c.name+" "+w.name] {
				t.Errorf("nothing is run on %s in the way %s", c.name, w.name)
			}
		}
	}
}

// needsCluster tells whether a file is about nodes that come and go: they are
// processes of their own then, and one node has nobody to go to.
func needsCluster(lines []line) bool {
	return has(lines, "cluster")
}

// needsOwnServers tells whether a file does something to its servers that other
// runs would notice, or counts what others do there as well.
func needsOwnServers(lines []line) bool {
	return slices.ContainsFunc(lines, func(l line) bool {
		if l.kind != directive {
			return false
		}
		word, _, _ := strings.Cut(l.text, " ")
		return slices.Contains([]string{"own", "server", "cluster", "limits", "restart", "backup"}, word) || strings.HasSuffix(l.text, " is cut off")
	})
}

// start starts servers that end with t. It returns the name of their database;
// "": the embedded store.
func (c combination) start(t *testing.T, o imtest.Options) (nodes []*imtest.Server, database string) {
	t.Helper()
	if c.postgres {
		var err error
		if database, err = postgres.create(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := postgres.drop(database); err != nil {
				t.Error(err)
			}
		})
		o.Postgres = postgres.server.DSN(database)
	}
	if c.nodes == 1 {
		return []*imtest.Server{imtest.Start(t, o)}, database
	}
	return imtest.Cluster(t, c.nodes, o), database
}

// shared are servers that many runs use at the same time, each in tenants of its
// own: most of what a run would cost is to start three nodes.
type shared struct {
	t    *testing.T // they end with it
	mu   sync.Mutex // tier 0; guards the fields below; held while servers start
	of   map[serverKind]*servers
	runs int
}

// serverKind is what servers must have in common to be the same.
type serverKind struct {
	combination string
	tls         bool
}

type servers struct {
	nodes    []*imtest.Server
	database string
}

// join gives a run its part of the servers, and the prefix of its tenants.
func (s *shared) join(t *testing.T, c combination, tls bool) (of servers, guest string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := serverKind{c.name, tls}
	if s.of[k] == nil {
		s.of[k] = &servers{} // what is left if they do not start
		nodes, database := c.start(s.t, imtest.Options{TLS: tls})
		s.of[k] = &servers{nodes, database}
	}
	if len(s.of[k].nodes) == 0 {
		t.Fatal("the shared servers did not start")
	}
	of.database = s.of[k].database
	for _, srv := range s.of[k].nodes {
		of.nodes = append(of.nodes, srv.For(t))
	}
	s.runs++
	guest = fmt.Sprintf("run%d", s.runs)
	of.nodes[0].Users(guest, "somebody") // makes the tenant: nobody can register in one that is not there
	return of, guest
}

// node is that of the next call.
func (w *world) node() *imtest.Server {
	for {
		w.turn++
		if srv := w.nodes[w.turn%len(w.nodes)]; srv.Running() {
			return srv
		}
	}
}

// nextNode is that of the session's next connection.
func (s *session) nextNode() *imtest.Server {
	for {
		s.turn++
		if srv := s.w.nodes[s.turn%len(s.w.nodes)]; srv.Running() && srv != s.w.drained {
			return srv
		}
	}
}

// databases are those of one PostgreSQL, which the first one starts. Each is a
// copy of one with all tables and no store in it yet.
type databases struct {
	once   sync.Once
	server *pgserver.Server
	err    error
	made   atomic.Int64
	mu     sync.Mutex // tier 0; one copy at a time: PostgreSQL refuses another one
}

var postgres databases

const emptyDatabase = "empty"

func (d *databases) create() (string, error) {
	if d.once.Do(d.open); d.err != nil {
		return "", d.err
	}
	name := fmt.Sprintf("run%d", d.made.Add(1))
	d.mu.Lock()
	defer d.mu.Unlock()
	return name, d.server.Exec("postgres", fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", name, emptyDatabase))
}

func (d *databases) drop(name string) error {
	return d.server.Exec("postgres", fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name))
}

func (d *databases) open() {
	if d.server, d.err = pgserver.Start(pgserver.Options{Settings: map[string]string{"max_connections": "600"}, Cache: pgtest.Cache()}); d.err != nil {
		return
	}
	if d.err = d.server.Exec("postgres", "CREATE DATABASE "+emptyDatabase); d.err != nil {
		return
	}
	st, err := pgstore.Open(context.Background(), pgstore.Options{DSNs: []string{d.server.DSN(emptyDatabase)}})
	if err == nil {
		err = st.Close()
	}
	if err == nil { // each copy is a store of its own
		err = d.server.Exec(emptyDatabase, "DELETE FROM petrel.store; DELETE FROM petrel.placement")
	}
	d.err = err
}

// plays are what ran to its end.
type plays struct {
	mu   sync.Mutex                     // tier 0; guards the field below
	ways map[string]map[string][]string // combination → file → ways
}

var played = plays{ways: map[string]map[string][]string{}}

func (p *plays) note(c combination, file string, w way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ways[c.name] == nil {
		p.ways[c.name] = map[string][]string{}
	}
	p.ways[c.name][file] = append(p.ways[c.name][file], w.name)
}

// summary has a line for each combination.
func (p *plays) summary() string {
	var b strings.Builder
	for _, c := range combinations {
		runs, by := 0, map[string]int{}
		for _, ways := range p.ways[c.name] {
			for _, w := range ways {
				by[w]++
				runs++
			}
		}
		fmt.Fprintf(&b, "scenarios on %s: %d files, %d runs:", c.name, len(p.ways[c.name]), runs)
		for _, w := range slices.Sorted(maps.Keys(by)) {
			fmt.Fprintf(&b, " %s %d", w, by[w])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
