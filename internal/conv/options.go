package conv

import (
	"context"
	"log/slog"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// Options tune Convs; zero values are the defaults.
type Options struct {
	Log *slog.Logger
	Now func() time.Time // wall clock of message times

	// LookUp checks users before an account (by) writes to them for the first time, or with adding, before it
	// adds them to a group. The users are of its tenant. An account without a user is the operator. Codes:
	// no_user; forbidden, with adding, for users who do not let this account add them; rate_limited, which keeps
	// users from trying names. nil: every user exists.
	LookUp func(ctx context.Context, by im.Account, users []im.User, adding bool) error

	// FirstMessages returns what becomes of first messages to a user: a First constant; 0: what becomes of any message.
	// nil: 0 for all. Spec: P-14.11.
	FirstMessages func(ctx context.Context, to im.Account) (uint32, error)

	// How long after the time of a message its sender may edit and recall it. 0: 24 hours; below 0: for ever.
	EditWindow, RecallWindow time.Duration

	QueueBytes    int           // of sends waiting in one conversation; 1 MiB
	InFlightBytes int           // of unanswered sends, on the whole node; 64 MiB
	IdleAfter     time.Duration // an unused conversation leaves memory after this; 1 minute
	InboxLag      time.Duration // above it, changes of membership are refused; 30 seconds
	MemoryBytes   int           // of conversations in memory, on the whole node; 128 MiB
	Loaders       int           // goroutines that read conversations from the store; 4
	WaitingMoves  int           // of cursors, not durable yet, on the whole node; 262,144

	// Holder is the number of this process, under which it takes feeds over when Open is called. 0: no other
	// process shares the store, and New takes all feeds over at once.
	Holder uint64

	// Refused is called with each send that is refused here; nil: nothing is called. It must not
	// block, nor keep anything of the send.
	Refused func(*Send, *im.Error)

	// Nodes brings new entries to users on other nodes. nil: there are no other nodes.
	Nodes *fanout.Nodes
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.EditWindow == 0 {
		o.EditWindow = 24 * time.Hour
	}
	if o.RecallWindow == 0 {
		o.RecallWindow = 24 * time.Hour
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 1 << 20
	}
	if o.InFlightBytes == 0 {
		o.InFlightBytes = 64 << 20
	}
	if o.IdleAfter == 0 {
		o.IdleAfter = time.Minute
	}
	if o.InboxLag == 0 {
		o.InboxLag = 30 * time.Second
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 128 << 20
	}
	if o.Loaders == 0 {
		o.Loaders = 4
	}
	if o.WaitingMoves == 0 {
		o.WaitingMoves = 1 << 18
	}
	return o
}

// shared tells whether other processes may take the feeds of this store.
func (o *Options) shared() bool { return o.Holder != 0 }
