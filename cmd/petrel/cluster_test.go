package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/internal/store/pgstore"
	"github.com/petrel-im/petrel/internal/store/pgtest"
)

// freeAddr returns an address of this host that nobody else uses until the test ends.
func freeAddr(t *testing.T) string {
	t.Helper()
	return proctest.FreePorts(t, 1)[0]
}

// busSecret is the secret of the clusters of these tests.
const busSecret = "a secret of all nodes"

// nodeFlags returns the flags of a node whose bus listens on own and looks for others on join.
func nodeFlags(t *testing.T, dsn, id, own, join string) []string {
	f := []string{"--store-postgres-file", fileWith(t, dsn), "--cluster-node", id, "--cluster-listen", own, "--cluster-secret-file", fileWith(t, busSecret), "--log-level", "warn"}
	if join != "" {
		f = append(f, "--cluster-join", join)
	}
	return f
}

// serveNode runs a node that clients reach.
func serveNode(t *testing.T, dsn, id, own, join string, more ...string) *live {
	t.Helper()
	addr := freeAddr(t)
	return serveHere(t, filepath.Join(t.TempDir(), id), addr, append(nodeFlags(t, dsn, id, own, join), append(more, "--cluster-addresses", "http://"+addr)...)...)
}

type stateJSON struct {
	Nodes []struct {
		Node                       string
		Owned, Share               int
		Alive, Reachable, Draining bool
		Roles                      []string
	}
	Unowned   []int
	Misplaced int
	Databases []int
}

func clusterState(t *testing.T, s *live, want int) (st stateJSON) {
	t.Helper()
	r := petrel(t, s.env(), "cluster", "status", "--json")
	r.want(t, want)
	if err := json.Unmarshal([]byte(r.out), &st); err != nil {
		t.Fatalf("%v of %s", err, r.out)
	}
	return st
}

// owns waits until the nodes own as many partitions as want says, in the order of their ids.
func owns(t *testing.T, s *live, want ...int) stateJSON {
	t.Helper()
	var st stateJSON
	var got []int
	if !eventually.Holds(func() bool {
		if !partitionsShown(t, s, want) { // costs less than the command
			return false
		}
		r := petrel(t, s.env(), "cluster", "status", "--json")
		st, got = stateJSON{}, nil
		if err := json.Unmarshal([]byte(r.out), &st); err != nil {
			t.Fatalf("%v of %s%s", err, r.out, r.err)
		}
		for _, n := range st.Nodes {
			got = append(got, n.Owned)
		}
		return slices.Equal(got, want)
	}) {
		t.Fatalf("the nodes own %v, want %v", got, want)
	}
	return st
}

// partitionsShown tells whether the page of the version shows that the nodes own as many partitions as want says.
func partitionsShown(t *testing.T, s *live, want []int) bool {
	t.Helper()
	var v struct{ Nodes []struct{ Partitions int } }
	_, body := get(t, s, "/version")
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v of %s", err, body)
	}
	var got []int
	for _, n := range v.Nodes {
		got = append(got, n.Partitions)
	}
	return slices.Equal(got, want)
}

// awaitSession waits until a user has one session.
func awaitSession(t *testing.T, s *live, user string) {
	t.Helper()
	eventually.True(t, user+" has a session", func() bool {
		return strings.Contains(petrel(t, s.env(), "user", "sessions", user).out, "1 session of "+user)
	})
}

