package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/petrel-im/petrel/internal/checker"
)

// conclude reads histories back, ends the audit and fills in the report.
func (r *run) conclude(ctx context.Context) error {
	g, rep := r.gen, r.report
	unknown := g.audit.unknown()
	read, mine, err := r.readBack(ctx)
	if err != nil {
		return err
	}
	rep.Unknown, rep.CursorMoves = unknown, g.moved
	if r.p.traffic() == mesh {
		mine = g.read // the receivers have read all messages, readBack only a sample
	}
	r.figures()
	if rep.Floor != nil {
		rep.Floor.compare(rep)
	}
	if r.living != nil {
		r.living()
	}
	rep.Series = r.series()
	if r.p.Scenario == Soak {
		rep.Drift = drift(rep.Series)
	}
	if r.p.counted() && !r.p.inTasks() {
		rep.Checks = r.checks(mine)
	}
	rep.Kills = r.kills()
	rep.Published = rep.beside()
	rep.Overloaded = append([]string{}, r.overloaded()...) // empty in the report, not null
	rep.Audit = Audit{
		Findings: g.audit.close(), Messages: g.tally.accepted, Deliveries: g.tally.delivered, HistoryRead: read,
		Lagged: g.lagged, Errors: g.errors, Connections: g.lost,
		Witnesses: append([]checker.Witness{}, g.audit.Witnesses...),
	}
	if r.pg != nil {
		if rep.Postgres.Moves, err = r.pg.moves(ctx); err != nil {
			return err
		}
	}
	if g.tally.accepted == 0 || !r.own() || r.pg != nil {
		return nil // the store of a running server has more than the messages of this run
	}
	disk, err := r.ops[0].compact(ctx)
	if err != nil {
		return err
	}
	rep.Server.DiskBytesPerMessage = round(float64(int64(disk-r.diskBefore))/float64(g.tally.accepted), 10)
	return nil
}

// figures fills in the figures of the measured window.
func (r *run) figures() {
	g, rep := r.gen, r.report
	begin, end := g.begin, g.end
	from, to := r.marks[0], r.marks[1]
	rep.Seconds = float64(max(end.at-begin.at, 1)) / 1e9 // a generator that stood still may meet both ends at once
	if r.p.counted() && !r.p.inTasks() {
		rep.Seconds = float64(r.sent-begin.at) / 1e9
	}
	rep.Offered, rep.Accepted = end.offered-begin.offered, end.accepted-begin.accepted
	rep.Rejected = end.rejected - begin.rejected
	if !r.p.offline() { // receivers who come later have no rate
		rep.Delivered = end.delivered - begin.delivered
	}
	rep.AcceptedPerS = round(float64(rep.Accepted)/rep.Seconds, 10)
	rep.DeliveredPerS = round(float64(rep.Delivered)/rep.Seconds, 10)
	rep.Latency = Latency{
		Ack: percentiles(g.ackTime.all), EndToEnd: percentiles(g.endToEnd.all),
		AckCurve: curve(g.ackTime.all), EndToEndCurve: curve(g.endToEnd.all),
	}
	rep.Generator = Generator{
		CPU: round(to.ownCPU.all()-from.ownCPU.all(), 1000), User: round(to.ownCPU.user-from.ownCPU.user, 1000),
	}
	if r.p.Scenario == Sync || r.p.Scenario == History { // which measure no sending
		rep.Offered, rep.Accepted, rep.Delivered, rep.AcceptedPerS, rep.DeliveredPerS, rep.Latency = 0, 0, 0, 0, 0,
			Latency{}
	}
	s := &rep.Server
	s.RSSBytes = r.memory
	for i := range r.nodes {
		n := Node{
			CPU:      round(to.serverCPU[i].all()-from.serverCPU[i].all(), 1000),
			Accepted: to.stats[i].Accepted - from.stats[i].Accepted,
			Commits:  to.stats[i].Commits - from.stats[i].Commits,
		}
		s.CPU += n.CPU
		s.User += to.serverCPU[i].user - from.serverCPU[i].user
		rep.Nodes = append(rep.Nodes, n)
	}
	if !r.own() {
		s.CPU, s.RSSBytes = to.stats[0].CpuS-from.stats[0].CpuS, to.stats[0].RssBytes
		r.allocated = s.RSSBytes
	}
	s.CPU, s.User = round(s.CPU, 1000), round(s.User, 1000)
	if s.CPU > 0 {
		s.AcceptedPerCPU = round(float64(rep.Accepted)/s.CPU, 10)
		s.DeliveredPerCPU = round(float64(rep.Delivered)/s.CPU, 10)
	}
	if pg := rep.Postgres; pg != nil {
		if pg.CPU = round(to.pgCPU-from.pgCPU, 1000); pg.CPU > 0 {
			rep.Total.CPU = round(s.CPU+pg.CPU, 1000)
			rep.Total.AcceptedPerCPU = round(float64(rep.Accepted)/rep.Total.CPU, 10)
			rep.Total.DeliveredPerCPU = round(float64(rep.Delivered)/rep.Total.CPU, 10)
		}
	}
	if r.p.Scenario == Connections {
		s.BytesPerConnection = round(float64(int64(r.allocated-r.memoryBefore))/float64(r.p.Connections), 10)
	}
	accepted, commits := uint64(0), uint64(0)
	for i := range to.stats {
		accepted += to.stats[i].Accepted - from.stats[i].Accepted
		commits += to.stats[i].Commits - from.stats[i].Commits
	}
	if commits > 0 {
		s.MessagesPerCommit = round(float64(accepted)/float64(commits), 100)
	}
}

