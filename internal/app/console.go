package app

import (
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/console"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Subjects of the bus, for what the console asks of every node. Questions and answers are the
// messages of the API, so that a node of the next release skips what it does not know.
const (
	overviewSubject bus.Subject = "console.overview" // GetOverviewRequest, answered with an Overview of the node
	refusalsSubject bus.Subject = "console.refusals" // ListRefusalsRequest, answered with ListRefusalsResponse
	logSubject      bus.Subject = "console.log"      // ReadLogRequest, answered with ReadLogResponse
	sessionsSubject bus.Subject = "console.sessions" // ListSessionsRequest, answered with ListSessionsResponse

	limitsSubject    bus.Subject = "console.limits"         // GetLimitsRequest, answered with the ServerLimits of the node
	previewSubject   bus.Subject = "console.preview_limits" // ServerLimits, answered with PreviewLimitsResponse
	setLimitsSubject bus.Subject = "console.set_limits"     // ServerLimits, answered with a PreviewLimitsResponse of what was changed
)

// lookWait is how long a node may take to answer the console; after that it is silent.
const lookWait = time.Second

// watch is what this node keeps for the console.
type watch struct {
	samples  console.Samples
	refusals console.Refusals
	own      console.Incidents // of this node, noted each second
	all      console.Incidents // of the cluster, noted when somebody looks

	mu       sync.Mutex // tier 0; guards the fields below
	mine     []*petrelv1.Incident
	answered map[im.Node]time.Time // when nodes answered last
	minute   minute

	refusedSends atomic.Uint64
	totals       totals
}

// attachConsole answers what is asked of this node. It is called once, before the bus runs.
func (a *App) attachConsole() {
	a.watch.samples.Acks, a.watch.samples.Commits = &a.hub.Meter.Acks, a.convs.CommitTimes()
	a.watch.answered = map[im.Node]time.Time{}
	a.watch.totals.wanted = make(chan struct{}, 1)
	handle(a.node.bus, overviewSubject, a.overviewHere)
	handle(a.node.bus, refusalsSubject, a.refusalsHere)
	handle(a.node.bus, logSubject, a.linesHere)
	handle(a.node.bus, sessionsSubject, a.sessionsHere)
	handle(a.node.bus, limitsSubject, func(*petrelv1.GetLimitsRequest) *petrelv1.ServerLimits { return toMessage(a.hub.Limits()) })
	handle(a.node.bus, previewSubject, a.previewLimits)
	handle(a.node.bus, setLimitsSubject, a.changeLimits)
}

// handle answers a subject with what f makes of the question. What cannot be read is not
// answered.
func handle[Q any, A proto.Message, PQ interface {
	*Q
	proto.Message
}](b bus.Bus, s bus.Subject, f func(PQ) A) {
	b.Handle(s, bus.Answering(func(_ im.Node, payload []byte) []byte {
		q := PQ(new(Q))
		if proto.Unmarshal(payload, q) != nil {
			return nil
		}
		answer, err := proto.Marshal(f(q))
		im.Assert(err == nil, "an answer does not encode")
		return answer
	}))
}

// askNodes asks all nodes at once, this one included, and returns the answers by node. silent
// are those that should be there and do not answer in time, in order.
func askNodes[A any, PA interface {
	*A
	proto.Message
}](ctx context.Context, a *App, s bus.Subject, q proto.Message) (answers map[im.Node]PA, silent []string) {
	payload, err := proto.Marshal(q)
	im.Assert(err == nil, "a question does not encode")
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	nodes := a.expected()
	replies, errs := make([][]byte, len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { replies[i], errs[i] = a.node.bus.Request(ctx, n, s, payload) })
	}
	wg.Wait()
	now := time.Now()
	answers = map[im.Node]PA{}
	a.watch.mu.Lock()
	defer a.watch.mu.Unlock()
	for i, n := range nodes {
		m := PA(new(A))
		if errs[i] != nil || proto.Unmarshal(replies[i], m) != nil {
			silent = append(silent, string(n))
			continue
		}
		answers[n] = m
		a.watch.answered[n] = now
	}
	return answers, silent
}

