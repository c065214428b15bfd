package conv

import (
	"cmp"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxMembers is the most members a group may have.
const MaxMembers = 10_000

// maxStays is how many stays of one user a conversation remembers; with a
// further one the right to read the oldest ends (P-8.3).
const maxStays = 8

// Members are the members of a conversation and those who left. A Members never
// changes; apply makes a new one.
type Members struct {
	all     []member  // sorted by user
	current []im.User // the members alone, sorted
	newest  im.Seq    // the highest seq with which the stay of a member began
	bytes   int       // of memory, about
}

type member struct {
	user  im.User
	role  petrelv1.Role // 0: left
	stays []stay        // in which the user may read; in a member's last one, to is 0
}

// Bytes of memory that a member takes, about.
const (
	memberBytes = 64 // beside the name and the stays
	stayBytes   = 16
)

var noMembers = &Members{}

func (m *Members) find(u im.User) (int, bool) {
	return slices.BinarySearchFunc(m.all, u, func(x member, u im.User) int { return cmp.Compare(x.user, u) })
}

// Role returns u's role; 0: u is not a member.
func (m *Members) Role(u im.User) petrelv1.Role {
	if i, ok := m.find(u); ok {
		return m.all[i].role
	}
	return 0
}

// standing returns u's role, and whether u is or was a member. Other users must not learn that the
// conversation exists.
func (m *Members) standing(u im.User) (role petrelv1.Role, known bool) {
	i, known := m.find(u)
	if !known {
		return 0, false
	}
	return m.all[i].role, true
}

// atLeast tells whether u has this role or a higher one.
func (m *Members) atLeast(u im.User, role petrelv1.Role) bool {
	return m.Role(u) >= role
}

// memberReads tells whether u is a member and may read the entry q.
func (m *Members) memberReads(u im.User, q im.Seq) bool {
	return m.Role(u) != 0 && len(m.readable(u, q, q)) > 0
}

// reach returns the first and the last seq that u, who is or was a member, may read. There may be gaps
// between them. Spec: P-8.3.
func (m *Members) reach(u im.User, head im.Seq) (first, last im.Seq) {
	i, known := m.find(u)
	im.Assert(known && len(m.all[i].stays) > 0, "reach of %s, who never was a member", u)
	w := m.all[i].stays
	first, last = w[0].from, w[len(w)-1].to
	if last == 0 {
		last = head
	}
	return first, last
}

// stay is a range of seqs that a user may read (P-8.3), both ends included; it is empty
// when from > to. In the record of a member the last stay is still open: to is 0.
type stay struct{ from, to im.Seq }

// staysOf returns the stays of u, the oldest first; none: u never was a member.
func (m *Members) staysOf(u im.User) []stay {
	if i, ok := m.find(u); ok {
		return m.all[i].stays
	}
	return nil
}

// leftAt returns the entry that ended the newest stay of u; false: u is a member, or never was one.
func (m *Members) leftAt(u im.User) (q im.Seq, left bool) {
	if stays := m.staysOf(u); len(stays) > 0 {
		q = stays[len(stays)-1].to
	}
	return q, q != 0
}

// readable returns the parts of from..to that u may read, oldest first. Spec: P-8.3.
func (m *Members) readable(u im.User, from, to im.Seq) []stay {
	i, ok := m.find(u)
	if !ok {
		return nil
	}
	var out []stay
	for _, w := range m.all[i].stays {
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

// reads tells whether x may read the entry q.
func (x *member) reads(q im.Seq) bool {
	return slices.ContainsFunc(x.stays, func(s stay) bool { return s.from <= q && (s.to == 0 || q <= s.to) })
}

// seeEdit returns the wire part of an edit as u may see it: without its text, if u may not read its
// target. Spec: P-8.3.
func (m *Members) seeEdit(u im.User, stored []byte) ([]byte, error) {
	i, known := m.find(u)
	var e petrelv1.Message
	if err := wire.ParseMessage(stored, &e); err != nil {
		return nil, err
	}
	if known && m.all[i].reads(im.Seq(e.GetEdit().GetTarget())) {
		return stored, nil
	}
	return wire.AppendMessage(nil, bareEdit(&e)), nil
}

// bareEdit removes the content of e, an edit, but not its seq and its target. It returns e.
func bareEdit(e *petrelv1.Message) *petrelv1.Message {
	e.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: e.GetEdit().GetTarget()}}
	return e
}

// readersOf divides the members into those who may read the entry q, and the others.
func (m *Members) readersOf(q im.Seq) (readers, others []im.User) {
	if q >= m.newest {
		return m.current, nil
	}
	for i := range m.all {
		switch x := &m.all[i]; {
		case x.role == 0:
		case x.reads(q):
			readers = append(readers, x.user)
		default:
			others = append(others, x.user)
		}
	}
	return readers, others
}

// hasBeenAway tells whether entries after u first joined are outside of the stays of u.
func (m *Members) hasBeenAway(u im.User) bool {
	stays := m.staysOf(u)
	return len(stays) > 1 || len(stays) == 1 && stays[0].to != 0
}

// hideEdit removes the type, body and rel of an entry that was edited outside of the stays of u. u may not read
// the new ones, and the former ones are not stored any more. Only its place in a thread stays. hideEdit reports
// whether it changed msg. Spec: P-8.3.
func (m *Members) hideEdit(u im.User, msg *petrelv1.Message) bool {
	q := im.Seq(msg.EditedBy)
	// an edit that another one has replaced has no body
	if q == 0 || u == "" || msg.GetEdit() != nil || len(m.readable(u, q, q)) > 0 {
		return false
	}
	msg.Type, msg.Body, msg.Rel = "", nil, placeIn(msg.Rel)
	return true
}

// apply returns the members after the entry q, which makes the change ch. done is the part of ch that takes
// effect: it leaves out, for instance, added users who are members already. done is empty if nothing takes
// effect. Codes: invalid.
func (m *Members) apply(ch *petrelv1.MemberChange, q im.Seq) (n *Members, done *petrelv1.MemberChange, err error) {
	next := *m // a change of roles changes neither the list of members nor its size
	next.all = slices.Clone(m.all)
	n, done = &next, &petrelv1.MemberChange{}
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
	fresh := slices.DeleteFunc(slices.Clone(owners),
		func(u im.User) bool { return m.Role(u) == petrelv1.Role_ROLE_OWNER })
	if len(fresh) > 1 {
		return nil, nil, im.Errorf(im.CodeInvalid, "a group has at most one owner")
	}
	if len(fresh) == 1 && len(owners) > 1 {
		// The former owner stays an admin.
		var former []*petrelv1.MemberRef
		for _, u := range owners {
			if u != fresh[0] {
				former = append(former, &petrelv1.MemberRef{User: string(u), Role: petrelv1.Role_ROLE_ADMIN})
			}
		}
		done.Roles = append(done.Roles, n.setRoles(former)...)
	}
	if len(done.Added)+len(done.Removed)+len(done.Left) > 0 {
		n.list()
	}
	return n, done, nil
}

// add makes users members from the entry q on, and returns those who were none
// before. The others keep their role and their stay.
func (m *Members) add(refs []*petrelv1.MemberRef, q im.Seq) []*petrelv1.MemberRef {
	var done []*petrelv1.MemberRef
	var more []member
	seen := map[im.User]bool{} // of more
	for _, r := range refs {
		u, role := im.User(r.User), max(r.Role, petrelv1.Role_ROLE_MEMBER)
		fresh := stay{from: q}
		if i, ok := m.find(u); ok {
			x := &m.all[i]
			if x.role != 0 {
				continue
			}
			x.role, x.stays = role, append(slices.Clone(x.stays), fresh)
			if len(x.stays) > maxStays {
				x.stays = x.stays[1:]
			}
		} else if seen[u] {
			continue
		} else {
			seen[u] = true
			more = append(more, member{user: im.User(strings.Clone(r.User)), role: role, stays: []stay{fresh}})
		}
		done = append(done, &petrelv1.MemberRef{User: r.User, Role: role})
	}
	if len(more) > 0 {
		m.all = append(m.all, more...)
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

// setRoles gives roles to members, and returns those that changed. If a user is
// named several times, the last one counts. A user has a role exactly as long as the
// last stay is open, so a change of roles begins and ends no membership.
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

// end ends the open stay of x with the entry q; false: x is not a member.
func (x *member) end(q im.Seq) bool {
	if x.role == 0 {
		return false
	}
	x.role = 0
	x.stays = slices.Clone(x.stays)
	last := len(x.stays) - 1
	x.stays[last].to = q
	return true
}

// changed lists the users whose records a change of m writes; done is what apply has returned.
func (m *Members) changed(done *petrelv1.MemberChange) []im.User {
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

// list makes current and newest from all, and counts the bytes.
func (m *Members) list() {
	m.current, m.newest, m.bytes = make([]im.User, 0, len(m.all)), 0, 0
	for _, x := range m.all {
		m.bytes += memberBytes + len(x.user) + len(x.stays)*stayBytes
		if x.role != 0 {
			m.current = append(m.current, x.user)
			m.newest = max(m.newest, x.stays[len(x.stays)-1].from)
		}
	}
}

// page returns the members after a user, with the former members between them: at most limit of both. The page
// begins and ends with a member. before is the member or former member before the first one; "" if there is none.
// more tells whether further members follow.
func (m *Members) page(after im.User, limit int) (before im.User, page []member, more bool) {
	i, found := m.find(after)
	if found {
		i++
	}
	isMember := func(x member) bool { return x.role != 0 }
	i += max(0, slices.IndexFunc(m.all[i:], isMember))
	page = m.all[i:min(i+limit, len(m.all))]
	more = slices.ContainsFunc(m.all[i+len(page):], isMember)
	for len(page) > 0 && page[len(page)-1].role == 0 {
		page = page[:len(page)-1]
	}
	if i > 0 {
		before = m.all[i-1].user
	}
	return before, page, more
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
	for _, w := range x.stays {
		r.Stays = append(r.Stays, &storepb.Stay{From: uint64(w.from), To: uint64(w.to)})
	}
	return r
}

// readableUpTo returns the last seq that u may read among those up to q; 0: there is none.
func (m *Members) readableUpTo(u im.User, q im.Seq) im.Seq {
	i, ok := m.find(u)
	if !ok {
		return 0
	}
	last := im.Seq(0)
	for _, s := range m.all[i].stays {
		if s.from > q {
			break
		}
		if last = q; s.to != 0 {
			last = min(q, s.to)
		}
	}
	return last
}

// union lists the users who are members in a or in b, sorted. A change of members goes to both
// lists: removed users get the change, and nothing after it. The list must not be modified. Spec:
// P-8.3.
func union(a, b *Members) []im.User {
	x, y := a.current, b.current
	switch onlyX, onlyY := differ(x, y); {
	case !onlyX: // some were added, or only roles have changed
		return y
	case !onlyY:
		return x
	}
	all := make([]im.User, 0, max(len(x), len(y))+1)
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] == y[0]:
			all, x, y = append(all, x[0]), x[1:], y[1:]
		case x[0] < y[0]:
			all, x = append(all, x[0]), x[1:]
		default:
			all, y = append(all, y[0]), y[1:]
		}
	}
	return append(append(all, x...), y...)
}

// differ tells whether x has users that are not in y, and the other way round. Both are sorted.
func differ(x, y []im.User) (onlyX, onlyY bool) {
	if len(x) > 0 && len(x) == len(y) && &x[0] == &y[0] {
		return false, false
	}
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0] == y[0]:
			x, y = x[1:], y[1:]
		case x[0] < y[0]:
			onlyX, x = true, x[1:]
		default:
			onlyY, y = true, y[1:]
		}
	}
	return onlyX || len(x) > 0, onlyY || len(y) > 0
}