func TestClusterIsLookedAfterFromAnyNode(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	dsn := server.New(t) + "," + server.New(t)
	busA, busB := freeAddr(t), freeAddr(t)
	a := serveNode(t, dsn, "a", busA, "")
	petrel(t, a.env(), "user", "create", "alice", "bob").want(t, exitOK)
	b := serveNode(t, dsn, "b", busB, busA)
	key, err := readSecret(filepath.Join(a.data, adminKeyName))
	if err != nil {
		t.Fatal(err)
	}
	token, err := readSecret(tokenFile(a.data, "", "alice"))
	if err != nil {
		t.Fatal(err)
	}
	st := owns(t, a, 128, 128)
	if n := st.Nodes[1]; n.Node != "b" || !n.Alive || !n.Reachable || n.Share != 128 || !slices.Equal(n.Roles, []string{"gateway", "conv", "api"}) {
		t.Errorf("a sees b as %+v", n)
	}
	petrel(t, a.env(), "cluster", "status").want(t, exitOK, "NODE", "gateway,conv,api", "256 partitions: 0 served by no node", "database 2 holds 128 partitions")

	// A client of b is there, and comes back at a by itself when b is drained.
	toB := []string{"PETREL_SERVER=http://" + b.http, "PETREL_ADMIN_SERVER=http://" + b.admin, "PETREL_ADMIN_KEY=" + key, "PETREL_TOKEN=" + token, "PETREL_STORE__DIR=" + b.data}
	seen := inBackground(t, toB, "tail", "--count", "2")
	awaitSession(t, a, "alice")
	petrel(t, a.env(), "send", "--as", "bob", "--to", "alice", "before").want(t, exitOK)
	petrel(t, a.env(), "cluster", "drain", "b").want(t, exitOK, "b handed 128 partitions over and sent 1 sessions away")
	eventually.True(t, "a knows by b's next beacon that b drains", func() bool { return owns(t, a, 256, 0).Nodes[1].Draining })
	petrel(t, toB, "cluster", "status").want(t, exitOK, "draining") // its API goes on
	petrel(t, a.env(), "send", "--as", "bob", "--to", "alice", "behind").want(t, exitOK)
	eventually.Receive(t, "the end of tail", seen).want(t, exitOK, "bob: before", "bob: behind")

	wantFigures(t, a, b)

	petrel(t, toB, "audit", "verify").want(t, exitOK, "head  a:", "head  b:")
	petrel(t, a.env(), "cluster", "drain", "a").want(t, exitFailed, "error not_now", "no other node takes partitions")
	petrel(t, toB, "cluster", "resume", "b").want(t, exitOK, "b takes partitions and clients again")
	eventually.True(t, "a knows that b takes partitions", func() bool {
		return !strings.Contains(petrel(t, a.env(), "cluster", "status").out, "draining")
	})
	petrel(t, a.env(), "cluster", "rebalance").want(t, exitOK, "256 partitions: 0 served by no node, 0 on their way")
	owns(t, a, 128, 128)
	petrel(t, a.env(), "cluster", "drain", "c").want(t, exitFailed, "error no_node", "the nodes are a, b")

	petrel(t, toB, "cluster", "move-partition", "3", "--to", "1").want(t, exitOK, "partition 3 is in database 1")
	petrel(t, toB, "cluster", "move-partition", "3", "--to", "1").want(t, exitFailed, "error not_now", "the partition is there already")
	petrel(t, a.env(), "cluster", "move-partition", "3", "--to", "3").want(t, exitFailed, "error invalid", "store.postgres names 2")
	petrel(t, a.env(), "cluster", "move-partition", "256", "--to", "1").want(t, exitUsage, "partitions are 0 to 255")
	if st := clusterState(t, b.as(key), exitOK); !slices.Equal(st.Databases, []int{129, 127}) {
		t.Errorf("the databases hold %v, want 129 and 127", st.Databases)
	}
	petrel(t, a.env(), "cluster", "finalize").want(t, exitOK, "already has level 1")
}

// as keeps key as the admin key in the folder of s, and returns a copy of s.
func (s *live) as(key string) *live {
	c := *s
	if err := keepSecret(s.data, filepath.Join(s.data, adminKeyName), key); err != nil {
		panic(err)
	}
	return &c
}