// expected are the nodes that should answer, in order: this one, those on the bus, and those
// that live by their heartbeats.
func (a *App) expected() []im.Node {
	nodes := append(a.node.bus.Peers(), a.node.bus.Self())
	if a.node.cluster != nil {
		nodes = append(nodes, a.node.others()...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// takeSamples notes each second until ctx ends.
func (a *App) takeSamples(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		a.takeSample(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *App) takeSample(now time.Time) {
	c := console.Counters{
		Accepted: a.convs.Accepted(), Repeated: a.convs.Repeats(), Delivered: a.convs.Fanned().Delivered,
		RefusedFrames: total(a.hub.Meter.Refusals), RefusedCalls: total(a.api.Refusals), CPU: cpuTime(),
		Connections: int(a.gateway.Stats().Connections), Waiting: a.waiting(), RefusedSends: a.watch.refusedSends.Load(),
	}
	a.watch.mu.Lock()
	a.watch.minute.take(a, now)
	c.RefusedLogins = a.watch.minute.counted[a.watch.minute.at].wrong
	a.watch.mu.Unlock()
	a.watch.samples.Take(now, &c)
	mine := a.ownIncidents(now)
	a.watch.own.Note(now, mine)
	a.watch.mu.Lock()
	a.watch.mine = mine
	a.watch.mu.Unlock()
}

func total(c *measure.Counts) (sum uint64) {
	c.Each(func(_ string, n uint64) { sum += n })
	return sum
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// overviewHere is how this node is.
func (a *App) overviewHere(q *petrelv1.GetOverviewRequest) *petrelv1.Overview {
	now := time.Now()
	r := &petrelv1.NodeReport{
		Node: string(a.node.bus.Self()), Answered: true, Alive: true, Version: a.o.Version, StartedMs: uint64(a.begun.UnixMilli()),
		Draining: a.draining.Load() || a.away.Load(), Partitions: uint32(len(a.convs.Owners())), Now: a.watch.samples.Last(),
		RssBytes: residentBytes(), Storage: a.storageHere(), Accepted: a.convs.Accepted(), Online: uint32(a.table.Users()), Past: a.watch.own.Past(q.AfterMs),
	}
	if a.node.cluster == nil {
		r.Partitions = im.Partitions
	}
	r.Cpu = float64(r.Now.GetCpu())
	for _, v := range a.queues() {
		r.Queues = append(r.Queues, &petrelv1.Gauge{Name: v.name, Value: float64(v.value), Limit: float64(v.limit)})
	}
	for _, v := range a.parts() {
		r.Budgets = append(r.Budgets, &petrelv1.Gauge{Name: v.name, Value: float64(v.value), Limit: float64(v.limit)})
	}
	r.Refused = a.refusedByCode()
	for _, l := range a.watch.refusals.Loudest(now, 5) {
		x := &petrelv1.Loud{Tenant: a.tenantName(l.Account.Tenant), User: string(l.Account.User), Code: string(l.Code), Count: l.Count}
		if x.User == "" && l.Address.IsValid() {
			x.Address = l.Address.String()
		}
		r.Loud = append(r.Loud, x)
	}
	a.watch.mu.Lock()
	r.Incidents = a.watch.mine
	a.watch.mu.Unlock()
	return &petrelv1.Overview{Nodes: []*petrelv1.NodeReport{r}, Samples: a.watch.samples.Since(q.AfterMs, int(q.StepS)), TimeMs: uint64(now.UnixMilli())}
}

// refusedByCode is what was refused since the start.
func (a *App) refusedByCode() (list []*petrelv1.Refused) {
	by := map[string]*petrelv1.Refused{}
	of := func(code string) *petrelv1.Refused {
		if by[code] == nil {
			by[code] = &petrelv1.Refused{Code: code}
			list = append(list, by[code])
		}
		return by[code]
	}
	a.api.Refusals.Each(func(code string, n uint64) { of(code).Calls = n })
	a.hub.Meter.Refusals.Each(func(code string, n uint64) { of(code).Frames = n })
	slices.SortFunc(list, func(x, y *petrelv1.Refused) int { return strings.Compare(x.Code, y.Code) })
	return list
}

// gauge is how much of something there is, and may be; 0: there is no limit.
type gauge struct {
	name         string
	value, limit int64
}

func (a *App) queues() []gauge {
	lag, limit := a.convs.InboxLag()
	return []gauge{
		{"sends_waiting", int64(a.waiting()), 0},
		{"reads_waiting", int64(a.reads.Waiting()), 0},
		{"cursor_moves_waiting", int64(a.convs.MovesWaiting()), 0},
		{"note_changes_waiting", int64(a.convs.NoteChangesWaiting()), 0},
		{"sends_carried_waiting", int64(a.router.Carrying()), 0},
		{"inboxes_behind_ms", lag.Milliseconds(), limit.Milliseconds()},
	}
}

func (a *App) parts() []gauge {
	bytes, budget := a.convs.MemoryBytes()
	sends, most := a.convs.AdmittedBytes()
	list := []gauge{
		{"memory/process", int64(residentBytes()), a.budgets.Total}, {"memory/conversations", bytes, budget}, {"memory/sends", sends, most},
		{"connections", int64(a.gateway.Stats().Connections), int64(a.hub.Limits().Connections)},
	}
	if a.embedded != nil {
		list = append(list, gauge{"memory/store", int64(a.store.Stats().MemoryBytes), a.budgets.Store})
	}
	return list
}

// storageHere is what this node knows of the store.
func (a *App) storageHere() *petrelv1.Storage {
	st := a.store.Stats()
	s := &petrelv1.Storage{
		Kind: a.storeKind(), Writable: true, DiskBytes: st.DiskBytes, FreeBytes: a.freeBytes(), SyncMs: a.watch.samples.CommitMean(10),
		Damage: st.Damage, DamageMet: st.DamageMet, ScrubMs: st.ScrubMs,
	}
	if err := a.store.Writable(); err != nil {
		s.Writable, s.Why = false, err.Error()
	}
	if a.databases == nil {
		s.MinFreeBytes = uint64(max(0, a.cfg.Store.MinFreeBytes))
		return s
	}
	for i := range a.databases.Databases() {
		f := a.databases.Figures(i)
		s.Databases = append(s.Databases, &petrelv1.DatabaseReport{Number: uint32(i + 1), Up: f.Up, Partitions: uint32(f.Partitions)})
	}
	return s
}

func (a *App) storeKind() string {
	if a.databases != nil {
		return "postgres"
	}
	return "embedded"
}

// overview is how all nodes are.
func (a *App) overview(ctx context.Context, q *petrelv1.GetOverviewRequest) *petrelv1.Overview {
	if a.node.cluster == nil { // there is nobody else to ask
		o := a.overviewHere(q)
		o.AnsweredBy, o.Partitions = o.Nodes[0].Node, im.Partitions
		o.Incidents, o.Past, o.Totals = o.Nodes[0].Incidents, o.Nodes[0].Past, a.wantTotals(time.Now())
		return a.conclude(o, q)
	}
	answers, silent := askNodes[petrelv1.Overview](ctx, a, overviewSubject, q)
	st := a.node.cluster.Status()
	now := time.Now()
	o := &petrelv1.Overview{AnsweredBy: string(a.node.cluster.Self()), Partitions: uint32(st.Feeds), Misplaced: uint32(st.Misplaced), Totals: a.wantTotals(now)}
	for _, f := range st.Unowned {
		o.Unowned = append(o.Unowned, uint32(f))
	}
	var samples [][]*petrelv1.Sample
	waiting := false // for the next second of a node: without it the sum would fall
	for _, x := range answers {
		if len(x.Nodes) != 1 {
			continue
		}
		// A node whose clock is ahead is not ahead of the others.
		ahead := (int64(x.TimeMs) - now.UnixMilli() + 500) / 1000 * 1000
		if ahead > -2000 && ahead < 2000 {
			ahead = 0
		}
		for _, s := range x.Samples {
			s.TimeMs = uint64(int64(s.TimeMs) - ahead)
		}
		samples = append(samples, x.Samples)
		waiting = waiting || len(x.Samples) == 0 && isDue(q.AfterMs, x.Nodes[0].Now)
		o.Nodes = append(o.Nodes, x.Nodes[0])
		o.Incidents = append(o.Incidents, x.Nodes[0].Incidents...)
		o.Past = append(o.Past, x.Nodes[0].Past...)
	}
	if !waiting {
		o.Samples = console.Together(samples)
	}
	common := a.clusterIncidents(now, &st, silent)
	a.watch.all.Note(now, common)
	o.Incidents = append(o.Incidents, common...)
	o.Past = append(o.Past, a.watch.all.Past(q.AfterMs)...)
	a.watch.mu.Lock()
	for _, n := range silent {
		r := &petrelv1.NodeReport{Node: n, Alive: slices.ContainsFunc(st.Nodes, func(x nodeStatus) bool { return string(x.Node) == n && x.Alive })}
		if at := a.watch.answered[im.Node(n)]; !at.IsZero() {
			r.SilentSinceMs = uint64(at.UnixMilli())
		}
		o.Nodes = append(o.Nodes, r)
	}
	a.watch.mu.Unlock()
	for i := range st.Nodes {
		n := &st.Nodes[i]
		if !n.Alive && !slices.ContainsFunc(o.Nodes, func(r *petrelv1.NodeReport) bool { return r.Node == string(n.Node) }) {
			o.Nodes = append(o.Nodes, &petrelv1.NodeReport{Node: string(n.Node), Version: n.Release, StartedMs: uint64(n.Started.UnixMilli()), SilentSinceMs: uint64(now.Add(-n.Silent).UnixMilli())})
		}
	}
	slices.SortFunc(o.Nodes, func(x, y *petrelv1.NodeReport) int { return strings.Compare(x.Node, y.Node) })
	return a.conclude(o, q)
}

// conclude says the verdict, and up to when the samples are.
func (a *App) conclude(o *petrelv1.Overview, q *petrelv1.GetOverviewRequest) *petrelv1.Overview {
	o.Incidents = slices.Clone(o.Incidents)
	o.Verdict = console.Worst(o.Incidents)
	o.TimeMs = q.AfterMs
	if n := len(o.Samples); n > 0 {
		o.TimeMs = o.Samples[n-1].TimeMs
	}
	return o
}

// isDue tells whether a node that has no second behind afterMs is about to have one. One whose
// clock is behind, or that takes no samples any more, is not waited for.
func isDue(afterMs uint64, newest *petrelv1.Sample) bool {
	return afterMs > 0 && newest != nil && newest.TimeMs+2000 > afterMs
}

// noteRefusal keeps what a session was refused, and records what it was refused for want of
// a right.
func (a *App) noteRefusal(r session.Refusal) {
	x := &console.Refusal{At: time.Now(), What: r.What, Code: r.Code, Text: r.Text, Account: r.Who.Account, Device: r.Who.Device, Address: r.Remote}
	if r.Send != nil {
		x.Conv, x.ClientMsgID = r.Send.Conv, r.Send.ClientMsgId
		a.watch.refusedSends.Add(1)
	}
	a.watch.refusals.Note(x)
	if !audit.WantsRight(r.Code) || r.Send != nil {
		return
	}
	rec := &audit.Record{Event: r.What, Code: r.Code, Address: r.Remote, User: r.Who.Account.User, Device: r.Who.Device}
	if rec.User != "" {
		rec.Tenant = a.tenantName(r.Who.Account.Tenant)
	}
	a.audit.Summed(rec)
}

// noteSendRefused keeps what a conversation refused.
func (a *App) noteSendRefused(s *conv.Send, e *im.Error) {
	if s.Entry.From == "" {
		return // the server itself tries again
	}
	a.watch.refusedSends.Add(1)
	x := &console.Refusal{
		At: time.Now(), What: "send", Code: e.Code, Text: e.Message, Account: im.Account{Tenant: s.Conv.Tenant, User: im.User(s.Entry.From)}, ClientMsgID: s.Entry.ClientMsgId,
	}
	if s.Conv.Conv != (im.ConvID{}) {
		x.Conv = s.Conv.Conv.String()
	}
	if o := s.Origin.Out; o != nil {
		x.Device = o.Device
		x.Address = o.Conn.ClientAddr()
	}
	a.watch.refusals.Note(x)
}

// noteCallRefused keeps what a call was refused.
func (a *App) noteCallRefused(r api.Refusal) {
	x := &console.Refusal{At: time.Now(), What: r.What, Code: r.Code, Text: r.Text, Account: r.Who.Account, Device: r.Who.Device, Address: r.Address, Named: r.Named}
	if r.Send != nil {
		x.Conv, x.ClientMsgID = r.Send.Conv, r.Send.ClientMsgId
	}
	a.watch.refusals.Note(x)
}

// tenantName is the name of a tenant of which somebody was let in, or tried to be.
func (a *App) tenantName(t im.Tenant) string {
	if t == 0 {
		return ""
	}
	name, err := a.users.TenantName(context.Background(), t) // it is in memory
	if err != nil {
		return ""
	}
	return name
}

// refusalsHere lists what this node refused.
func (a *App) refusalsHere(q *petrelv1.ListRefusalsRequest) *petrelv1.ListRefusalsResponse {
	limit := refusalLimit(q)
	var tenant im.Tenant // 0: all
	if q.Tenant != "" {
		var err error
		if tenant, err = a.users.Tenant(context.Background(), q.Tenant); err != nil {
			return &petrelv1.ListRefusalsResponse{}
		}
	}
	most := limit
	if q.Grouped {
		most = math.MaxInt
	}
	list := a.watch.refusals.List(time.Now(), most, func(x *console.Refusal) bool {
		return (q.User == "" || string(x.Account.User) == q.User) && (q.Code == "" || string(x.Code) == q.Code) && (q.ClientMsgId == "" || x.ClientMsgID == q.ClientMsgId) &&
			uint64(x.At.UnixMilli()) > q.SinceMs && (tenant == 0 || x.Account.Tenant == tenant)
	})
	if q.Grouped {
		list = console.Groups(list)
		list = list[:min(len(list), limit)]
	}
	r := &petrelv1.ListRefusalsResponse{}
	for i := range list {
		x := &list[i]
		m := &petrelv1.Refusal{
			Node: string(a.node.bus.Self()), TimeMs: uint64(x.At.UnixMilli()), What: x.What, Code: string(x.Code), Text: x.Text, Tenant: a.tenantName(x.Account.Tenant),
			User: string(x.Account.User), Device: x.Device, Conv: x.Conv, ClientMsgId: x.ClientMsgID, Count: x.Count,
		}
		if x.Address.IsValid() {
			m.Address = x.Address.String()
		}
		if q.Grouped {
			m.FirstMs = uint64(x.First.UnixMilli())
		}
		r.Refusals = append(r.Refusals, m)
	}
	return r
}

func refusalLimit(q *petrelv1.ListRefusalsRequest) int {
	if q.Limit == 0 {
		return 200
	}
	return int(min(q.Limit, 1000))
}

// refused lists what all nodes refused, newest first.
func (a *App) refused(ctx context.Context, q *petrelv1.ListRefusalsRequest) *petrelv1.ListRefusalsResponse {
	answers, silent := askNodes[petrelv1.ListRefusalsResponse](ctx, a, refusalsSubject, q)
	r := &petrelv1.ListRefusalsResponse{Silent: silent}
	for _, x := range answers {
		r.Refusals = append(r.Refusals, x.Refusals...)
	}
	slices.SortStableFunc(r.Refusals, func(x, y *petrelv1.Refusal) int {
		if q.Grouped { // a group stays with its node
			return cmp.Compare(y.Count, x.Count)
		}
		return cmp.Compare(y.TimeMs, x.TimeMs)
	})
	r.Refusals = r.Refusals[:min(len(r.Refusals), refusalLimit(q))]
	return r
}

// linesHere are the last lines of the log of this node.
func (a *App) linesHere(q *petrelv1.ReadLogRequest) *petrelv1.ReadLogResponse {
	var least slog.Level
	if q.Level == "" || least.UnmarshalText([]byte(q.Level)) != nil {
		least = slog.LevelDebug
	}
	list := a.o.Lines.List(lineLimit(q), func(x *console.Line) bool {
		return x.Level >= least && uint64(x.At.UnixMilli()) > q.AfterMs && (q.Contains == "" || strings.Contains(x.Text, q.Contains) || strings.Contains(x.Attrs, q.Contains))
	})
	r := &petrelv1.ReadLogResponse{}
	for i := range list {
		x := &list[i]
		r.Lines = append(r.Lines, &petrelv1.LogLine{
			Node: string(a.node.bus.Self()), TimeMs: uint64(x.At.UnixMilli()), Level: x.Level.String(), Text: strings.ToValidUTF8(x.Text, "?"), Attrs: strings.ToValidUTF8(x.Attrs, "?"),
		})
	}
	return r
}

// lineLimit keeps an answer below what the bus carries.
func lineLimit(q *petrelv1.ReadLogRequest) int {
	if q.Limit == 0 {
		return 500
	}
	return int(min(q.Limit, 900))
}

// logLines are the last lines of the log of all nodes, or of one. Codes: no_node, invalid.
func (a *App) logLines(ctx context.Context, q *petrelv1.ReadLogRequest) (*petrelv1.ReadLogResponse, error) {
	var level slog.Level
	if q.Level != "" && level.UnmarshalText([]byte(q.Level)) != nil {
		return nil, im.Errorf(im.CodeInvalid, "level is DEBUG, INFO, WARN or ERROR")
	}
	if q.Node != "" && !slices.Contains(a.expected(), im.Node(q.Node)) {
		return nil, im.Errorf(im.CodeNoNode, "there is no node %.64q that should answer", q.Node)
	}
	answers, silent := askNodes[petrelv1.ReadLogResponse](ctx, a, logSubject, q)
	r := &petrelv1.ReadLogResponse{Silent: silent}
	for n, x := range answers {
		if q.Node == "" || q.Node == string(n) {
			r.Lines = append(r.Lines, x.Lines...)
		}
	}
	slices.SortStableFunc(r.Lines, func(x, y *petrelv1.LogLine) int { return int(int64(x.TimeMs) - int64(y.TimeMs)) })
	r.Lines = r.Lines[max(0, len(r.Lines)-lineLimit(q)):]
	return r, nil
}

// sessionsHere are the sessions of a user at this node.
func (a *App) sessionsHere(q *petrelv1.ListSessionsRequest) *petrelv1.ListSessionsResponse {
	r := &petrelv1.ListSessionsResponse{}
	t, err := a.users.Tenant(context.Background(), q.Tenant)
	if err != nil {
		return r
	}
	id, _ := im.ParseConvID(q.Conv) // none is in no focus
	for _, o := range a.table.Of(im.Account{Tenant: t, User: im.User(q.User)}) {
		l := o.Look(id)
		x := &petrelv1.SessionInfo{Node: string(a.node.bus.Self()), Device: o.Device, PendingBytes: uint64(l.Pending), Lagged: l.Lagged, Held: l.Held, Focused: l.Focused, InFocus: q.Conv != "" && l.InFocus}
		if addr := o.Conn.ClientAddr(); addr.IsValid() {
			x.Address = addr.String()
		}
		r.Sessions = append(r.Sessions, x)
	}
	return r
}

// sessions are those of a user at all nodes.
func (a *App) sessions(ctx context.Context, q *petrelv1.ListSessionsRequest) *petrelv1.ListSessionsResponse {
	answers, silent := askNodes[petrelv1.ListSessionsResponse](ctx, a, sessionsSubject, q)
	r := &petrelv1.ListSessionsResponse{Silent: silent}
	for _, x := range answers {
		r.Sessions = append(r.Sessions, x.Sessions...)
	}
	slices.SortFunc(r.Sessions, func(x, y *petrelv1.SessionInfo) int {
		return strings.Compare(x.Node+" "+x.Device+" "+x.Address, y.Node+" "+y.Device+" "+y.Address)
	})
	return r
}

// limitsOfAll are the limits of all nodes.
func (a *App) limitsOfAll(ctx context.Context) *petrelv1.ClusterLimits {
	answers, silent := askNodes[petrelv1.ServerLimits](ctx, a, limitsSubject, &petrelv1.GetLimitsRequest{})
	r := &petrelv1.ClusterLimits{Silent: silent}
	for _, n := range slices.Sorted(maps.Keys(answers)) {
		r.Nodes = append(r.Nodes, &petrelv1.NodeLimits{Node: string(n), Limits: answers[n]})
	}
	return r
}

// changesOfLimits asks all nodes what m changes, or has them change it, and says once what is
// the same on several nodes.
func (a *App) changesOfLimits(ctx context.Context, s bus.Subject, m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
	answers, silent := askNodes[petrelv1.PreviewLimitsResponse](ctx, a, s, m)
	r := &petrelv1.PreviewLimitsResponse{Silent: silent}
	for _, n := range slices.Sorted(maps.Keys(answers)) {
		for _, c := range answers[n].Changes {
			i := slices.IndexFunc(r.Changes, func(x *petrelv1.LimitChange) bool {
				return x.Name == c.Name && x.From == c.From && x.To == c.To && x.Text == c.Text
			})
			if i < 0 {
				i, r.Changes = len(r.Changes), append(r.Changes, c)
			}
			r.Changes[i].Nodes = append(r.Changes[i].Nodes, string(n))
		}
	}
	for _, c := range r.Changes {
		if len(c.Nodes) == len(answers) {
			c.Nodes = nil
		}
	}
	slices.SortStableFunc(r.Changes, func(x, y *petrelv1.LimitChange) int { return strings.Compare(x.Name, y.Name) })
	return r
}

// lastSeen is when a user was online last; 0: not known.
func (a *App) lastSeen(ctx context.Context, who im.Account) (uint64, error) {
	b, err := a.store.Record(ctx, store.LastSeen, who.Tenant, []byte(who.User))
	if err != nil || len(b) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// ownerOf is the partition of a conversation, and the node that is known to own it; "": none.
func (a *App) ownerOf(c im.ConvID) (im.Partition, im.Node) {
	p := im.PartitionOf(c)
	f := a.store.FeedOf(p)
	if a.convs.Owner(f) != nil || a.node.cluster == nil {
		return p, a.node.bus.Self()
	}
	n, _, _ := a.node.cluster.Route(f)
	return p, n
}

// consoleOf is what the API asks.
func (a *App) consoleOf() api.Console {
	return api.Console{
		Overview: a.overview, Refusals: a.refused, Log: a.logLines, Sessions: a.sessions, LastSeen: a.lastSeen, Owner: a.ownerOf, Kind: a.storeKind(),
		Limits: a.limitsOfAll,
		Preview: func(ctx context.Context, m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
			return a.changesOfLimits(ctx, previewSubject, m)
		},
		SetLimits: func(ctx context.Context, m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
			return a.changesOfLimits(ctx, setLimitsSubject, m)
		},
		Online: func(who im.Account) bool { return a.table.Online(a.table.Hash(who)) },
		OnlineAt: func(who im.Account) []im.Node {
			if a.node.fan == nil {
				return nil
			}
			return a.node.fan.NodesOf(a.table, who)
		},
	}
}
