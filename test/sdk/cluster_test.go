package sdk

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A database is put back and keeps its history id. A client proves it to one of
// three nodes, and all of them stop. Spec: P-6.8.
func TestNodesOfADatabaseThatWentBackAllStop(t *testing.T) {
	t.Parallel()
	db := pgtest.Own(t, pgtest.Options{})
	dsn := db.New(t)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	sql := func(format string, args ...any) {
		t.Helper()
		if err := db.Exec("postgres", fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	nodes := imtest.Cluster(t, 3, imtest.Options{Postgres: dsn, Process: true})
	s := nodes[0]
	token := s.Users("", "alice")[0]
	group := s.Group("", "g1", "alice")
	imtest.StopAll(nodes)
	sql("CREATE DATABASE %s_spare TEMPLATE %s STRATEGY file_copy", name, name)
	imtest.StartAll(nodes)
	alice := s.Dial(wire.WebSocket, wire.Proto, token, "phone")
	for i := range 3 {
		if _, err := alice.Send(t.Context(), &petrelv1.Send{Conv: group, ClientMsgId: fmt.Sprint(i), Body: &petrelv1.Send_Text{Text: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := alice.Sync(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	imtest.StopAll(nodes)
	sql("DROP DATABASE %s", name)
	sql("CREATE DATABASE %s TEMPLATE %s_spare STRATEGY file_copy", name, name)
	imtest.StartAll(nodes)
	imtest.WaitSettled(nodes)

	alice = s.Dial(wire.WebSocket, wire.Proto, token, "phone")
	if p, err := alice.Sync(eventually.Context(t), page.Token); err == nil {
		t.Errorf("the sync was answered: %v", p)
	}
	for i, n := range nodes {
		if err := n.Ended(); err == nil || !strings.Contains(n.Log(), "gone back to an earlier state") {
			t.Errorf("node %d ended with %v\n%s", i+1, err, n.Log())
		}
	}
	if why := s.Refused(); !strings.Contains(s.Log(), "petrel repair") {
		t.Errorf("the next start: %v\n%s", why, s.Log())
	}
}

// A node that is stopped takes sends until its feeds are at other nodes: clients would have to
// wait for all that time if it refused them before.
func TestStoppedNodeServesUntilItsFeedsAreElsewhere(t *testing.T) {
	t.Parallel()
	nodes := imtest.Cluster(t, 2, imtest.Options{
		Postgres: pgtest.Own(t, pgtest.Options{}).New(t),
		Config:   map[string]string{"drain.timeout": "10m"}, // on a busy machine the other node may be slow for a while, and takes no feeds then
	})
	stopped, other := nodes[0], nodes[1]
	alice := stopped.Dial(wire.WebSocket, wire.Proto, stopped.Users("", "alice")[0], "phone")
	ended := make(chan struct{})
	go func() { // until the test ends, which waits for it
		defer close(ended)
		stopped.Stop()
	}()
	defer func() { <-ended }()
	for i := 0; ; i++ {
		_, err := alice.Send(t.Context(), &petrelv1.Send{User: "alice", ClientMsgId: fmt.Sprint(i), Body: &petrelv1.Send_Text{Text: "x"}})
		if err == nil {
			continue
		}
		r, failed := other.Admin.GetCluster(t.Context(), connect.NewRequest(&petrelv1.GetClusterRequest{}))
		if failed != nil {
			t.Fatal(failed)
		}
		if owned := r.Msg.Nodes[slices.IndexFunc(r.Msg.Nodes, func(n *petrelv1.ClusterNode) bool { return n.Node == imtest.NodeName(1) })].Owned; im.CodeOf(err) != im.CodeDraining || owned != im.Partitions {
			t.Errorf("send %d has the answer %v, when the other node owns %d of %d feeds", i, err, owned, im.Partitions)
		}
		return
	}
}
