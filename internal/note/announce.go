package note

import (
	"maps"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// announceEvery is the least time from the beginning of one round of a conversation to that of its next one.
// A round sends changed notes of a conversation to its members.
const announceEvery = time.Second

const (
	roundSize      = 64   // notes of one conversation in one round
	maxUnannounced = 1024 // notes of one conversation that wait for a round; further ones are not announced
)

// A round in a group of 10,000 members takes 0.4 s. So it goes out in parts: in one piece it would delay each
// ack, in the goroutine that publishes, and in the event loops that write to thousands of sockets.
const (
	partEvery = 10 * time.Millisecond
	partSize  = 256 // members of a part
	maxParts  = 32  // parts are larger if more members wait than fit into so many
)

// announcer sends changed notes to the members who have the conversation in focus. It sends them in rounds: a
// conversation has at most one in announceEvery. All rounds go out in parts, one part in partEvery. A member
// gets each note of a round once, and a round of a conversation ends before its next one begins. So a session
// gets the versions of a note in their order.
type announcer struct {
	fan   *fanout.Fan
	timer *time.Timer // when it fires, the committer calls Announce

	// Guarded by Notes.mu.
	fresh   []*conversation // that had no round for announceEvery
	cooling []*conversation // that had a round, in the order of the beginnings of these

	// Only the goroutine that publishes a commit uses these, or the committer while no commit is under way.
	rounds []*round  // that are under way; the first one is completed first
	left   int       // how many members are still to be served in all rounds
	part   time.Time // when the last part went out
}

// round has the notes for the members of a conversation.
type round struct {
	c      *conversation
	taken  map[im.Seq]*announcement
	seqs   []im.Seq         // of taken, ascending
	shared []*petrelv1.Note // of seqs: for those who have changed none of the notes
	to     []im.User        // the members who are still to be served
}

// Due has a token when Announce is to be called.
func (a *announcer) Due() <-chan time.Time { return a.timer.C }

// announceLocked puts a note into the next round, with the reactions of the users who have changed it.
func (n *Notes) announceLocked(c *conversation, q im.Seq, note *storepb.Note, by []userWrite) {
	x := c.unannounced[q]
	if x == nil {
		if len(c.unannounced) >= maxUnannounced {
			return
		}
		if c.unannounced == nil {
			c.unannounced = map[im.Seq]*announcement{}
		}
		x = &announcement{users: map[im.User][]string{}}
		c.unannounced[q] = x
	}
	x.note = note
	for _, u := range by {
		x.users[u.of.user] = u.emojis
	}
	if !c.announcing {
		c.announcing = true
		c.Keep(1) // until it has cooled down
		n.fresh = append(n.fresh, c)
	}
}

// Announce begins the rounds that are due, sends one part of those under way if partEvery has passed since the
// last part, and sets the timer for its next call. Only the goroutine that publishes a commit may call it, or the
// committer while no commit is under way.
func (n *Notes) Announce() {
	now := time.Now()
	for _, r := range n.begin(now) {
		r.prepare()
		n.rounds = append(n.rounds, r)
		n.left += len(r.to)
	}
	if len(n.rounds) > 0 && now.Sub(n.part) >= partEvery {
		n.part = now
		n.announcePart()
		n.fan.Flush()
	}
	n.plan(now)
}

// begin takes the notes of the conversations that are due, and makes rounds of them.
func (n *Notes) begin(now time.Time) (rounds []*round) {
	n.mu.Lock()
	defer n.mu.Unlock()
	begin := func(c *conversation) {
		members, _ := c.Audience()
		rounds = append(rounds, &round{c: c, taken: c.takeUnannounced(), to: members})
		c.announced = now
	}
	for _, c := range n.fresh {
		begin(c)
	}
	clear(n.fresh)
	n.fresh = n.fresh[:0]
	for len(n.cooling) > 0 && now.Sub(n.cooling[0].announced) >= announceEvery {
		c := n.cooling[0]
		n.cooling = n.cooling[1:]
		if len(c.unannounced) > 0 {
			begin(c)
			continue
		}
		c.announcing = false
		c.Keep(-1)
		n.dropLocked(c)
	}
	return rounds
}

func (r *round) prepare() {
	r.seqs = slices.Sorted(maps.Keys(r.taken))
	for _, q := range r.seqs {
		r.shared = append(r.shared, r.c.frame(ForAll(q, r.taken[q].note)))
	}
}

// frame sets the conversation of a note.
func (c *conversation) frame(n *petrelv1.Note) *petrelv1.Note {
	n.Conv = c.key.Conv.String()
	return n
}

// takeUnannounced takes up to roundSize of the notes that wait for a round.
func (c *conversation) takeUnannounced() map[im.Seq]*announcement {
	if len(c.unannounced) <= roundSize {
		taken := c.unannounced
		c.unannounced = nil
		return taken
	}
	taken := map[im.Seq]*announcement{}
	for q, x := range c.unannounced {
		if taken[q] = x; len(taken) == roundSize {
			break
		}
	}
	maps.DeleteFunc(c.unannounced, func(q im.Seq, _ *announcement) bool { return taken[q] != nil })
	return taken
}

// announcePart sends the rounds under way to the next members: to partSize of them, or more if many wait.
func (n *Notes) announcePart() {
	var ended []*conversation
	for size := max(partSize, n.left/maxParts); size > 0 && len(n.rounds) > 0; {
		r := n.rounds[0]
		next := min(size, len(r.to))
		n.announceTo(r, r.to[:next])
		r.to = r.to[next:]
		n.left -= next
		size -= max(1, next)
		if len(r.to) == 0 {
			n.rounds[0] = nil
			n.rounds = n.rounds[1:]
			ended = append(ended, r.c)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cooling = append(n.cooling, ended...)
}

// plan sets the timer for the next part or round.
func (n *Notes) plan(now time.Time) {
	if len(n.rounds) > 0 {
		n.timer.Reset(n.part.Add(partEvery).Sub(now))
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.cooling) > 0 {
		n.timer.Reset(n.cooling[0].announced.Add(announceEvery).Sub(now))
	}
}

// announceTo sends a round to those of users who are online and still members. Users who may read all the entries
// and have changed none of the notes get the same frame, if no note has a withheld part. Spec: P-8.3.
func (n *Notes) announceTo(r *round, users []im.User) {
	c := r.c
	_, mayRead := c.Audience()
	var to []im.User
	for _, u := range users {
		if !n.fan.Table.Online(n.fan.Table.Hash(im.Account{Tenant: c.key.Tenant, User: u})) {
			continue
		}
		own := make([]*petrelv1.Note, 0, len(r.seqs))
		same := true
		for i, q := range r.seqs {
			x := r.taken[q]
			mine, changed := x.users[u]
			switch {
			case !mayRead(u, q):
				same = false
			case changed:
				own, same = append(own, c.frame(For(q, x.note, u, mine))), false
			case withholds(x.note):
				own, same = append(own, c.frame(ForAll(q, seenBy(x.note, u)))), false
			default:
				own = append(own, r.shared[i])
			}
		}
		switch {
		case same:
			to = append(to, u)
		case len(own) > 0:
			n.fan.Notes(c.key, []im.User{u}, own)
		}
	}
	n.fan.Notes(c.key, to, r.shared)
}
