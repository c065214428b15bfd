package note

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// audience is members of groups who are online, and the notes of these groups.
type audience struct {
	*Notes
	t      *testing.T
	users  []im.User
	outs   []*fanout.Outbox
	got    [][]uint64 // the versions that each one got
	groups int
}

// group is a conversation of the first members of an audience.
type group struct{ members []im.User }

func (*group) Keep(int32)                         {}
func (*group) Standing(im.User) (im.Seq, im.User) { return 1, "" }

func (g *group) Audience() ([]im.User, func(im.User, im.Seq) bool) {
	return g.members, func(u im.User, _ im.Seq) bool { return slices.Contains(g.members, u) }
}

func newAudience(t *testing.T, n int) *audience {
	fan := fanout.New(fanout.NewTable())
	a := &audience{t: t, Notes: New(&Node{Bytes: &atomic.Int64{}}, nil, fan, nil), got: make([][]uint64, n)}
	for i := range n {
		u := im.User(fmt.Sprintf("u%05d", i))
		o := fanout.NewOutbox(wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}, fanout.NewFlusher(func() {}), -1)
		o.Account, o.Notes = im.Account{Tenant: im.DefaultTenant, User: u}, true
		fan.Table.Enter(o.Account, o, -1)
		o.Welcome(&petrelv1.ServerFrame{}, &fanout.WakeUps{})
		p, _ := o.Take()
		o.Wrote(p, 0)
		a.users, a.outs = append(a.users, u), append(a.outs, o)
	}
	return a
}

// group is a conversation of all of them.
func (a *audience) group() *conversation {
	a.groups++
	key := im.Key{Tenant: im.DefaultTenant, Conv: im.ConvID{byte(a.groups), byte(a.groups >> 8)}}
	return &conversation{loaded: &group{a.users}, key: key}
}

// reduce makes the first n the members of a group.
func (a *audience) reduce(c *conversation, n int) { c.loaded.(*group).members = a.users[:n] }

func (a *audience) note(c *conversation, version uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.announceLocked(c, 1, &storepb.Note{Version: version}, nil)
}

// listen announces what is due, and returns how many got something by that.
func (a *audience) listen() (served int) {
	a.Announce()
	for i, o := range a.outs {
		p, _ := o.Take()
		for b := p.Bytes; len(b) > 0; {
			n := binary.BigEndian.Uint32(b)
			f := &petrelv1.ServerFrame{}
			if err := f.UnmarshalVT(b[4 : 4+n]); err != nil {
				a.t.Fatal(err)
			}
			for _, n := range f.GetEvents().GetNotes() {
				a.got[i] = append(a.got[i], n.Version)
				served++
			}
			b = b[4+n:]
		}
		o.Wrote(p, 0)
	}
	return served
}

// listenUntil comes as the committer does, until a number was served, and returns how many
// were served each time, and how long it took.
func (a *audience) listenUntil(want int) (parts []int, took time.Duration) {
	begun := time.Now()
	for sum := 0; sum < want; {
		<-a.Due()
		if n := a.listen(); n > 0 {
			parts = append(parts, n)
			sum += n
		}
	}
	return parts, time.Since(begun)
}

// Others wait no longer than for one part, and each member gets the versions in their
// order, each of them once. Spec: P-5.11.
func TestALargeGroupIsServedInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t, 3*partSize+partSize/2)
		c := a.group()
		a.note(c, 1)
		if n := a.listen(); n != partSize {
			t.Errorf("%d were served at once, want %d", n, partSize)
		}
		a.note(c, 2)
		if n := a.listen(); n != 0 {
			t.Errorf("%d were served in the same moment, want 0", n)
		}
		left := len(a.users) - partSize
		a.reduce(c, len(a.users)-1)
		parts, took := a.listenUntil(left - 1)
		if want := []int{partSize, partSize, partSize/2 - 1}; !slices.Equal(parts, want) || took != 3*partEvery {
			t.Errorf("then %v were served within %v, want %v within %v", parts, took, want, 3*partEvery)
		}
		time.Sleep(partEvery)
		if n := a.listen(); n != 0 {
			t.Errorf("%d got the next version at once, want 0", n)
		}
		_, took = a.listenUntil(len(a.users) - 1)
		if want := announceEvery - partEvery; took != want {
			t.Errorf("all were served again %v later, want %v", took, want)
		}
		for i, got := range a.got {
			want := []uint64{1, 2}
			if i == len(a.got)-1 {
				want = nil // was removed before it was their turn
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s got versions %v, want %v", a.users[i], got, want)
			}
		}
	})
}

// If rounds of many groups are under way, the parts are larger: nobody waits for long.
func TestManyGroupsAreServedInTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const groups = 400
		a := newAudience(t, 500)
		for _, o := range a.outs[1:] { // only one is online
			a.fan.Table.Leave(o.Account, o)
		}
		for range groups {
			a.note(a.group(), 1)
		}
		all := a.listen()
		parts, took := a.listenUntil(groups - all)
		if most := slices.Max(parts); took > 2*time.Second || all > groups/maxParts+1 || most > groups/maxParts+1 {
			t.Errorf("%d were served at once, then at most %d, all within %v, want at most %d and 2 s", all, most, took, groups/maxParts+1)
		}
	})
}