// round rounds v to a multiple of 1/parts: to one digit after the point if parts is 10.
func round(v, parts float64) float64 {
	if v < 0 {
		return -round(-v, parts)
	}
	return float64(int64(v*parts+0.5)) / parts
}

const (
	sampledConvs   = 16
	sampledEntries = 2000 // of each, the newest
)

// readBack compares histories with the audit: those of some conversations, and of all that have missing or
// unanswered messages. It reads every conversation if there is an op log, or if a counted run has receivers who
// have not read all. read is the number of entries read; mine is how many of them are messages of the run.
func (r *run) readBack(ctx context.Context) (read, mine uint64, err error) {
	a := r.gen.audit
	if len(a.convs) == 0 {
		return 0, 0, nil
	}
	whole := r.gen.log != nil || r.p.counted() && r.p.traffic() != mesh
	doubtful := map[*convBook]bool{}
	for _, v := range a.convs {
		for i := range v.streams {
			if s := &v.streams[i]; s.Gone || s.Missing(v.Head) > 0 {
				doubtful[v] = true
			}
		}
	}
	for i := range a.senders {
		if s := &a.senders[i]; s.composed > s.acked+s.rejected {
			for _, t := range s.threads {
				doubtful[t.conv] = true
			}
		}
	}
	if whole {
		r.say("reading history back: all of %s conversations", count(float64(len(a.convs))))
	} else {
		r.say("reading history back: all of %d doubtful conversations, the newest of %d more", len(doubtful),
			max(0, min(sampledConvs, len(a.convs))-len(doubtful)))
	}
	order := rand.New(rand.NewPCG(r.p.Seed, 2)).Perm(len(a.convs))
	for n, i := range order {
		v := a.convs[i]
		if v.id == "" || n >= sampledConvs && !doubtful[v] && !whole {
			continue
		}
		after := uint64(0)
		if !doubtful[v] && v.Head > sampledEntries && !whole {
			after = v.Head - sampledEntries
		}
		n, own, err := r.readConv(ctx, v, after)
		read += n
		mine += own
		if err != nil {
			return read, mine, err
		}
	}
	return read, mine, nil
}

// hole books the messages that are missing in the history between two seqs: acked ones as lost, others as a gap.
func (a *audit) hole(v *convBook, after, before uint64) {
	all, acked := before-after-1, v.Acked(after+1, before-1)
	if acked > 0 {
		a.Convict(checker.Lost, acked, v.id, after+1,
			"%s: the history goes from seq %d to %d, and %d messages were acked between", v, after, before, acked)
	}
	if all > acked {
		a.Convict(checker.Gap, all-acked, v.id, after+1, "%s: the history goes from seq %d to %d", v, after, before)
	}
}

// readConv reads a conversation from after to its end. Messages that a lost connection has missed do not count as
// missing if they are there: its client would read them when it comes back. read is the number of entries read;
// mine is how many of them are messages of the run.
func (r *run) readConv(ctx context.Context, v *convBook, after uint64) (read, mine uint64, err error) {
	a, from := r.gen.audit, after
	for {
		page, err := r.ops[0].history(ctx, v.id, after)
		if err != nil {
			return read, mine, err
		}
		for _, m := range page.Messages {
			if m.Seq <= after {
				a.convict(checker.Reordered, v, m.Seq, "%s: the history goes back from seq %d to %d", v, after, m.Seq)
			} else if m.Seq > after+1 {
				a.hole(v, after, m.Seq)
			}
			after = max(after, m.Seq)
			e := entryOf(m)
			r.gen.log.row(m)
			if a.stored(&e) {
				mine++
			}
			read++
			for i := range v.streams {
				if s := &v.streams[i]; s.Gone {
					s.Read(m.Seq)
				}
			}
		}
		if page.More && len(page.Messages) > 0 {
			continue
		}
		if after < v.Head {
			a.Convict(checker.Lost, v.Head-after, v.id, after+1,
				"%s: the history ends at seq %d, seq %d was acked or seen", v, after, v.Head)
		}
		if page.More {
			return read, mine, fmt.Errorf("read history of %s after %d: an empty page says that there is more", v,
				after)
		}
		r.gen.logConv(v, from, after)
		return read, mine, nil
	}
}
