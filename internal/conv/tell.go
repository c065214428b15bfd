package conv

import (
	"maps"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// tellEvery is the time between the beginnings of two rounds of one conversation.
const tellEvery = time.Second

const (
	tellSize  = 64   // notes of one conversation that are told in one round
	maxUntold = 1024 // notes of one conversation that wait for that; others are not told
)

// A group of 10,000 is told in 0.4 s. If it were told at once, each ack would wait meanwhile
// for the goroutine that publishes, and for the event loops that write to thousands of sockets.
const (
	partEvery = 10 * time.Millisecond
	partSize  = 256 // members that a part asks for
	maxParts  = 32  // if more than partSize times this wait, a part is a larger one
)

// teller tells others what is new of the notes of one feed's conversations: those who have
// the conversation in focus. It tells a conversation in rounds, at most one in tellEvery, and
// all rounds in parts, one in partEvery. A member is told once in a round, and a round of a
// conversation ends before its next one begins. So a session is told the versions of a note
// in their order.
type teller struct {
	mem *memory
	fan *fanout.Fan
	due *time.Timer // the committer comes to tell

	// Guarded by memory.mu.
	fresh   []*conv // that were not told for tellEvery
	cooling []*conv // that were told, in the order in which their rounds began

	// Only the goroutine that publishes commits uses these, or the committer while there
	// is none.
	rounds []*round  // that are under way: the first one is told to its end, then the next one
	left   int       // members whom they have still to tell
	part   time.Time // when the last part was told
}

// round is what the members of a conversation are told.
type round struct {
	c      *conv
	taken  map[im.Seq]*untold
	seqs   []im.Seq         // of taken, ascending
	shared []*petrelv1.Note // of seqs: what those get who have changed none of the notes
	to     []im.User        // who are still to be told
}

func newTeller(mem *memory, fan *fanout.Fan) *teller {
	return &teller{mem: mem, fan: fan, due: time.NewTimer(tellEvery)}
}

// noteLocked notes what others are to be told: a note, and the reactions of those who have
// changed it.
func (t *teller) noteLocked(c *conv, q im.Seq, n *storepb.Note, by []userWrite) {
	all := c.notes
	x := all.untold[q]
	if x == nil {
		if len(all.untold) >= maxUntold {
			return
		}
		if all.untold == nil {
			all.untold = map[im.Seq]*untold{}
		}
		x = &untold{users: map[im.User][]string{}}
		all.untold[q] = x
	}
	x.note = n
	for _, u := range by {
		x.users[u.of.user] = u.emojis
	}
	if !all.telling {
		all.telling = true
		c.uses++ // until it has cooled down
		t.fresh = append(t.fresh, c)
	}
}

// tell begins the rounds that are due, tells one part of those that are under way, and plans
// when the committer is to come again. Only the goroutine that publishes commits may call it,
// or the committer while there is none.
func (t *teller) tell() {
	now := time.Now()
	for _, r := range t.begin(now) {
		r.prepare()
		t.rounds = append(t.rounds, r)
		t.left += len(r.to)
	}
	if len(t.rounds) > 0 && now.Sub(t.part) >= partEvery {
		t.part = now
		t.tellPart()
		t.fan.Flush()
	}
	t.plan(now)
}

// begin takes what is due for new rounds.
func (t *teller) begin(now time.Time) (rounds []*round) {
	t.mem.mu.Lock()
	defer t.mem.mu.Unlock()
	begin := func(c *conv) {
		rounds = append(rounds, &round{c: c, taken: c.notes.takeUntold(), to: c.info.Load().members.current})
		c.notes.told = now
	}
	for _, c := range t.fresh {
		begin(c)
	}
	clear(t.fresh)
	t.fresh = t.fresh[:0]
	for len(t.cooling) > 0 && now.Sub(t.cooling[0].notes.told) >= tellEvery {
		c := t.cooling[0]
		t.cooling = t.cooling[1:]
		if len(c.notes.untold) > 0 {
			begin(c)
			continue
		}
		c.notes.telling = false
		c.uses--
	}
	return rounds
}

func (r *round) prepare() {
	r.seqs = slices.Sorted(maps.Keys(r.taken))
	for _, q := range r.seqs {
		n := noteForAll(q, r.taken[q].note)
		n.Conv = r.c.id
		r.shared = append(r.shared, n)
	}
}

// takeUntold takes tellSize of the notes that others are to be told.
func (all *notes) takeUntold() map[im.Seq]*untold {
	if len(all.untold) <= tellSize {
		taken := all.untold
		all.untold = nil
		return taken
	}
	taken := map[im.Seq]*untold{}
	for q, x := range all.untold {
		if taken[q] = x; len(taken) == tellSize {
			break
		}
	}
	maps.DeleteFunc(all.untold, func(q im.Seq, _ *untold) bool { return taken[q] != nil })
	return taken
}

// tellPart tells the members who are next.
func (t *teller) tellPart() {
	var told []*conv
	for size := max(partSize, t.left/maxParts); size > 0 && len(t.rounds) > 0; {
		r := t.rounds[0]
		n := min(size, len(r.to))
		t.tellTo(r, r.to[:n])
		r.to = r.to[n:]
		t.left -= n
		size -= max(1, n)
		if len(r.to) == 0 {
			t.rounds[0] = nil
			t.rounds = t.rounds[1:]
			told = append(told, r.c)
		}
	}
	t.mem.mu.Lock()
	defer t.mem.mu.Unlock()
	t.cooling = append(t.cooling, told...)
}

// plan sets when the committer is to come again.
func (t *teller) plan(now time.Time) {
	if len(t.rounds) > 0 {
		t.due.Reset(t.part.Add(partEvery).Sub(now))
		return
	}
	t.mem.mu.Lock()
	defer t.mem.mu.Unlock()
	if len(t.cooling) > 0 {
		t.due.Reset(t.cooling[0].notes.told.Add(tellEvery).Sub(now))
	}
}

// tellTo tells users what is new, if they are members still. Those who may read all the
// entries, and have changed none of the notes, get the same frame. Spec: P-8.3.
func (t *teller) tellTo(r *round, users []im.User) {
	c, members := r.c, r.c.info.Load().members
	var to []im.User
	for _, u := range users {
		if !t.fan.Table.Online(t.fan.Table.Hash(im.Account{Tenant: c.key.Tenant, User: u})) || members.Role(u) == 0 {
			continue
		}
		own := make([]*petrelv1.Note, 0, len(r.seqs))
		same := true
		for i, q := range r.seqs {
			x := r.taken[q]
			mine, changed := x.users[u]
			switch {
			case len(members.readable(u, q, q)) == 0:
				same = false
			case changed:
				n := noteFor(q, x.note, u, mine)
				n.Conv = c.id
				own, same = append(own, n), false
			case withholds(x.note):
				n := noteForAll(q, seenBy(x.note, u))
				n.Conv = c.id
				own, same = append(own, n), false
			default:
				own = append(own, r.shared[i])
			}
		}
		switch {
		case same:
			to = append(to, u)
		case len(own) > 0:
			t.fan.Notes(c.key, []im.User{u}, own)
		}
	}
	t.fan.Notes(c.key, to, r.shared)
}
