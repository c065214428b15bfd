package pgstore

import (
	"log/slog"
	"time"

	"github.com/petrel-im/petrel/internal/store"
)

// Options configure a store. The zero value of a field stands for its default, the number in its comment.
type Options struct {
	// DSNs are the databases, as URLs or key=value pairs, always in the same order: the first one holds the
	// records and the map of the partitions. Of several hosts in a DSN, the one that takes writes is used.
	DSNs []string
	Log  *slog.Logger // nil: nothing is logged

	StoreID uint64 // the databases must hold this store; 0: any, and one is made where there is none
	// RequireStandby refuses a database that waits for no standby: the loss of its machine would lose acked
	// commits.
	RequireStandby bool

	// Mark is a file outside of the databases that records their positions, at most a second old. Empty:
	// there is none. Its folder must exist.
	Mark string

	// connections to each database beside the one that commits, 16; pool_max_conns in a DSN overrides it
	Conns      int
	Timeout    time.Duration // of one statement, 10 s; a commit that takes longer is of unknown outcome
	StallAfter time.Duration // a commit that takes longer makes Writable refuse, 2 s
	GoneAfter  time.Duration // a connection whose packets nobody acknowledges ends, 4 s
	CheckEvery time.Duration // interval at which an idle connection is looked at, 1 s

	oldest int // for tests: the least server_version_num
	level  int // for tests: the format level of this program
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Conns == 0 {
		o.Conns = 16
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.StallAfter == 0 {
		o.StallAfter = 2 * time.Second
	}
	if o.GoneAfter == 0 {
		o.GoneAfter = 4 * time.Second
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = time.Second
	}
	if o.oldest == 0 {
		o.oldest = 150000
	}
	if o.level == 0 {
		o.level = store.FormatLevel
	}
	return o
}
