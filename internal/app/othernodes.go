package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/natsbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/regular"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
)

// node connects a server with the others that share its databases. On an
// embedded store there are no others, and only the bus is set.
type node struct {
	bus     bus.Bus
	streams *stream.Streams
	fan     *fanout.Nodes
	cluster *cluster.Cluster
}

// has tells whether this node has a role; one on an embedded store has all.
func (n *node) has(r cluster.Roles) bool { return n.cluster == nil || n.cluster.Roles()&r != 0 }

// title describes the node, for people.
func (n *node) title() string {
	if n.cluster == nil {
		return "one node"
	}
	return fmt.Sprintf("node %s (%s)", n.cluster.Self(), n.cluster.Roles())
}

// nodeFile keeps the id of a node between its starts.
const nodeFile = "node-id"

// openNode makes the parts that connect this node with the others, and joins the bus of the cluster. Nothing
// runs yet. With an embedded store it makes only a bus without other nodes.
func (a *App) openNode(ctx context.Context) (err error) {
	c := &a.cfg.Cluster
	if a.store.databases == nil {
		a.node.bus, err = localbus.New().Join("local")
		return err
	}
	id, err := a.nodeID()
	if err != nil {
		return err
	}
	roles, err := cluster.ParseRoles(strings.Join(c.Roles, ","))
	if err != nil {
		return fmt.Errorf("read cluster.roles: %w", err)
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	incarnation := binary.BigEndian.Uint64(b[:])
	n := &a.node
	if n.bus, err = a.joinBus(ctx, id, incarnation); err != nil {
		return err
	}
	refutations.ServeLater(n.bus, a.hearRefuted)
	n.streams = stream.New(n.bus, incarnation, stream.Options{})
	n.fan = fanout.NewNodes(a.table, n.streams, a.store.Info().Secret, a.log)
	n.cluster = cluster.New(cluster.Options{
		Log: a.log, Incarnation: incarnation, Roles: roles, Addresses: c.Addresses, Release: a.o.Version,
		Patient: c.Patient,
		Databases: &cluster.Databases{Seen: a.store.databases.Seen, Hear: a.store.databases.Hear,
			Behind: a.store.databases.Behind},
	}, a.store.Store, n.bus)
	return nil
}

func (a *App) joinBus(ctx context.Context, id im.Node, incarnation uint64) (bus.Bus, error) {
	c := &a.cfg.Cluster
	if !c.On() {
		return localbus.New().Join(id)
	}
	tlsConfig, err := a.busTLS()
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	b, err := natsbus.Join(ctx, id, natsbus.Options{
		Cluster: fmt.Sprintf("%016x", a.store.Info().StoreID), Incarnation: incarnation,
		Process: fmt.Sprintf("%s, process %d", host, os.Getpid()), Log: a.log,
		URL: strings.Join(c.NATS, ","), Credentials: c.Credentials, Listen: c.Listen, Advertise: c.Advertise,
		Routes: c.Join, Secret: c.Secret, TLS: tlsConfig,
	})
	if err != nil {
		return nil, err
	}
	a.setBusRoots = b.SetRoots
	return b, nil
}

// nodeID returns the configured id, or a random one, which it keeps in nodeFile from the first start on.
func (a *App) nodeID() (im.Node, error) {
	if id := a.cfg.Cluster.Node; id != "" {
		return im.Node(id), nil
	}
	path := filepath.Join(a.cfg.Store.Dir, nodeFile)
	b, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(b))) > 0 {
		return im.Node(strings.TrimSpace(string(b))), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the node's id: %w", err)
	}
	id := cluster.NewID()
	if err := os.WriteFile(path, []byte(string(id)+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the node's id: %w", err)
	}
	return id, nil
}

// joinNodes makes this node one of the cluster, before any client is served.
func (a *App) joinNodes(ctx context.Context, r *running) error {
	n := &a.node
	if n.cluster == nil {
		return nil
	}
	r.start(r.below, "streams", n.streams.Run)
	r.start(r.below, "fan-out to other nodes", n.fan.Run)
	if err := n.cluster.Join(ctx); err != nil {
		return err
	}
	// the format level may have been raised before the others saw this node
	if err := a.store.databases.Readable(ctx); err != nil {
		a.leaveNodes()
		return err
	}
	r.start(r.work, "maintenance", a.maintenance.Run)
	r.start(r.work, "ways to others", a.watchWays)
	r.start(r.work, "cluster", func(ctx context.Context) error {
		return n.cluster.Run(ctx, cluster.Owners{Open: a.router.Open, Close: a.convs.Close})
	})
	return nil
}

// giveAway hands the feeds of this node to the others.
func (a *App) giveAway() {
	if a.node.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.Drain.Timeout)
	defer cancel()
	ctx, release := unlessFailed(ctx, a.store.Failed())
	defer release()
	if err := a.node.cluster.Drain(ctx); err != nil && !errors.Is(err, cluster.ErrNobody) {
		a.log.Warn("hand feeds over failed: the other nodes take them over in some seconds", "err", err)
	}
}

// unlessFailed returns a context that ends with ctx, and also when a store has failed, because then no
// commit ends and no feed can be handed over. The caller must call release, which ends the context too.
func unlessFailed(ctx context.Context, failed <-chan struct{}) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-failed:
			cancel(store.ErrFailed)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// leaveNodes tells the others that this node is gone.
func (a *App) leaveNodes() {
	if a.node.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := a.node.cluster.Leave(ctx); err != nil {
		a.log.Warn("leave the cluster failed: the other nodes notice in some seconds", "err", err)
	}
}

// leaveTime bounds how long the end of a node waits for the database.
const leaveTime = 2 * time.Second

// others returns the other nodes with a heartbeat.
func (n *node) others() []im.Node {
	var list []im.Node
	for _, o := range n.cluster.Status().Nodes {
		if o.Alive && o.Node != n.cluster.Self() {
			list = append(list, o.Node)
		}
	}
	return list
}

// holder returns the holder in whose name this process takes feeds; 0: there are no other nodes.
func (n *node) holder() uint64 {
	if n.cluster == nil {
		return 0
	}
	return n.cluster.Incarnation()
}

// ways sets the options that lead to other nodes, if there are any.
func (n *node) ways(o route.Options) route.Options {
	if n.cluster != nil {
		o.Cluster, o.Bus, o.Streams, o.Nodes = n.cluster, n.bus, n.streams, n.fan
	}
	return o
}

// busTLS returns the TLS configuration of the connections between nodes;
// nil: none. Both ends show the certificate that was read last.
func (a *App) busTLS() (*tls.Config, error) {
	c := &a.cfg.Cluster
	if c.CertFile == "" && c.CAFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CertFile != "" {
		cert, err := loadCertificate(c.CertFile, c.KeyFile, "cluster.bus_cert_file and cluster.bus_key_file")
		if err != nil {
			return nil, err
		}
		a.busCertificate.Store(cert)
		t.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.busCertificate.Load(), nil }
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate,
			error) {
			return a.busCertificate.Load(), nil
		}
	}
	if c.CAFile != "" {
		var err error
		if t.RootCAs, err = readRoots(c.CAFile); err != nil {
			return nil, err
		}
		t.ClientCAs = t.RootCAs
		a.busRoots = t.RootCAs
	}
	return t, nil
}

// readRoots reads cluster.bus_ca_file.
func readRoots(name string) (*x509.CertPool, error) {
	b, err := regular.Read(name)
	if err != nil {
		return nil, fmt.Errorf("read cluster.bus_ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read cluster.bus_ca_file: %s has no certificate", name)
	}
	return roots, nil
}
