package conv

import (
	"cmp"
	"context"
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
	windows []stay        // to is 0 in the last one of a member
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
	first, last = w[0].from, w[len(w)-1].to
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
		s := stay{max(from, w.from), to}
		if w.to != 0 {
			s.to = min(to, w.to)
		}
		if s.from <= s.to {
			out = append(out, s)
		}
	}
	return out
}

// apply makes the members after an entry q with a change. done is what of the
// change takes effect, part after part in the order of its fields; it is empty
// if nothing does. Codes: invalid.
func (m *Members) apply(ch *petrelv1.MemberChange, q im.Seq) (n *Members, done *petrelv1.MemberChange, err error) {
	n, done = &Members{all: slices.Clone(m.all)}, &petrelv1.MemberChange{}
	if ch.Dissolved {
		for i := range n.all {
			done.Dissolved = n.all[i].end(q) || done.Dissolved
		}
		n.list()
		return n, done, nil
	}
	done.Added = n.add(ch.Added, q)
	done.Removed = n.remove(ch.Removed, q)
	done.Left = n.remove(ch.Left, q)
	done.Roles = n.setRoles(ch.Roles)
	owners := n.owners()
	fresh := slices.DeleteFunc(slices.Clone(owners), func(u im.User) bool { return m.Role(u) == petrelv1.Role_ROLE_OWNER })
	if len(fresh) > 1 {
		return nil, nil, im.Errorf(im.CodeInvalid, "a group has at most one owner")
	}
	if len(fresh) == 1 && len(owners) > 1 {
		// Who was the owner stays an admin.
		var former []*petrelv1.MemberRef
		for _, u := range owners {
			if u != fresh[0] {
				former = append(former, &petrelv1.MemberRef{User: string(u), Role: petrelv1.Role_ROLE_ADMIN})
			}
		}
		done.Roles = append(done.Roles, n.setRoles(former)...)
	}
	n.list()
	return n, done, nil
}

// add returns those who were no members; the others keep role and window.
func (m *Members) add(refs []*petrelv1.MemberRef, q im.Seq) []*petrelv1.MemberRef {
	var done []*petrelv1.MemberRef
	var fresh []member
	seen := map[im.User]bool{} // of fresh
	for _, r := range refs {
		u, role := im.User(r.User), max(r.Role, petrelv1.Role_ROLE_MEMBER)
		window := stay{from: q}
		if i, ok := m.find(u); ok {
			x := &m.all[i]
			if x.role != 0 {
				continue
			}
			x.role, x.windows = role, append(slices.Clone(x.windows), window)
			if len(x.windows) > maxWindows {
				x.windows = x.windows[1:]
			}
		} else if seen[u] {
			continue
		} else {
			seen[u] = true
			fresh = append(fresh, member{user: u, role: role, windows: []stay{window}})
		}
		done = append(done, &petrelv1.MemberRef{User: r.User, Role: role})
	}
	if len(fresh) > 0 {
		m.all = append(m.all, fresh...)
		slices.SortFunc(m.all, func(a, b member) int { return cmp.Compare(a.user, b.user) })
	}
	return done
}

// remove ends the stays of users with the entry q and returns those who were
// members.
func (m *Members) remove(users []string, q im.Seq) []string {
	var done []string
	for _, u := range users {
		if i, ok := m.find(im.User(u)); ok && m.all[i].end(q) {
			done = append(done, u)
		}
	}
	return done
}

// setRoles returns the roles that changed. Of several for one user the last
// counts. A role without a window, or a window without a role, is no standing.
func (m *Members) setRoles(refs []*petrelv1.MemberRef) []*petrelv1.MemberRef {
	var done []*petrelv1.MemberRef
	seen := map[string]bool{}
	for _, r := range slices.Backward(refs) {
		i, ok := m.find(im.User(r.User))
		if seen[r.User] || !ok || m.all[i].role == 0 || r.Role == 0 || m.all[i].role == r.Role {
			seen[r.User] = true
			continue
		}
		seen[r.User] = true
		m.all[i].role = r.Role
		done = append(done, r)
	}
	slices.Reverse(done)
	return done
}