// wantFigures checks what anybody can read of a cluster of a and b, of which b is drained.
func wantFigures(t *testing.T, s, drained *live) {
	t.Helper()
	var v struct {
		Nodes []struct {
			Node, Roles     string
			Alive, Draining bool
			Partitions      int
			LagMs           *int64 `json:"lag_ms"`
		}
	}
	_, body := get(t, s, "/version")
	if err := json.Unmarshal([]byte(body), &v); err != nil || len(v.Nodes) != 2 || v.Nodes[0].Partitions != 256 || !v.Nodes[1].Draining || v.Nodes[1].LagMs == nil || v.Nodes[1].Roles != "gateway,conv,api" {
		t.Errorf("/version: %v of %s", err, body)
	}
	_, figures := get(t, s, "/metrics")
	for _, want := range []string{
		"petrel_nodes_alive 2", "petrel_nodes_unreachable 0", "petrel_feeds_unowned 0", "petrel_feeds_misplaced 0", "petrel_sends_forwarded_waiting 0",
		"petrel_feeds_lost_total 0", `petrel_database_statements_unknown_total{database="2"} 0`,
		`petrel_database_up{database="1"} 1`, `petrel_database_partitions{database="2"} 128`, `petrel_database_feeds_owned{database="1"} 128`, "petrel_stream_garbled_total 0", "petrel_fanout_garbled_total 0", "petrel_bus_dropped_total 0",
	} {
		if !strings.Contains(figures, "\n"+want+"\n") {
			t.Errorf("/metrics has no %s", want)
		}
	}
	for _, name := range []string{"petrel_feed_takeovers_total", "petrel_stream_frames_sent_total", "petrel_stream_frames_applied_total", "petrel_bus_sent_total", "petrel_bus_received_bytes_total"} {
		if !strings.Contains(figures, "\n"+name+" ") || strings.Contains(figures, "\n"+name+" 0\n") {
			t.Errorf("/metrics has no %s above 0", name)
		}
	}
	_, others := get(t, drained, "/metrics") // either node had the conversation while alice was at the other one
	if n := "\npetrel_fanout_frames_total "; !strings.Contains(figures, n) || strings.Contains(figures, n+"0\n") && strings.Contains(others, n+"0\n") {
		t.Error("/metrics has no petrel_fanout_frames_total above 0, at either node")
	}
	// A HELP is read alone: "their bytes" would point at the figure above it.
	for line := range strings.Lines(figures) {
		help, ours := strings.CutPrefix(strings.TrimSpace(line), "# HELP petrel_")
		if ours && (!strings.HasSuffix(help, ".") || regexp.MustCompile(`(?i)\b(they|them|their|those|these)\b`).MatchString(help)) {
			t.Errorf("HELP petrel_%s is no sentence that can be read alone", help)
		}
	}
	for _, name := range []string{"petrel_database_commits_total", "petrel_database_statements_total", "petrel_database_statement_seconds_total"} {
		if !regexp.MustCompile(`\n` + name + `{database="[12]"} ([1-9]|0[.])`).MatchString(figures) { // one of them has the conversation
			t.Errorf("/metrics has no %s above 0", name)
		}
	}
}

// get reads a page of a server.
func get(t *testing.T, s *live, path string) (status int, body string) {
	t.Helper()
	return getFrom(t, s.admin, path)
}

func getFrom(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	r, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }() // was read
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestNodesServeWhatTheirRolesSay(t *testing.T) {
	t.Parallel()
	dsn, busA := pgtest.Shared(t).New(t), freeAddr(t)
	inner := serveNode(t, dsn, "inner", busA, "", "--cluster-roles", "conv,api")
	petrel(t, inner.env(), "user", "create", "alice", "bob").want(t, exitOK)
	edge := serveNode(t, dsn, "edge", freeAddr(t), busA, "--cluster-roles", "gateway")
	if inner.tcp != "" || edge.tcp == "" {
		t.Errorf("TCP is taken at %q by the node without the role gateway, and at %q by the one with it", inner.tcp, edge.tcp)
	}
	if status, body := getFrom(t, inner.http, "/v1/ws"); status != http.StatusNotFound || !strings.Contains(body, "no_method") || !strings.Contains(body, "the role gateway") {
		t.Errorf("a WebSocket without the role gateway: %d %s", status, body)
	}
	key, err := readSecret(filepath.Join(inner.data, adminKeyName))
	if err != nil {
		t.Fatal(err)
	}
	withKey := append(edge.env(), "PETREL_ADMIN_KEY="+key)
	petrel(t, withKey, "user", "list", "--admin-server", "http://"+edge.http).want(t, exitFailed, "error no_method", "does not have the role api")
	petrel(t, withKey, "user", "list").want(t, exitOK, "alice") // operators reach every node
	for _, s := range []*live{inner, edge} {
		if status, body := get(t, s, "/readyz"); status != http.StatusOK {
			t.Errorf("/readyz: %d %s", status, body)
		}
	}
	// Clients connect at the edge, and have the whole API there: by calls.
	at := func(user string) []string {
		token, err := readSecret(tokenFile(inner.data, "", user))
		if err != nil {
			t.Fatal(err)
		}
		return append(edge.env(), "PETREL_TOKEN="+token)
	}
	seen := inBackground(t, at("alice"), "tail", "--count", "1")
	awaitSession(t, inner, "alice")
	petrel(t, at("bob"), "send", "--to", "alice", "from the edge").want(t, exitOK, "stored")
	eventually.Receive(t, "the end of tail", seen).want(t, exitOK, "bob: from the edge")
}

