package scenario

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/store/pgserver"
	"github.com/petrel-im/petrel/internal/store/pgstore"
)

// combination is what a scenario runs on.
type combination struct {
	name     string
	postgres bool // otherwise the embedded store
	nodes    int  // of more than one the bus is NATS, embedded in them
	turn     int  // so that a file is run in another way than on the combination before
}

// Three nodes: the sessions are spread over them, and come back to another one;
// calls go to each in turn.
var combinations = []combination{
	{"Pebble", false, 1, 0},
	{"Postgres", true, 1, 1},
	{"PostgresNATS3", true, 3, 2},
}

// PETREL_SCENARIOS chooses what is run. By default each file is run in one way on each
// combination, and those about the wire in all ways on the embedded store. The race
// detector watches a part of these runs.
const (
	theRest = "rest" // the files that the race detector does not watch
	allOf   = "all"  // each file in all its ways, with the large counts, and with the promises about time
)

var chosen = os.Getenv("PETREL_SCENARIOS")

// aboutTheWire are the files that are run in all ways. In the others, framing, codec and TLS
// are no subject: package wire and its conformance have each frame in each of them.
var aboutTheWire = []string{
	"direct.txt",       // a message from socket to socket
	"hello-errors.txt", // each framing ends a connection in its own way
	"poison.txt",       // every body in every codec
	"poison-json.txt",  // texts that are no frames, in every framing of JSON
	"call.txt",         // API calls in every codec, over the connection and by HTTP
}

// waysOf is in which ways a file is run: the first one is the one by its turn.
func (c combination) waysOf(f file) []way {
	all := waysOf(f.lines)
	if needsCluster(f.lines) && c.nodes == 1 {
		return nil
	}
	own := (f.number() + c.turn) % len(all)
	all = slices.Concat(all[own:], all[:own])
	if chosen == allOf || !c.postgres && slices.Contains(aboutTheWire, f.name) {
		return all
	}
	return all[:1]
}

// chosenWays is waysOf, of the part of the runs that is chosen.
func (c combination) chosenWays(f file) []way {
	all := c.waysOf(f)
	watched := 0
	if c.isWatched(f) && len(all) > 0 {
		watched = 1
	}
	switch {
	case raced:
		return all[:watched]
	case chosen == theRest:
		return all[watched:]
	}
	return all
}

// isWatched tells whether the race detector watches the first way of a file.
//
// It makes a run five times as expensive. It watches each file on the embedded store. On
// three nodes it watches those about nodes that come and go, and every sixth one of those that
// share servers: the others take the same way between the nodes, and most of what servers of
// their own cost is their start. One node with a database is made of parts which the other two
// combinations have.
func (c combination) isWatched(f file) bool {
	switch {
	case racedBy(f.lines) != "":
		return false
	case !c.postgres:
		return true
	case c.nodes == 1 || has(f.lines, "raced on Pebble"):
		return false
	}
	return needsCluster(f.lines) || !needsOwnServers(f.lines) && f.number()/len(ways)%6 == 0
}

// number is the same for a file whatever others there are.
func (f file) number() int {
	return int(crc32.ChecksumIEEE([]byte(strings.TrimSuffix(f.name, ".txt"))) >> 1)
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

// Every file is run on every combination that it can be run on, and each combination has
// all ways, none of them much more often than another. The race detector watches each file
// or the one that its line "raced by" names, and all ways.
func TestEveryCombinationSeesEveryWay(t *testing.T) {
	files := readFiles(t)
	isWatched := func(f file) bool {
		return slices.ContainsFunc(combinations, func(c combination) bool { return c.isWatched(f) })
	}
	for _, f := range files {
		for _, c := range combinations {
			if len(c.waysOf(f)) == 0 && !(needsCluster(f.lines) && c.nodes == 1) {
				t.Errorf("%s is not run on %s", f.name, c.name)
			}
		}
		if other := racedBy(f.lines); other == "" {
			if !isWatched(f) {
				t.Errorf("the race detector does not watch %s", f.name)
			}
		} else if !slices.ContainsFunc(files, func(o file) bool { return o.name == other+".txt" && isWatched(o) }) {
			t.Errorf("%s is raced by %s, which is not there, or not raced", f.name, other)
		}
	}
	for _, name := range aboutTheWire {
		if !slices.ContainsFunc(files, func(f file) bool { return f.name == name }) {
			t.Errorf("%s is to be run in all ways, and is not there", name)
		}
	}
	for _, c := range combinations {
		by, watched := map[string]int{}, map[string]int{}
		for _, f := range files {
			if of := c.waysOf(f); len(of) > 0 {
				by[of[0].name]++
				if c.isWatched(f) {
					watched[of[0].name]++
				}
			}
		}
		for _, w := range ways {
			if by[w.name] < len(files)/len(ways)/2 {
				t.Errorf("%d of %d files are run on %s in the way %s", by[w.name], len(files), c.name, w.name)
			}
			if watched[w.name] == 0 && (!c.postgres || c.nodes > 1) {
				t.Errorf("the race detector watches nothing on %s in the way %s", c.name, w.name)
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
func (c combination) start(t testing.TB, o imtest.Options) (nodes []*imtest.Server, database string) {
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
	t       *testing.T // they end with it
	machine machine
	mu      sync.Mutex // tier 0; guards the fields below; held while servers start
	of      map[serverKind]*servers
	runs    int
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
func (s *shared) join(t testing.TB, c combination, tls bool) (of servers, guest string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := serverKind{c.name, tls}
	if s.of[k] == nil {
		s.of[k] = &servers{} // what is left if they do not start
		a := s.machine.steadily(s.t, func(t testing.TB) {
			nodes, database := c.start(t, imtest.Options{TLS: tls})
			s.of[k] = &servers{nodes, database}
		})
		s.t.Cleanup(func() { a.end(); a.report() })
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
	if d.server, d.err = pgserver.Start(pgserver.Options{Settings: map[string]string{"max_connections": "600"}}); d.err != nil {
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
	mu   sync.Mutex                     // tier 0; guards the fields below
	ways map[string]map[string][]string // combination → file → ways
	// lines counts the lines of each file, those that are no comments, once for each
	// combination that it ran on.
	lines map[string]int
}

var played = plays{ways: map[string]map[string][]string{}, lines: map[string]int{}}

func (p *plays) note(c combination, f file, w way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ways[c.name] == nil {
		p.ways[c.name] = map[string][]string{}
	}
	if len(p.ways[c.name][f.name]) == 0 {
		for _, l := range f.lines {
			if l.kind != blank {
				p.lines[c.name]++
			}
		}
	}
	p.ways[c.name][f.name] = append(p.ways[c.name][f.name], w.name)
}

// summary has a line for each combination: how many files and lines ran on it, and how many
// runs in each way.
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
		fmt.Fprintf(&b, "scenarios on %s: %d files, %d lines, %d runs:", c.name, len(p.ways[c.name]), p.lines[c.name], runs)
		for _, w := range ways {
			fmt.Fprintf(&b, " %s %d", w.name, by[w.name])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
