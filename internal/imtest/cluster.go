package imtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Cluster starts n nodes of one cluster. They share o.Postgres, one operator and one certificate, and find each
// other by their embedded buses.
func Cluster(t testing.TB, n int, o Options) []*Server {
	t.Helper()
	buses := proctest.FreePorts(t, n)
	var nodes []*Server
	for i := range n {
		of := o
		of.Config = map[string]string{
			"cluster.node": NodeName(i), "cluster.secret": "of the nodes of a test", "cluster.listen": buses[i],
		}
		if n > 1 {
			of.Config["cluster.join"] = strings.Join(append(append([]string{}, buses[:i]...), buses[i+1:]...), ",")
		}
		for key, value := range o.Config {
			of.Config[key] = value
		}
		of.TLS = false // they share a certificate, made below
		nodes = append(nodes, newServer(t, of))
	}
	if o.TLS {
		cert := newCertificate(t)
		for _, s := range nodes {
			s.cert = cert
		}
	}
	t.Cleanup(func() { StopAll(nodes) }) // in turn, each would first hand its partitions to the next
	StartAll(nodes)
	return nodes
}

// NodeName returns the id of the i-th node, from 0.
func NodeName(i int) string { return fmt.Sprintf("node%d", i+1) }

// StartAll starts servers at the same time, so that the nodes of a cluster do not wait for each other. It returns
// when all are ready and the cluster has settled.
func StartAll(nodes []*Server) {
	nodes[0].t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, len(nodes))
	for i, s := range nodes {
		wg.Go(func() { errs[i] = s.launch() })
	}
	wg.Wait()
	for i, s := range nodes {
		if errs[i] != nil {
			s.t.Fatalf("start node %d: %v\n%s", i+1, errs[i], s.log)
		}
	}
	for _, s := range nodes {
		s.waitReady()
		s.key = nodes[0].key
		s.setUp()
	}
	WaitSettled(nodes)
}

// WaitSettled waits until each of the nodes reaches the others, owns partitions, and sees every partition at the
// node that should own it. With the embedded store it does nothing.
func WaitSettled(nodes []*Server) {
	t := nodes[0].t
	t.Helper()
	if nodes[0].o.Postgres == "" {
		return
	}
	ctx := eventually.Context(t)
	for _, s := range nodes {
		var r *connect.Response[petrelv1.ClusterState]
		var err error
		if !eventually.Holds(func() bool {
			r, err = s.Admin.GetCluster(ctx, connect.NewRequest(&petrelv1.GetClusterRequest{}))
			return err == nil && settled(r.Msg, len(nodes))
		}) {
			t.Fatalf("the cluster does not settle: %v, %v\n%s", r, err, s.log)
		}
	}
}

func settled(c *petrelv1.ClusterState, nodes int) bool {
	there, owned := 0, uint32(0)
	for _, n := range c.Nodes {
		if n.Alive && n.Reachable && !n.Draining && n.Owned > 0 {
			there++
		}
		owned += n.Owned
	}
	return there == nodes && c.Misplaced == 0 && len(c.Unowned) == 0 && owned == c.Partitions
}

// StopAll ends servers at the same time.
func StopAll(nodes []*Server) {
	nodes[0].t.Helper()
	for _, s := range nodes {
		if s.stop != nil {
			s.stop()
		}
	}
	for _, s := range nodes {
		if s.stop != nil {
			s.awaitEnd()
		}
	}
}