func (m *Members) owners() []im.User {
	var all []im.User
	for _, x := range m.all {
		if x.role == petrelv1.Role_ROLE_OWNER {
			all = append(all, x.user)
		}
	}
	return all
}

// end ends a stay with the entry q; false: x is no member.
func (x *member) end(q im.Seq) bool {
	if x.role == 0 {
		return false
	}
	x.role = 0
	x.windows = slices.Clone(x.windows)
	last := len(x.windows) - 1
	x.windows[last].to = q
	return true
}

// touched lists the users whose records a change of m writes; done is from apply.
func (m *Members) touched(done *petrelv1.MemberChange) []im.User {
	if done.GetDissolved() {
		return m.current
	}
	var users []im.User
	for _, refs := range [][]*petrelv1.MemberRef{done.GetAdded(), done.GetRoles()} {
		for _, r := range refs {
			users = append(users, im.User(r.User))
		}
	}
	for _, list := range [][]string{done.GetRemoved(), done.GetLeft()} {
		for _, u := range list {
			users = append(users, im.User(u))
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
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

// users lists the members and those who left.
func (m *Members) users() []im.User {
	all := make([]im.User, len(m.all))
	for i, x := range m.all {
		all[i] = x.user
	}
	return all
}

func (m *Members) record(u im.User, q im.Seq, pos im.Pos) *storepb.Member {
	i, _ := m.find(u)
	x := m.all[i]
	r := &storepb.Member{Role: uint32(x.role), Version: uint64(q), ChangedPos: uint64(pos)}
	for _, w := range x.windows {
		r.Windows = append(r.Windows, &storepb.Window{From: uint64(w.from), To: uint64(w.to)})
	}
	return r
}

// MaxMemberPage is the most members of one page.
const MaxMemberPage = 1000

// MemberPage lists the members behind a user, ascending by user; more: there
// are further ones. user asks; "" is the operator. limit is 1..MaxMemberPage,
// others are cut. Codes: no_conversation, not_member. Spec: P-8.2.
func (ow *Owner) MemberPage(ctx context.Context, key im.Key, user, after im.User, limit int) (page []*petrelv1.MemberRef, more bool, err error) {
	c, err := ow.acquire(ctx, key)
	if err != nil {
		return nil, false, err
	}
	defer ow.releaseOne(c)
	_, in := c.readable()
	if in.record == nil {
		return nil, false, &im.Error{Code: im.CodeNoConversation}
	}
	if user != "" && in.members.Role(user) == 0 {
		return nil, false, &im.Error{Code: im.CodeNotMember}
	}
	if limit <= 0 || limit > MaxMemberPage {
		limit = MaxMemberPage
	}
	i, found := in.members.find(after)
	if found {
		i++
	}
	for _, x := range in.members.all[i:] {
		switch {
		case x.role == 0:
		case len(page) == limit:
			return page, true, nil
		default:
			page = append(page, &petrelv1.MemberRef{User: string(x.user), Role: x.role})
		}
	}
	return page, false, nil
}

// Leavers lists the users whose stay ended with the entry q, in the order of
// their ids. Stays beyond those that P-8.3 keeps are not remembered. Codes:
// no_conversation.
func (ow *Owner) Leavers(ctx context.Context, key im.Key, q im.Seq) ([]im.User, error) {
	c, err := ow.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	defer ow.releaseOne(c)
	_, in := c.readable()
	if in.record == nil {
		return nil, &im.Error{Code: im.CodeNoConversation}
	}
	var all []im.User
	for _, x := range in.members.all {
		if slices.ContainsFunc(x.windows, func(w stay) bool { return w.to == q }) {
			all = append(all, x.user)
		}
	}
	return all, nil
}
