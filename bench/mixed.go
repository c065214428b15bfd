package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Routine is what a user who is online does in an hour. The defaults are a guess at a busy hour of an
// application of which chat is the main part: nobody has published such figures with their source.
type Routine struct {
	Direct  float64 `json:"direct_per_hour"` // messages to one other user
	Group   float64 `json:"group_per_hour"`  // messages to a group
	Members int     `json:"group_members"`   // members of a group who are online
	Logins  float64 `json:"logins_per_hour"` // times that the application comes to the front and connects again
	Opens   float64 `json:"opens_per_hour"`  // conversations that are opened, so that a page of history is read
}

func usualRoutine() *Routine {
	return &Routine{Direct: 12, Group: 3, Members: 50, Logins: 4, Opens: 20}
}

// Check reports errors of h.
func (h *Routine) Check() error {
	p := Params{Routine: h}
	for _, o := range p.Options(RoutineOptions...) {
		if err := o.check(); err != nil {
			return err
		}
	}
	if h.Direct+h.Group == 0 {
		return fmt.Errorf("users send nothing: direct or group must be above 0")
	}
	return nil
}

// follow sets Members, Peers and Rate by a routine. Every client writes to its peers and to its group in turn. So it
// chooses the number of peers by the share of direct messages in the routine.
func (p *Params) follow(h *Routine) {
	const most = 20 // peers
	p.Members = min(h.Members, p.Connections)
	share := h.Direct / (h.Direct + h.Group)
	if p.Peers = int(math.Round(share / (1 - share))); share > float64(most)/(most+1) || p.Peers > most {
		p.Peers = most
	}
	// two users share one conversation, in which only one of them sends
	p.Peers = min(max(p.Peers, 1), max(1, (p.Connections-1)/2))
	if h.Direct == 0 {
		p.Peers = 0
	}
	p.Rate = float64(p.Connections) * (h.Direct + h.Group) / 3600 * p.Speed
}

// circle returns the first connection of group i, and the number of members: the connections from first on.
func (p *Params) circle(i int) (first, members int) {
	first = i * p.Members
	return first, min(p.Members, p.Connections-first)
}

// circles returns the number of groups.
func (p *Params) circles() int {
	if p.Routine.Group == 0 {
		return 0
	}
	return (p.Connections + p.Members - 1) / p.Members
}

// pastime is the clients' activity beside sending.
type pastime struct {
	logins, opens float64 // per second, of all clients
	gone, opened  uint64  // picks of clients since the start, also of clients that were away already
}

// beside counts moves of cursors and pages of history.
type beside struct{ moved, pages uint64 }

const (
	stride   = 7919 // a prime: clients that are next to each other are not picked one after the other
	openPage = 50   // messages
)

// live ends the connections of the clients that go away in this turn, unless staying is set, and requests a page of
// history for the clients that open a conversation.
func (g *generator) live(now int64) {
	h, since := g.habits, float64(now-g.started)/1e9
	for ; float64(h.gone) < h.logins*since; h.gone++ {
		if c := g.conns[h.gone*stride%uint64(len(g.conns))]; c.fd >= 0 && !g.staying.Load() {
			g.lose(c, wentAway)
		}
	}
	for ; float64(h.opened) < h.opens*since; h.opened++ {
		c := g.conns[h.opened*stride%uint64(len(g.conns))]
		v := c.sender.peers[h.opened%uint64(len(c.sender.peers))].book
		if st := v.stream(c.index); c.fd >= 0 && v.id != "" && st.Next() > 1 {
			after := st.Next() - 1
			g.request(c, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: &petrelv1.GetHistory{
				Conv: v.id, After: after - min(after, openPage), Limit: openPage,
			}}})
		}
	}
}

// mixed runs the steps of Mixed and Soak.
func (r *run) mixed(ctx context.Context) error {
	g, s := r.gen, r.storm
	err := r.pause(ctx, r.p.WarmUp)
	back, again := s.back.Load(), s.again.Load()
	if err == nil {
		err = r.enter(ctx, measuring)
	}
	if err == nil {
		err = r.pause(ctx, r.p.Seconds)
	}
	if err != nil {
		return err
	}
	back, again = s.back.Load()-back, s.again.Load()-again
	r.living = func() { // called when the window has ended
		took := float64(g.end.at-g.begin.at) / 1e9
		task := func(name string, n uint64, times *hdrhistogram.Histogram) {
			t := newTask(name, n, took, 0, times)
			if name == taskReturn {
				t.Again = again
			}
			r.report.Tasks = append(r.report.Tasks, t)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		task(taskSend, g.end.accepted-g.begin.accepted, g.ackTime.all)
		task(taskDelivered, g.end.delivered-g.begin.delivered, g.endToEnd.all)
		task(taskReceipt, g.at1.moved-g.at0.moved, nil)
		task(taskReturn, uint64(back), s.times)
		task(taskHistory, g.at1.pages-g.at0.pages, g.series.times)
	}
	return r.everybodyIsBack(ctx)
}

// everybodyIsBack stops clients from going away, and waits until all are back. It returns an error if some are still
// away after returnLimit.
func (r *run) everybodyIsBack(ctx context.Context) error {
	r.gen.staying.Store(true)
	for end := time.Now().Add(returnLimit); r.gen.away.Load() > 0; {
		if time.Now().After(end) {
			return fmt.Errorf("%d clients are not back after %s", r.gen.away.Load(), returnLimit)
		}
		if err := r.pause(ctx, 0.01); err != nil {
			return err
		}
	}
	return nil
}

// Drift is how a long run has changed its server: from the second quarter of the measured window, when all caches
// are warm, to the last one. The figures are medians over the seconds of a quarter.
type Drift struct {
	Memory [2]float64 `json:"rss_bytes"`
	Ack    [2]float64 `json:"ack_p99_ms"`
	CPU    [2]float64 `json:"cpu"` // cores
}

const (
	driftShare  = 0.2      // share by which the memory may grow, if that is more than driftMemory
	driftMemory = 32 << 20 // bytes by which the memory may grow in any case
)

// drift returns the medians of the second and the last quarter of the measured window. Seconds in which a figure is not
// known do not count.
func drift(series []Second) *Drift {
	var window []Second
	for _, s := range series {
		if s.Phase == "measure" {
			window = append(window, s)
		}
	}
	d := &Drift{}
	for i, part := range [][]Second{window[len(window)/4 : len(window)/2], window[len(window)-len(window)/4:]} {
		pick := func(of func(*Second) float64) float64 {
			var all []float64
			for n := range part {
				if v := of(&part[n]); v > 0 {
					all = append(all, v)
				}
			}
			slices.Sort(all)
			if len(all) == 0 {
				return 0
			}
			return all[len(all)/2]
		}
		d.Memory[i] = pick(func(s *Second) float64 { return float64(s.Servers.RSSBytes) })
		d.Ack[i] = pick(func(s *Second) float64 { return s.Ack.P99 })
		d.CPU[i] = pick(func(s *Second) float64 { return s.Servers.CPU })
	}
	return d
}

// problem returns an error if the server's memory has grown too much.
func (d *Drift) problem() error {
	if grown := d.Memory[1] - d.Memory[0]; grown > max(driftMemory, driftShare*d.Memory[0]) {
		return fmt.Errorf(
			"the server's memory grew from %.0f MB in the second quarter of the run to %.0f MB in the last",
			d.Memory[0]/(1<<20), d.Memory[1]/(1<<20))
	}
	return nil
}
