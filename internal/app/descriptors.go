package app

import (
	"fmt"
	"runtime"
	"syscall"

	"github.com/petrel-im/petrel/internal/config"
)

// Files divides the files that the process may have open. Connections get the rest after the store and HTTP:
// a store that cannot open a table fails, and with it the whole server.
type Files struct {
	Limit       uint64 // all of them
	Store       int    // of the embedded store; 0: it is in databases
	HTTP        int    // connections of the HTTP server, beside those of clients
	Admin       int    // connections of the admin listener
	HandOvers   int    // second descriptors of connections on their way to an event loop
	Refusals    int    // connections that are told that there is no room
	Connections int    // of clients
}

const (
	minConnections = 16   // fewer are not worth a server
	maxStoreFiles  = 1000 // more do not make reads faster

	// storeExtra is how many files Pebble opens beside the tables that it reads: logs, manifests, folders,
	// outputs of compactions, and tables that have left the cache while a reader still holds them.
	storeExtra = 48

	databaseFiles = 24  // connections of one database, see pgstore.Options
	busFiles      = 128 // of the bus: routes to other nodes, and its own clients
)

// ShareFiles divides limit files. If they are too few, the error says how many are needed.
func ShareFiles(limit uint64, c *config.Config) (Files, error) {
	f := shares(limit, c)
	if f.Connections >= minConnections {
		return f, nil
	}
	need := limit
	for shares(need, c).Connections < minConnections {
		need++
	}
	return f, fmt.Errorf(
		"the limit of open files is %d, and the server needs at least %d; ulimit -n %d, or LimitNOFILE=%d in the systemd unit", limit, need, need, need)
}

func shares(limit uint64, c *config.Config) Files {
	limit = min(limit, 1<<30) // "unlimited" is more than anybody opens
	share := func(part uint64, low, high int) int { return min(max(int(limit/part), low), high) }
	f := Files{Limit: limit, HTTP: share(10, 16, 8192), Admin: share(32, 8, 256), HandOvers: share(16, 8, 1024),
		Refusals: share(32, 8, 256)}
	others := 24 + 2*runtime.GOMAXPROCS(0) // listeners, log, the folder's lock, certificates; event loops
	if len(c.Store.Postgres) == 0 {
		f.Store = share(8, 64, maxStoreFiles)
		others += storeExtra
	} else {
		others += databaseFiles * len(c.Store.Postgres)
	}
	if c.Cluster.On() {
		others += busFiles
	}
	f.Connections = int(limit) - others - f.Store - f.HTTP - f.Admin - f.HandOvers - f.Refusals
	return f
}

// shareFiles divides the files that the system allows.
func (a *App) shareFiles() (err error) {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return fmt.Errorf("ask for the limit of open files: %w", err)
	}
	if a.files, err = ShareFiles(uint64(lim.Cur), a.cfg); err != nil {
		return err
	}
	if n := a.cfg.Limits.Connections; n > int64(a.files.Connections) {
		a.log.Warn("limits.connections is more than the limit of open files allows: the smaller one counts", "want", n,
			"files", lim.Cur, "connections", a.files.Connections)
	}
	return nil
}

// connections returns how many clients may be connected if n is the
// configured limit; 0 and negative: as many as there are files for.
func (f *Files) connections(n int64) int {
	if n <= 0 {
		return f.Connections
	}
	return int(min(n, int64(f.Connections)))
}
