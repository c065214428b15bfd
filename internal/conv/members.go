package conv

import (
	"cmp"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxMembers is the most members a group may have.
const MaxMembers = 10_000

// maxWindows is how many stays of one user a conversation remembers; with a
// further one the right to read the oldest ends (P-8.3).
const maxWindows = 8

// Members are the members of a conversation and those who left. A Members
// never changes; change makes a new one.
type Members struct {
	all     []member // sorted by user
	current []im.User
}

type member struct {
	user    im.User
	role    petrelv1.Role // 0: left
	windows []*storepb.Window
}

var noMembers = &Members{}

func (m *Members) find(u im.User) (int, bool) {
	return slices.BinarySearchFunc(m.all, u, func(x member, u im.User) int { return cmp.Compare(x.user, u) })
}

// Role is u's role; 0: not a member.
func (m *Members) Role(u im.User) petrelv1.Role {
	if i, ok := m.find(u); ok {
		return m.all[i].role
	}
	return 0
}

// reach is the first and last seq that u may read, given the head; false: u was
// never a member.
func (m *Members) reach(u im.User, head im.Seq) (first, last im.Seq, ok bool) {
	i, ok := m.find(u)
	if !ok || len(m.all[i].windows) == 0 {
		return 0, 0, false
	}
	w := m.all[i].windows
	first, last = im.Seq(w[0].From), im.Seq(w[len(w)-1].To)
	if last == 0 {
		last = head
	}
	return first, last, true
}

// stays are the parts of from..to that u may read, oldest first.
func (m *Members) stays(u im.User, from, to im.Seq) []stay {
	i, ok := m.find(u)
	if !ok {
		return nil
	}
	var out []stay
	for _, w := range m.all[i].windows {
		s := stay{max(from, im.Seq(w.From)), to}
		if w.To != 0 {
			s.to = min(to, im.Seq(w.To))
		}
		if s.from <= s.to {
			out = append(out, s)
		}
	}
	return out
}

// apply makes the members after an entry q with a change, and lists the
// records it wrote.
func (m *Members) apply(c *petrelv1.MemberChange, q im.Seq) (*Members, []im.User) {
	n := &Members{all: slices.Clone(m.all)}
	var touched []im.User
	for _, a := range c.Added {
		n.join(im.User(a.User), a.Role, q)
		touched = append(touched, im.User(a.User))
	}
	for _, list := range [][]string{c.Removed, c.Left} {
		for _, u := range list {
			if n.leave(im.User(u), q) { // who is no member has no record to write
				touched = append(touched, im.User(u))
			}
		}
	}
	for _, r := range c.Roles {
		// A role without a window, or a window without a role, is no standing.
		if i, ok := n.find(im.User(r.User)); ok && n.all[i].role != 0 && r.Role != 0 {
			n.all[i].role = r.Role
			touched = append(touched, im.User(r.User))
		}
	}
	n.list()
	return n, touched
}

func (m *Members) join(u im.User, role petrelv1.Role, q im.Seq) {
	if role == 0 {
		role = petrelv1.Role_ROLE_MEMBER
	}
	window := &storepb.Window{From: uint64(q)}
	i, ok := m.find(u)
	if !ok {
		m.all = slices.Insert(m.all, i, member{user: u, role: role, windows: []*storepb.Window{window}})
		return
	}
	x := &m.all[i]
	if x.role != 0 {
		return // is a member: adding once more changes nothing, roles neither
	}
	x.role = role
	x.windows = append(slices.Clone(x.windows), window)
	if len(x.windows) > maxWindows {
		x.windows = x.windows[1:]
	}
}

// leave ends u's stay with the entry q; false: u is no member.
func (m *Members) leave(u im.User, q im.Seq) bool {
	i, ok := m.find(u)
	if !ok || m.all[i].role == 0 {
		return false
	}
	x := &m.all[i]
	x.role = 0
	x.windows = slices.Clone(x.windows)
	last := x.windows[len(x.windows)-1]
	x.windows[len(x.windows)-1] = &storepb.Window{From: last.From, To: uint64(q)}
	return true
}

// list makes current from all.
func (m *Members) list() {
	m.current = make([]im.User, 0, len(m.all))
	for _, x := range m.all {
		if x.role != 0 {
			m.current = append(m.current, x.user)
		}
	}
}

func (m *Members) record(u im.User, q im.Seq, pos im.Pos) *storepb.Member {
	i, _ := m.find(u)
	x := m.all[i]
	return &storepb.Member{Role: uint32(x.role), Windows: x.windows, Version: uint64(q), ChangedPos: uint64(pos)}
}
