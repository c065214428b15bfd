package console

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Options are the parts of the node that the console shows. Any goroutine of the console may call the functions,
// but none before Run begins or the bus runs.
type Options struct {
	Log     *slog.Logger
	Lines   *Lines
	Version string
	Begun   time.Time
	Bus     bus.Bus
	Cluster *cluster.Cluster // nil: there are no other nodes
	Store   store.Store
	Users   *user.Users
	Table   *fanout.Table

	Acks, Commits *measure.Histogram
	Counters      func() Counters
	Queues        func() []*petrelv1.Gauge // lengths of queues
	Budgets       func() []*petrelv1.Gauge // of memory, and of connections
	Databases     func() []*petrelv1.DatabaseReport
	FrameRefusals *measure.Counts                   // by code
	CallRefusals  func() *measure.Counts            // by code
	Logins        func() map[string]*measure.Counts // by how somebody logs in, and the code; ok: they did
	InboxLag      func() (lag, limit time.Duration)
	Partitions    func() int // that this node owns
	Draining      func() bool
	Failing       func() bool  // the store refuses most commits
	Behind        func() error // why a database must not be used; nil: none is behind
	AuditLost     func() (dropped, failed uint64)
	Certificate   func() (end time.Time, ok bool)
	FreeBytes     func() uint64 // on the disk of store.dir; 0: not known
	RSSBytes      func() uint64
	Taken         func(time.Time, im.Account) (taken, bound int64) // bytes that a tenant has stored lately

	Kind         string // of the store: "embedded" or "postgres"
	MinFreeBytes int64  // with less free space an embedded store refuses sends

	Limits        func() *petrelv1.ServerLimits
	PreviewLimits func(*petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse
	SetLimits     func(*petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse // what it has changed
}

// answerTime is how long a node may take for an answer. After that it counts as silent.
const answerTime = time.Second

// Questions of the console to every node. Questions and answers are the messages of the API.
var (
	overviews = bus.Request[*petrelv1.GetOverviewRequest, *petrelv1.Overview]{Subject: "console.overview",
		Timeout: answerTime}
	refused = bus.Request[*petrelv1.ListRefusalsRequest, *petrelv1.ListRefusalsResponse]{Subject: "console.refusals",
		Timeout: answerTime}
	logLines = bus.Request[*petrelv1.ReadLogRequest, *petrelv1.ReadLogResponse]{Subject: "console.log",
		Timeout: answerTime}
	sessions = bus.Request[*petrelv1.ListSessionsRequest, *petrelv1.ListSessionsResponse]{Subject: "console.sessions",
		Timeout: answerTime}

	limits = bus.Request[*petrelv1.GetLimitsRequest, *petrelv1.ServerLimits]{Subject: "console.limits",
		Timeout: answerTime}
	previewLimits = bus.Request[*petrelv1.ServerLimits,
		*petrelv1.PreviewLimitsResponse]{Subject: "console.preview_limits", Timeout: answerTime}
	setLimits = bus.Request[*petrelv1.ServerLimits, *petrelv1.PreviewLimitsResponse]{Subject: "console.set_limits",
		Timeout: answerTime}
)

// Console keeps the data of this node for operators, and asks the other nodes for theirs.
type Console struct {
	Samples  Samples
	Refusals Refusals

	o   Options
	own Incidents // of this node; noted each second
	all Incidents // of the cluster; noted when somebody asks for an overview

	mu       sync.Mutex // tier 0; guards the fields below
	mine     []*petrelv1.Incident
	answered map[im.Node]time.Time // when nodes answered last
	minute   minute

	refusedSends atomic.Uint64
	totals       totals
}

// New makes the console, and registers its answers to the questions of other nodes. It is called before the bus
// runs.
func New(o Options) *Console {
	c := &Console{o: o, answered: map[im.Node]time.Time{}, totals: totals{wanted: make(chan struct{}, 1)}}
	c.Samples.Acks, c.Samples.Commits = o.Acks, o.Commits
	serve(o.Bus, overviews, c.overviewHere)
	serve(o.Bus, refused, c.refusalsHere)
	serve(o.Bus, logLines, c.linesHere)
	serve(o.Bus, sessions, c.sessionsHere)
	serve(o.Bus, limits, func(*petrelv1.GetLimitsRequest) *petrelv1.ServerLimits { return o.Limits() })
	serve(o.Bus, previewLimits, o.PreviewLimits)
	serve(o.Bus, setLimits, o.SetLimits)
	return c
}

func serve[Q, A proto.Message](b bus.Bus, r bus.Request[Q, A], f func(Q) A) {
	r.Serve(b, func(_ im.Node, q Q) (A, error) { return f(q), nil })
}

// askNodes asks all nodes at once, this one included, and returns the answers in the order of the nodes.
// silent are the expected nodes that do not answer in time, or answer with an error.
func askNodes[Q, A proto.Message](ctx context.Context, c *Console, r bus.Request[Q, A],
	q Q) (answers []bus.Reply[A], silent []string) {
	replies := r.AskAll(ctx, c.o.Bus, c.expected(), q)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range replies {
		if x.Err != nil {
			silent = append(silent, string(x.Node))
			continue
		}
		answers = append(answers, x)
		c.answered[x.Node] = now
	}
	return answers, silent
}

// expected returns the nodes that should answer, in order: this one, those on the bus, and those with a
// heartbeat.
func (c *Console) expected() []im.Node {
	nodes := bus.Nodes(c.o.Bus)
	if c.o.Cluster != nil {
		for _, n := range c.o.Cluster.Status().Nodes {
			if n.Alive {
				nodes = append(nodes, n.Node)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Run takes a sample each second until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		c.takeSample(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Console) takeSample(now time.Time) {
	n := c.o.Counters()
	n.RefusedFrames, n.RefusedCalls, n.RefusedSends = total(c.o.FrameRefusals), total(c.o.CallRefusals()),
		c.refusedSends.Load()
	counted := c.count(n.Accepted)
	c.mu.Lock()
	c.minute.take(c, now, counted)
	c.mu.Unlock()
	n.RefusedLogins = counted.wrong
	c.Samples.Take(now, &n)
	mine := c.ownIncidents(now)
	c.own.Note(now, mine)
	c.mu.Lock()
	c.mine = mine
	c.mu.Unlock()
}

func total(c *measure.Counts) (sum uint64) {
	c.Each(func(_ string, n uint64) { sum += n })
	return sum
}

// NoteSend counts and records the refusal of a send.
func (c *Console) NoteSend(x *Refusal) {
	c.refusedSends.Add(1)
	c.Refusals.Note(x)
}

// address formats an address for people; "" if it is not known.
func address(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// tenantName returns the name of a tenant; "" if it is not known. It reads no store if somebody of the tenant has
// logged in or tried to.
func (c *Console) tenantName(t im.Tenant) string {
	name, err := c.o.Users.TenantName(context.Background(), t) // it is in memory
	if err != nil {
		return ""
	}
	return name
}
