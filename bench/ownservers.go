package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/petrel-im/petrel/internal/process"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// own tells whether the run has servers of its own.
func (r *run) own() bool { return len(r.nodes) > 0 }

// startOwn measures the disk and, for runs that only send, the floor. Then it starts the servers.
func (r *run) startOwn(ctx context.Context, dir string) (err error) {
	r.say("measuring the disk of %s", filepath.Dir(dir))
	if r.report.Disk, err = measureDisk(dir, r.p.probe(diskProbe)); err != nil {
		return err
	}
	if r.p.traffic() != idle && !r.p.inTasks() {
		r.say("measuring what this machine does without a chat server")
		if r.report.Floor, err = measureFloor(ctx, &r.p, dir, r.report.Disk.Fdatasync.P50,
			r.p.probe(floorProbe)); err != nil {
			return err
		}
	}
	if err = r.startServers(ctx, dir); err != nil {
		r.stop()
	}
	return err
}

// probe returns the time for which the machine is measured before a run: d, at a scale below 1 that share of it but at
// least a 20th, and in any case at most Params.Seconds.
func (p *Params) probe(d time.Duration) time.Duration {
	d = time.Duration(float64(d) * min(1, max(p.Scale, 0.05)))
	if s := seconds(p.Seconds); s > 0 {
		return min(s, d)
	}
	return d
}

// startServers starts the servers, from this program if no other one is named.
func (r *run) startServers(ctx context.Context, dir string) (err error) {
	if r.p.Executable == "" {
		if r.p.Executable, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
	}
	return r.startNodes(ctx, dir)
}

// startNodes makes the database, if there is to be one, starts the servers, and redeems the setup code of the first one
// for the admin key.
func (r *run) startNodes(ctx context.Context, dir string) (err error) {
	if r.p.Postgres != "" {
		r.say("making a database")
		if r.pg, err = openPostgres(ctx, r.p.Postgres, r.p.Dir); err != nil {
			return err
		}
		if r.report.Postgres, err = r.pg.describe(ctx); err != nil {
			return err
		}
	}
	confs, err := r.configs()
	if err != nil {
		return err
	}
	if r.p.secure() {
		var tls string
		if tls, r.roots, err = certify(dir); err != nil {
			return err
		}
		for i := range confs {
			confs[i] += tls
		}
	}
	for i, conf := range confs {
		of := filepath.Join(dir, fmt.Sprintf("node-%d", i+1))
		if err := os.Mkdir(of, 0o700); err != nil {
			return fmt.Errorf("make a folder for a server: %w", err)
		}
		r.say("starting a server in %s", of)
		c, err := startChild(ctx, r.p.Executable, of, conf, r.p.ServeArgs)
		if err != nil {
			return err
		}
		r.nodes = append(r.nodes, c)
		if i > 0 {
			continue
		}
		code, err := c.setupCode(ctx)
		if err != nil {
			return err
		}
		if r.key, err = redeem(ctx, "http://"+c.Admin, code); err != nil {
			return err
		}
	}
	r.reach()
	if r.pg == nil {
		return nil
	}
	r.say("waiting until each node has its share")
	return r.pg.spread(ctx, r.p.Nodes)
}

// otherFiles is the number of files that a server or a generator has open besides its connections.
const otherFiles = 500

// fits returns an error if the connections need more files than this process, or a server, may have open.
func (p *Params) fits() error {
	files, each := p.connections()+otherFiles, int(describeMachine(false).OpenFiles)
	if p.secure() {
		files += 2 * p.connections() // the two ends of each bridge
	}
	if each > 0 && files > each {
		return fmt.Errorf(
			"%d connections take %d open files and a process may have %d: raise the limit (ulimit -n %d), "+
				"take a smaller --scale, or share the users among several runs with --url", p.connections(), files,
			each,
			files)
	}
	return nil
}