// TestRestoredDatabasesGetANewHistory checks that a server refuses two databases of different times until both have a
// new history id.
func TestRestoredDatabasesGetANewHistory(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	second := server.New(t)
	dsn := server.New(t) + "," + second
	s := serveNode(t, dsn, "a", freeAddr(t), "")
	petrel(t, s.env(), "user", "create", "alice", "bob").want(t, exitOK)
	petrel(t, s.env(), "send", "--as", "bob", "--to", "alice", "before").want(t, exitOK)
	env := []string{"PETREL_STORE__POSTGRES_FILE=" + fileWith(t, dsn), "PETREL_STORE__DIR=" + s.data}
	petrel(t, env, "repair").want(t, exitConfig, "error store_in_use", "stop all nodes first")
	s.stop()
	name := second[strings.LastIndex(second, "/")+1 : strings.Index(second, "?")]
	if err := server.Exec(name, `UPDATE petrel.store SET history_id = history_id + 1`); err != nil { // as if its repair had been cut
		t.Fatal(err)
	}
	if _, err := pgstore.Open(t.Context(), pgstore.Options{DSNs: strings.Split(dsn, ",")}); err == nil {
		t.Fatal("databases of two histories are served")
	}
	r := petrel(t, env, "repair", "--json")
	r.want(t, exitOK)
	var renewed struct {
		Former string `json:"former_history_id"`
		Now    string `json:"history_id"`
	}
	if err := json.Unmarshal([]byte(r.out), &renewed); err != nil || renewed.Now == renewed.Former {
		t.Fatalf("%v of %s", err, r.out)
	}
	st, err := pgstore.Open(t.Context(), pgstore.Options{DSNs: strings.Split(dsn, ",")})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%016x", st.Info().HistoryID); got != renewed.Now {
		t.Errorf("the store has history %s, and repair said %s", got, renewed.Now)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	petrel(t, env, "restore", "--adopt").want(t, exitOK, "found      history "+renewed.Now, "history    ")
	petrel(t, []string{"PETREL_STORE__POSTGRES=" + server.Empty(t)}, "repair").want(t, exitConfig, "error other_store", "it holds no store")
}

func TestPartitionsThatNobodyServesEndTheStatusRed(t *testing.T) {
	t.Parallel()
	s := serveNode(t, pgtest.Shared(t).New(t), "edge", freeAddr(t), "", "--cluster-roles", "gateway,api")
	petrel(t, s.env(), "cluster", "status").want(t, exitViolated, "256 served by no node", "error unowned", "256 of 256 partitions", "start a node with the role conv")
}

func TestServerWithoutOthersHasOneNode(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "cluster", "status").want(t, exitOK, "gateway,conv,api", "256 partitions: 0 served by no node")
	for _, line := range []string{"drain local", "rebalance", "move-partition 1 --to 2", "finalize"} {
		petrel(t, s.env(), append([]string{"cluster"}, strings.Fields(line)...)...).want(t, exitFailed, "error not_now", "set store.postgres")
	}
}

// A server on databases leaves the folder alone in which another one runs, and warns of a store in the folder
// that it does not open.
func TestServerOnDatabasesIsAloneInItsFolder(t *testing.T) {
	dsn := pgtest.Shared(t).New(t)
	s := serveShared(t)
	before, err := os.ReadFile(filepath.Join(s.data, addressesName))
	if err != nil {
		t.Fatal(err)
	}
	petrel(t, nil, "serve", "--data", s.data, "--store-postgres-file", fileWith(t, dsn), "--listen-http", "127.0.0.1:0", "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0").
		want(t, exitFailed, "another server runs on this folder", "fix   stop it or choose another --data")
	if after, err := os.ReadFile(filepath.Join(s.data, addressesName)); err != nil || string(after) != string(before) {
		t.Errorf("the addresses of the server that runs are %q, %v, and were %q", after, err, before)
	}
}

