// Package presence tells sessions which of the users that they watch are online.
//
// Read the files in this order: presence.go (the state), watch.go (a session sets the users that it
// watches), run.go (the loop sends changes to sessions), visibilityreads.go (workers read who may be
// seen), profileversions.go (which version of a profile a watcher is told), peers.go (users who have written
// to a watcher), blocked.go (users whom a user may block), blockerview.go (how a blocked watcher sees the
// blocker), offlinedelay.go (a user without a session is shown as online for 30 s), lastseen.go (when users
// were online last), policychange.go (a user changes who may see them).
//
// Every node knows who is online, from its own online table and from the announcements of the other
// nodes, which fan-out needs anyway. So no presences travel between nodes, only changes of who may see a
// user, and each node informs its own sessions. A dead node announces nothing: its users go offline after
// 30 s, unless they have connected to another node by then. The loop informs one session after the other.
//
// The package owns the watches. It may not know conversations or connections. Presence may be lost on its
// way to a client. Spec: P-13.5, P-13.6.
package presence

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	// MaxWatched is how many users one session may watch.
	MaxWatched = 200

	// holdOnline is how long a user without a session is still shown as
	// online. Most losses of a connection are shorter, also when a node dies.
	holdOnline = 30 * time.Second

	maxAsked   = 1 << 16 // watches that wait to be read; also changes between two users that wait
	maxLeaving = 1 << 18 // users who have gone less than holdOnline ago
	workers    = 8       // goroutines that read the store for watches
	maxJobs    = 64      // jobs that wait for a worker
	atOnce     = 4       // reads of the store for one watch

	// When a node dies, thousands of sessions watch anew at other nodes, and
	// thousands of users go offline. The loop spreads both over time.
	watchesPerSecond = 1000
	watchBurst       = 256
	askPause         = 20 * time.Millisecond // least wait for a token, so that one step reads several watches
	tellAtOnce       = 1 << 14               // presences that one step finds, about
	sessionsAtOnce   = 1 << 10               // sessions to which one step sends
	gatherAtMost     = time.Second           // how long handOut waits for further presences
	tellPause        = 10 * time.Millisecond // until the next step, while there is more to send
	retryPause       = time.Second           // until the next job, after a failure of the store
)

// Options connect a Presence with other parts.
type Options struct {
	Log   *slog.Logger
	Now   func() time.Time // wall clock, for times of being online last
	Store store.Store
	IDs   *im.IDs
	Table *fanout.Table
	Nodes *fanout.Nodes // nil: there are no other nodes

	// Facts reads what a watcher may see of a user; a zero ProfileVersions, if there is no such user.
	Facts func(ctx context.Context, a im.Account) (user.PresencePolicy, user.ProfileVersions, error)

	// Knows tells which of users a watcher may ask for their profiles without a look-up: those who are in the
	// conversation in too (the zero key: none), and those with whom the watcher has a direct conversation.
	Knows func(ctx context.Context, watcher im.Account, in im.Key, users []im.User) ([]bool, error)

	// HaveAsContact tells which of users have a watcher as a contact.
	HaveAsContact func(ctx context.Context, watcher im.Account, users []im.User) ([]bool, error)
}

// Presence tells the sessions of this node who is online.
type Presence struct {
	o    Options
	wake chan struct{} // capacity 1; a token: the loop has something to do
	jobs chan job      // capacity maxJobs: reads for the workers
	due  chan struct{} // capacity 1; a token: there are times of being online last to store

	// Only the loop uses these, see run.go.
	pending   []pendingOffline
	owing     []*Watch  // sessions with changes that are not sent yet, the oldest first
	gathering time.Time // since when something is owed; zero: nothing is
	pace      rate.Bucket
	pause     time.Time // no job begins before

	mu      sync.Mutex // tier 0; guards the fields below
	targets map[uint64]*target
	changed []*target  // targets that came online or went offline
	asked   []question // the oldest first
	ended   []*Watch   // watches whose sessions have ended
	done    []result   // of jobs
	stale   []*target  // whose policy is to be read again; each once
	pairs   []pairChange
	leaving []leaving // the oldest first
	write   []lastSeen

	Watching atomic.Int64  // users who are watched here
	Sent     atomic.Uint64 // presences put into outboxes
	Dropped  atomic.Uint64 // times of being online last that were not stored
}

// target is a user who is watched. Only the loop uses it, except account
// and hash, which never change, noted and stale.
type target struct {
	account im.Account
	hash    uint64
	noted   bool // it stands in Presence.changed; guarded by Presence.mu
	stale   bool // it stands in Presence.stale; guarded by Presence.mu

	watchers []*watching
	known    bool   // policy, blocked and lastMs were read
	version  uint32 // raised when the policy has changed: earlier reads do not count
	rechecks uint32 // number of rereads of the policy: only the last one counts
	pairs    uint32 // number of changes between t and a watcher (see pairChange): earlier reads do not count
	policy   user.PresencePolicy
	blocked  *blocked
	away     map[im.User]*blockerView // by watcher whom t blocks, or may block
	lastMs   uint64
	online   bool      // is shown as online
	goneAt   time.Time // since when the user has no session; zero: has one, or is shown as offline
	goneMs   uint64    // the same on the wall clock
	versions versions

	// The last results of as: without a profile, with that of others, and with another one; nil: none yet.
	seen, unseen [3]*petrelv1.Presence
}

// view is a session's view of a target.
type view uint8

const (
	untold         view = iota
	hidden              // the session may not see it
	visible             // it may
	blockerOnline       // the target blocks the user of the session, or may do so, and is shown as online for a while
	blockerOffline      // the same, and is shown as offline
)

// New makes a Presence and connects it with the online table. It is called before anybody enters the table.
func New(o Options) *Presence {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Presence{
		o: o, wake: make(chan struct{}, 1), jobs: make(chan job, maxJobs), due: make(chan struct{}, 1),
		targets: map[uint64]*target{},
	}
	o.Table.OnChange(p.noteChange)
	if o.Nodes != nil {
		o.Nodes.OnPresencePolicy(p.policyChanged, p.policiesMayHaveChanged)
	}
	return p
}

// noteChange notes that the first session of a user has begun, or the last one has ended: on this node, or, if
// a has no user, on another node. Of a user who has left this node it also notes the time. The online table
// calls it with a lock held.
func (p *Presence) noteChange(a im.Account, hash uint64, online bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.User != "" && !online {
		p.leaveLocked(a, hash)
	}
	if t := p.targets[hash]; t != nil && !t.noted {
		t.noted = true
		p.changed = append(p.changed, t)
		wake.Set(p.wake)
	}
}