// configs returns the text of the configuration file of each server. For a cluster it reserves the ports of the bus.
func (r *run) configs() ([]string, error) {
	if r.pg == nil {
		return []string{""}, nil
	}
	shared := fmt.Sprintf("[store]\npostgres = %q\n", r.pg.dsn)
	if r.p.Nodes == 1 {
		return []string{shared}, nil
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	confs := make([]string, r.p.Nodes)
	first := 0
	for i := range confs {
		port, own, err := process.FreePort()
		if err != nil {
			return nil, err
		}
		r.ports = append(r.ports, own)
		if i == 0 {
			first = port
		}
		confs[i] = shared + fmt.Sprintf(
			"[cluster]\nnode = \"n%d\"\nlisten = \"127.0.0.1:%d\"\njoin = [\"127.0.0.1:%d\"]\nsecret = %q\n",
			i+1, port, first, hex.EncodeToString(secret[:]))
	}
	return confs, nil
}

// reach sets ops and addrs to the run's own servers, and closes idle connections of the earlier ops.
func (r *run) reach() {
	r.hangUp()
	r.ops, r.addrs = nil, nil
	for _, c := range r.nodes {
		r.ops = append(r.ops, newOperator(r.p.sockets(), "http://"+c.Admin, r.key))
		if r.p.encoding().Framing == wire.TCP {
			r.addrs = append(r.addrs, c.TCP)
		} else {
			r.addrs = append(r.addrs, c.HTTP)
		}
	}
}

// hangUp closes the idle connections to the API.
func (r *run) hangUp() {
	for _, op := range r.ops {
		op.close()
	}
}

// stop ends the run's own servers, all at once, and then their database.
func (r *run) stop() {
	for _, c := range r.nodes {
		c.cancel()
	}
	for _, c := range r.nodes {
		c.stop()
	}
	if r.pg != nil {
		r.pg.close()
	}
	for _, own := range r.ports {
		_ = own.Close() // only reserved the port
	}
	r.ports = nil
}

// freshStart restarts the run's own servers when all writes for the users' lists are done, so that no list is in
// their memory. A running server it leaves alone.
func (r *run) freshStart(ctx context.Context) error {
	if !r.own() {
		return nil
	}
	r.say("waiting until the lists are written, then starting the servers again")
	for written := uint64(0); ; {
		all, err := r.stats(ctx)
		if err != nil {
			return err
		}
		now := uint64(0)
		for _, s := range all {
			now += s.Accepted
		}
		if now == written {
			break
		}
		written = now
		select {
		case <-time.After(settled):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.hangUp()
	for i, c := range r.nodes {
		c.stop()
		again, err := startChild(ctx, c.executable, filepath.Dir(c.dir), c.conf, r.p.ServeArgs)
		if err != nil {
			return err
		}
		r.nodes[i] = again
	}
	r.reach()
	return nil
}

// settled is the time without writes after which the server's own work counts as done.
const settled = 2 * time.Second

// stats asks every server for its statistics. To those of its own servers it adds the counts of the killed processes
// before them.
func (r *run) stats(ctx context.Context) ([]*petrelv1.Stats, error) {
	var all []*petrelv1.Stats
	for i, op := range r.ops {
		s, err := op.stats(ctx)
		if err != nil {
			return nil, err
		}
		if r.own() {
			s.Accepted, s.Commits = s.Accepted+r.nodes[i].accepted, s.Commits+r.nodes[i].commits
		}
		all = append(all, s)
	}
	return all, nil
}

// takeCPU reads the CPU time of all processes. A server that has ended counts as 0; its lost connections show
// that it has.
func (r *run) takeCPU(m *mark) {
	m.ownCPU = ownCPU()
	m.serverCPU = m.serverCPU[:0]
	r.mu.Lock()
	for _, c := range r.nodes {
		used, _ := processCPU(c.PID)
		m.serverCPU = append(m.serverCPU, cpuTime{c.before.user + used.user, c.before.system + used.system})
	}
	r.mu.Unlock()
	if r.pg != nil {
		m.pgCPU = r.pg.cpu()
	}
}

// serverMemory returns the resident and the allocated memory of the servers that the run started, in bytes; 0 for
// a running server, whose statistics have it.
func (r *run) serverMemory() (resident, allocated uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.nodes {
		res, own := processMemory(c.PID)
		resident, allocated = resident+res, allocated+own
	}
	return resident, allocated
}