// The doctor asks the databases what a start asks them first, and misses no store that would be left behind.
func TestDoctorAsksTheDatabases(t *testing.T) {
	server := pgtest.Shared(t)
	embedded := t.TempDir()
	if err := os.Mkdir(filepath.Join(embedded, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	dsn := server.Empty(t)
	for _, c := range []struct {
		name, dsn, data string
		flags           []string
		exit            int
		want            []string
	}{
		{"not there", "postgres://petrel@127.0.0.1:1/petrel", t.TempDir(), nil, exitFailed, []string{"databases  ", "127.0.0.1:1 does not answer", "fix: check that PostgreSQL runs"}},
		{"no such database", server.DSN("nowhere"), t.TempDir(), nil, exitFailed, []string{"databases  ", "fix: make it with createdb"}},
		{"no standby", dsn, t.TempDir(), []string{"--store-require-standby"}, exitFailed, []string{"databases  ", "fix: set synchronous_standby_names"}},
		{"an embedded store", dsn, embedded, nil, exitOK, []string{"warn  databases", "the embedded store in " + embedded + " is not used"}},
		{"an empty database", dsn, t.TempDir(), nil, exitOK, []string{"ok    databases", "1 in store.postgres can be used"}},
	} {
		args := append([]string{"doctor", "--data", c.data, "--store-postgres-file", fileWith(t, c.dsn), "--listen-http", "127.0.0.1:0", "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}, c.flags...)
		r := petrel(t, nil, args...)
		r.want(t, c.exit, c.want...)
		if strings.Contains(r.out, "disk sync") {
			t.Errorf("%s: the disk of the data folder is measured, on which no ack waits\n%s", c.name, r.out)
		}
	}
}

// TestNodeIsRefusedBeforeAnyClientIsServed starts a node under conditions in which it must not serve, for each
// reason.
func TestNodeIsRefusedBeforeAnyClientIsServed(t *testing.T) {
	server := pgtest.Shared(t)
	dsn := server.New(t)
	bus := freeAddr(t)
	serveNode(t, dsn, "a", bus, "")
	server.Role(t, "locked", `LOGIN PASSWORD 'other'`)
	made := func(t *testing.T, sql string) string { // of another store
		t.Helper()
		dsn := server.New(t)
		st, err := pgstore.Open(t.Context(), pgstore.Options{DSNs: []string{dsn}})
		if err == nil {
			err = st.Close()
		}
		if err == nil && sql != "" {
			name := dsn[strings.LastIndex(dsn, "/")+1 : strings.Index(dsn, "?")]
			err = server.Exec(name, sql)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dsn
	}
	other := fileWith(t, "another secret than theirs")
	for _, c := range []struct {
		name  string
		flags func(t *testing.T) []string
		exit  int
		want  []string
	}{
		{"PostgreSQL is not there", func(t *testing.T) []string {
			return nodeFlags(t, "postgres://petrel@127.0.0.1:1/petrel", "b", freeAddr(t), bus)
		}, exitUnreachable, []string{"error database_unreachable", "127.0.0.1:1 does not answer", "fix   check that PostgreSQL runs"}},
		{"wrong password", func(t *testing.T) []string {
			return nodeFlags(t, strings.Replace(dsn, "petrel@", "locked:hunter2@", 1), "b", freeAddr(t), bus)
		}, exitAuth, []string{"error database_refused", `user "locked"`, "fix   correct user or password"}},
		{"no such database", func(t *testing.T) []string {
			return nodeFlags(t, server.DSN("nowhere"), "b", freeAddr(t), bus)
		}, exitAuth, []string{"error database_refused", "fix   make it with createdb"}},
		{"schema too new", func(t *testing.T) []string {
			return nodeFlags(t, made(t, `UPDATE petrel.migrations SET version = 43, min_reader = 42`), "b", freeAddr(t), "")
		}, exitFailed, []string{"error store_too_new", "schema has version 43", "fix   install the newer Petrel"}},
		{"format too new", func(t *testing.T) []string {
			return nodeFlags(t, made(t, `UPDATE petrel.migrations SET level = 43, min_level = 42`), "b", freeAddr(t), "")
		}, exitFailed, []string{"error store_too_new", "data has level 43", "fix   install the newer Petrel"}},
		{"no standby", func(t *testing.T) []string {
			return append(nodeFlags(t, dsn, "b", freeAddr(t), bus), "--store-require-standby")
		}, exitFailed, []string{"error database_unusable", "fix   set synchronous_standby_names"}},
		{"databases of two stores", func(t *testing.T) []string {
			return nodeFlags(t, dsn+","+made(t, ""), "b", freeAddr(t), bus)
		}, exitConfig, []string{"error other_store", "fix   two clusters cannot share a database"}},
		{"two clusters with one database", func(t *testing.T) []string {
			return nodeFlags(t, dsn, "b", freeAddr(t), "")
		}, exitUnreachable, []string{"error nodes_unreachable", "a are alive in this database", "fix   name their bus"}},
		{"one id twice on a bus", func(t *testing.T) []string {
			return nodeFlags(t, dsn, "a", freeAddr(t), bus)
		}, exitConfig, []string{"error node_in_use", "fix   stop that process, or give this one another cluster.node"}},
		{"one id twice on two buses", func(t *testing.T) []string {
			return nodeFlags(t, dsn, "a", freeAddr(t), "")
		}, exitConfig, []string{"error node_in_use", `"a" is used by process`, "fix   stop that process"}},
		{"another secret", func(t *testing.T) []string {
			f := nodeFlags(t, dsn, "b", freeAddr(t), bus)
			f[slices.Index(f, "--cluster-secret-file")+1] = other
			return f
		}, exitAuth, []string{"error bus_refused", "set cluster.secret to the secret of the other nodes", "fix   set cluster.secret_file"}},
		{"no secret", func(t *testing.T) []string {
			f := nodeFlags(t, dsn, "b", freeAddr(t), bus)
			i := slices.Index(f, "--cluster-secret-file")
			return slices.Delete(f, i, i+2)
		}, exitAuth, []string{"error bus_refused"}},
		{"nodes of another database", func(t *testing.T) []string {
			return nodeFlags(t, server.New(t), "b", freeAddr(t), bus)
		}, exitConfig, []string{"error other_cluster", "fix   correct cluster.join or store.postgres"}},
		{"a NATS server that is not there", func(t *testing.T) []string {
			return []string{"--store-postgres-file", fileWith(t, server.New(t)), "--cluster-node", "b", "--cluster-nats-file", fileWith(t, "nats://127.0.0.1:1")}
		}, exitUnreachable, []string{"error bus_unreachable", "fix   check that it runs"}},
		{"an embedded store", func(t *testing.T) []string {
			return []string{"--cluster-listen", freeAddr(t)}
		}, exitConfig, []string{"error config", "fix   set store.postgres"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen-http", "127.0.0.1:0", "--listen-tcp", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}, c.flags(t)...)
			r := petrel(t, nil, args...)
			r.want(t, c.exit, c.want...)
			if r.out != "" {
				t.Errorf("it was ready for clients: %s", r.out)
			}
			if strings.Contains(r.err, "hunter2") || strings.Contains(r.err, busSecret) {
				t.Errorf("a secret is told: %s", r.err)
			}
		})
	}
}

// The tests have no PostgreSQL that is too old. In pgstore, TestStartSaysWhatToDo raises the limit of the version; here
// the fault is made of an error like the one that pgstore then returns.
func TestOldPostgreSQLIsAFault(t *testing.T) {
	err := cannotServe(&pgstore.Problem{Code: "database_unusable", What: "PostgreSQL 14.1 is too old", Fix: "Petrel needs 15 or newer"})
	f, ok := errors.AsType[*fault](err)
	if !ok || f.exit != exitFailed || f.code != "database_unusable" || f.fix != "Petrel needs 15 or newer" || !strings.Contains(f.why, "14.1 is too old") {
		t.Errorf("got %+v", f)
	}
}
