package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// handshakes is how many clients connect one after the other. Proxies choose nodes in turn, so
// some of them come to each node.
const handshakes = 9

// Of three nodes one serves, one is drained, and one does not run.
func TestHandshakesPassNodesThatAreGoingAway(t *testing.T) {
	t.Parallel()
	nodes := imtest.Cluster(t, 2, imtest.Options{Program: true, Postgres: pgtest.Shared(t).New(t), Config: map[string]string{
		"listen.hosts": name, "listen.trusted_proxies": "127.0.0.1",
	}})
	var addrs []string
	for _, s := range nodes {
		_, addr, _ := strings.Cut(s.BaseURL(), "://")
		addrs = append(addrs, addr)
	}
	addrs = append(addrs, proctest.FreePorts(t, 1)[0])
	token := nodes[0].Users("", "mia")[0]
	var worlds []*world
	for i := range kinds {
		dir := t.TempDir()
		w := &world{srv: nodes[0], trust: certificate(t, dir)}
		w.runs(t, &kinds[i], &site{dir: dir, petrel: addrs[0], nodes: addrs})
		if err := w.connects(token); err != nil {
			t.Errorf("%s, before the drain: %v", w.kind.name, err)
		}
		worlds = append(worlds, w)
	}
	if _, err := nodes[0].Admin.DrainNode(t.Context(), connect.NewRequest(&petrelv1.DrainNodeRequest{Node: imtest.NodeName(1)})); err != nil {
		t.Fatal(err)
	}
	for _, w := range worlds {
		if w.kind.polls {
			eventually.True(t, w.kind.name+" knows of the drain", func() bool { return w.connects(token) == nil })
		}
		if err := w.connects(token); err != nil {
			t.Errorf("%s, after the drain: %v", w.kind.name, err)
		}
	}
}

// connects tells whether each of some clients is welcomed at its first try.
func (w *world) connects(token string) error {
	for i := range handshakes {
		c, answer, err := w.hello(token, http.Header{})
		if c != nil {
			_ = c.CloseNow() // it has said all
		}
		if err != nil {
			return fmt.Errorf("client %d: %w", i+1, err)
		}
		if !strings.Contains(answer, `"welcome"`) {
			return fmt.Errorf("client %d is answered %s", i+1, answer)
		}
	}
	return nil
}
