// Package api serves the protobuf services: one handler for curl with JSON,
// gRPC, gRPC-Web and the calls of the long connection.
//
// The way of a call: router.go → admission.go (what its body may cost) → authorization.go (who may) → idempotency.go
// (repeats) → auditrecording.go (the audit log) → unary.go → the method, in the file of its subject → answer.go.
// methods.go is the table of all methods. listener.go says which listener has which methods. answerstream.go answers
// one call again each second. Spec: P-10, P-12.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/operator"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/report"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Options are the parts that the services use.
type Options struct {
	Log       *slog.Logger     // nil: nowhere
	Now       func() time.Time // the clock of rates and kept answers; nil: the wall clock
	Store     store.Store      // keeps answers to calls with a request id, and reports of backups
	Users     *user.Users
	Operators *operator.Operators
	Convs     *conv.Convs
	Route     *route.Router
	Inbox     *inbox.Syncer
	Reports   *report.Reports
	Stored    *rate.Bytes[im.Account] // limits the bytes that users store; nil: no limit

	Reads *share.Queue           // runs expensive reads, fairly among users; nil: they run at once
	Calls *share.Queue           // in which calls of users over HTTP wait for their turn; nil: they do not wait
	Pace  *rate.Pace[im.Account] // delays calls of users over HTTP; nil: nothing does
	Turns share.Turns            // in which large requests are decoded and large answers encoded; nil: one at a time
	Audit *audit.Log             // nil: nothing is recorded

	// Shared: other nodes serve calls on the store too. Then a call with a request id costs one more write,
	// which shows them that it is under way.
	Shared bool

	CloseUser func(context.Context, im.Account, im.Code) (int, error) // ends a user's sessions, returns how many
	Announce  func(context.Context, im.Account, im.Standing) error    // tells sessions what holds for them
	// called when a user's profile has changed, or who may see that they are online
	UserChanged func(im.Account)
	// ends a device's sessions; device "": those without a device
	CloseDevice func(context.Context, im.Account, string, im.Code) (int, error)
	Sessions    func(context.Context, im.Account) (map[string]int, error) // connected now, by device
	// waits until the members' lists of conversations show the last change
	Settle       func(context.Context, im.Key) error
	Limits       func() *petrelv1.ServerLimits // of this node
	Stats        func() *petrelv1.Stats
	CompactStore func(context.Context) error
	Checkpoint   func(context.Context) (name string, err error) // for a backup
	Redeemed     func()                                         // called when the setup code was used
	BodyBytes    func() int
	PageSize     func() int // messages in a page of history

	GroupsPerHour      int // that one user may make; negative: no limit
	MembersPerMinute   int // that one user may add, remove or give roles; negative: no limit
	StrangersPerSecond int // calls without a credential from one address; negative: no limit
	UnderWayBytes      int // bound of the bodies of calls under way, and of their answers; 0: 64 MiB
	Followers          int // answer streams at once; 0: 32

	Node      string      // of this server
	Version   string      // of this server
	CallsOnly bool        // on the public listener the methods are reached over the long connection only
	Ready     func() bool // whether the server takes requests, as /readyz says; nil: always
	Stopping  func() bool // the process ends: only calls of operators are served; nil: it does not
	Pressed   func() bool // memory is full; nil: it never is
	BackEnds  func() bool // methods for back ends are served on the public listener too; nil: they are

	Cluster Cluster
	Console Console

	// Refused is called for each call that the gate or the method refuses, unless its caller has gone. It must not
	// block. nil: nothing is called.
	Refused func(Refusal)
}

// rateKey names a bucket of Server.rates: what is counted, and for which user.
type rateKey struct {
	what    byte
	account im.Account
}

const (
	rateGroup = iota + 1
	rateSend
	rateMembers
	rateReact
)

// Server serves the services.
type Server struct {
	o          Options
	log        *slog.Logger
	users      *user.Users
	convs      *conv.Convs
	route      *route.Router
	errors     *connect.ErrorWriter
	services   http.Handler // the handlers of Connect
	table      map[string]method
	turns      turns
	changing   changing
	contacting sync.Map            // im.Account; the users for whom this node changes a contact
	rates      rate.Table[rateKey] // of actions of users

	admission admission
	followers chan struct{} // capacity: how many there may be; a token for each
	ending    chan struct{} // closed when Run ends

	// Figures for operators. The maps are never changed.
	Calls    map[string]*measure.Histogram // from a call to its answer, by method
	Refusals *measure.Counts               // of calls, by code
	Logins   map[string]*measure.Counts    // by how somebody logs in, and the code; ok: they did
}

// outcomeOK is the outcome of a call that was not refused.
const outcomeOK = "ok"

// maxRequestBytes bounds a call's message.
const maxRequestBytes = 1 << 20

// requestTimeout bounds the time that a call spends in its handler, except for methods that the table calls slow.
const requestTimeout = 10 * time.Second

// New makes the services.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.UnderWayBytes == 0 {
		o.UnderWayBytes = maxUnderWay
	}
	if o.Pressed == nil {
		o.Pressed = func() bool { return false }
	}
	if o.Stopping == nil {
		o.Stopping = func() bool { return false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	if o.BackEnds == nil {
		o.BackEnds = func() bool { return true }
	}
	if o.Cluster.Gateways == nil {
		o.Cluster.Gateways = func(im.Account) []string { return nil }
	}
	s := &Server{o: o, log: o.Log, users: o.Users, convs: o.Convs, route: o.Route, table: table}
	s.followers, s.ending = make(chan struct{}, cmp.Or(o.Followers, maxFollowers)), make(chan struct{})
	s.Refusals = measure.NewCounts(im.Codes()...)
	s.Calls, s.Logins = map[string]*measure.Histogram{}, map[string]*measure.Counts{}
	for name, m := range table {
		s.Calls[name] = &measure.Histogram{}
		if m.login != "" {
			s.Logins[m.login] = measure.NewCounts(append(im.Codes(), outcomeOK)...)
		}
	}
	if o.Turns == nil {
		o.Turns = share.NewTurns(1)
	}
	bounded, turns := newBoundedRequests(), newCoding(o.Turns)
	opts := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxRequestBytes),
		connect.WithCompression("gzip", nil, nil), // no compression: a small body must not become a large one
		connect.WithCodec(protoCodec{turns, bounded}), connect.WithCodec(jsonCodec{"json", turns, bounded}),
		connect.WithCodec(jsonCodec{"json; charset=utf-8", turns, bounded}),
		connect.WithRequestGate(s.gate),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(s.conclude), connect.UnaryInterceptorFunc(s.boundAnswer),
			connect.UnaryInterceptorFunc(s.guardTenant), connect.UnaryInterceptorFunc(s.idempotent),
			connect.UnaryInterceptorFunc(s.guardPublic), connect.UnaryInterceptorFunc(s.trace)),
	}
	s.errors = connect.NewErrorWriter(opts...)
	mux := http.NewServeMux()
	for name, m := range table {
		mux.Handle("/"+name, m.serve(s, "/"+name, m, append(opts, connect.WithSchema(schemaOf(name)))...))
	}
	s.services = mux
	return s
}
