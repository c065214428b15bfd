package conv

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxTitle is the longest title of a group, in bytes.
const MaxTitle = 256

// admission decides whether the sender may write an entry. It goes by the state after all earlier entries,
// also those of the same batch.
type admission struct {
	find     func(ctx context.Context, by im.Account, users []im.User, adding bool) error // Options.LookUp
	first    func(ctx context.Context, to im.Account) (uint32, error)                     // Options.FirstMessages
	ids      *im.IDs
	now      uint64 // Unix milliseconds
	rewriter *rewriter
	inboxLag *inboxLag
}

// admit decides whether the sender, who has this role in the conversation, may write the entry of s. It returns
// the conversation's info after the entry, and cuts a change of members to the part that takes effect. A refusal
// is an *im.Error; it is settled, except overloaded and rate_limited. Other errors are errNextBatch and those of
// the store. Spec: P-4.5.
func (a *admission) admit(c *conv, s *Send, role petrelv1.Role) (*info, error) {
	in, from := c.log.info, im.User(s.Entry.From)
	if s.MutedMs > a.now && s.Entry.GetRecall() == nil {
		return nil, &im.Error{Code: im.CodeMuted, RetryAfter: time.Duration(s.MutedMs-a.now) * time.Millisecond}
	}
	// a record may be there already, with blocks and contacts
	if c.log.head == 0 && (in.record == nil || len(in.members.all) == 0) {
		if q, targeted := targetOf(&s.Entry); targeted && s.Peer != "" {
			return nil, noTarget(q)
		}
		return a.create(c, s)
	}
	if next, err := a.restore(c, s); err != nil {
		return nil, err
	} else if next != in {
		in, role = next, next.members.Role(from)
	}
	if from != "" && role == 0 {
		return nil, &im.Error{Code: im.CodeNotMember}
	}
	if p := in.policy(c.key.Conv); from != "" && role < p.Write && (!p.Leave || !leaves(s)) {
		refusal := p.Refusal
		return nil, &refusal
	}
	in, refusal := in.afterFirst(from, s, c.log.head, a.now)
	if refusal != nil {
		return nil, refusal
	}
	switch body := s.Entry.Body.(type) {
	case *petrelv1.Message_Members:
		return a.changeMembers(c, s, body.Members)
	case *petrelv1.Message_Group:
		return a.changeGroup(c, from, body.Group)
	case *petrelv1.Message_Edit, *petrelv1.Message_Recall:
		return in, a.rewriter.admit(c, s)
	case *petrelv1.Message_Inbox:
		if body.Inbox.GetSnapshot() != nil {
			return in.compact(c.log.head, body.Inbox.GetSnapshot())
		}
	default:
		return in.withWriter(from), nil
	}
	return in, nil
}

// withWriter returns i with a bit that u has sent a message, if u is a user of a direct conversation; otherwise i
// itself. By the message, u lets the other user see whether u is online, unless it is not accepted. Spec: P-13.6.
func (i *info) withWriter(u im.User) *info {
	side := sideOf(i.record, u)
	if side < 0 || i.record.Wrote&(1<<side) != 0 || i.isApart() {
		return i
	}
	record := proto.CloneOf(i.record)
	record.Wrote |= 1 << side
	return &info{record: record, members: i.members}
}

// policy returns the policy of the conversation with this id. A group that the operator has frozen has a
// policy of its own.
func (i *info) policy(id im.ConvID) *policy.Policy {
	if i.record.GetFrozen() {
		return policy.Frozen()
	}
	return policy.Of(id.Kind())
}

// leaves tells whether s lets members leave, and does nothing else. Spec: P-8.12.
func leaves(s *Send) bool {
	ch := s.Entry.GetMembers()
	return ch != nil && len(ch.Left) > 0 && len(ch.Added)+len(ch.Removed)+len(ch.Roles) == 0 && !ch.Dissolved
}

// errThread says that a send belongs to a thread that the committer does not know. A loader reads
// the thread.
var errThread = errors.New("the thread must be read first")

// compact admits a part of a snapshot of an inbox. Only the earlier parts may stand between it and the
// entries that the snapshot sums up. The last part removes those entries: they are not read any more, and the
// inbox consumer drops their rows. Codes: conflict. Spec: P-8.11.
func (i *info) compact(head im.Seq, sn *petrelv1.InboxSnapshot) (*info, error) {
	if sn.First == 0 || uint64(head)+1 != sn.First+uint64(sn.Part) {
		return nil, &im.Error{Code: im.CodeConflict}
	}
	if !sn.Last {
		return i, nil
	}
	record := proto.CloneOf(i.record)
	record.FirstSeq = sn.First
	return &info{record: record, members: i.members}, nil
}

// checkRelated decides whether the sender may refer to the entries and users that a message names. It does not
// read the store, so that the committer need not wait. in is the conversation's info after the entry. Codes:
// no_target, forbidden, damaged, internal, and those of s.Refusal; or errThread. Spec: P-5.8, P-5.10, P-5.12,
// P-5.13.
func (s *Send) checkRelated(c *conv, in *info) error {
	rel := s.Entry.Rel
	if rel == nil {
		return nil
	}
	from := im.User(s.Entry.From)
	if q := im.Seq(rel.ReplyTo); q != 0 && !in.mayRead(from, q, c.log.head) {
		return noTarget(q)
	}
	if q := im.Seq(rel.Thread); q != 0 {
		if !in.mayRead(from, q, c.point.Load().head) { // no client has an entry above the published head
			return noTarget(q)
		}
		known, err := c.log.threads.admit(from, q)
		if err != nil {
			return err
		}
		if !known {
			return errThread
		}
	}
	switch {
	case rel.MentionAll && from != "" && !in.members.atLeast(from, in.policy(c.key.Conv).MentionAll):
		return im.Errorf(im.CodeForbidden, "only admins and the owner of a group may mention everybody")
	case rel.ForwardOf == nil:
		return nil
	case s.Refusal != nil:
		return s.Refusal
	case s.Source == nil:
		return im.Errorf(im.CodeInternal, "nobody has fetched the message to forward")
	}
	return nil
}

// changeMembers admits a change of members by the roles before the change, and cuts the entry to the part
// that takes effect. Spec: P-8.8.
func (a *admission) changeMembers(c *conv, s *Send, ch *petrelv1.MemberChange) (*info, error) {
	in, from := c.log.info, im.User(s.Entry.From)
	p := in.policy(c.key.Conv)
	if !p.Members {
		return nil, im.Errorf(im.CodeForbidden, "the members of this conversation cannot change")
	}
	if err := checkChange(ch); err != nil {
		return nil, err
	}
	if from != "" {
		if err := in.members.allow(from, ch, p); err != nil {
			return nil, err
		}
	}
	if err := a.inboxLag.check(p); err != nil {
		return nil, err
	}
	members, done, err := in.members.apply(ch, c.log.head+1)
	switch {
	case err != nil:
		return nil, err
	case done.SizeVT() == 0:
		return nil, im.Errorf(im.CodeInvalid, "the change changes nothing")
	case in.record.Dissolved: // a change by the operator: the group has no members
		return nil, im.Errorf(im.CodeForbidden, "the group is dissolved")
	case len(members.current) > MaxMembers:
		return nil, im.Errorf(im.CodeInvalid, "a group has at most %d members", MaxMembers)
	case from != "" && len(members.current) > 0 && len(in.members.owners()) > 0 && len(members.owners()) == 0:
		return nil, im.Errorf(im.CodeInvalid, "the new owner is not a member")
	}
	if from != "" {
		if err := a.checkAdded(c, from, done); err != nil {
			return nil, err
		}
	}
	s.cut(done)
	record := in.record
	if done.Dissolved {
		record = proto.CloneOf(record)
		record.Dissolved = true
	}
	return &info{record: record, members: members}, nil
}

// checkChange checks a change as far as it does not depend on the conversation. Codes: invalid.
func checkChange(ch *petrelv1.MemberChange) error {
	if ch == nil {
		return im.Errorf(im.CodeInvalid, "the change is empty")
	}
	if ch.Dissolved && len(ch.Added)+len(ch.Removed)+len(ch.Left)+len(ch.Roles) > 0 {
		return im.Errorf(im.CodeInvalid, "a change that dissolves a group cannot change anything else")
	}
	for _, r := range ch.Added {
		if r.Role < 0 || r.Role > petrelv1.Role_ROLE_OWNER {
			return im.Errorf(im.CodeInvalid, "there is no role %d", r.Role)
		}
	}
	for _, r := range ch.Roles {
		if r.Role < petrelv1.Role_ROLE_MEMBER || r.Role > petrelv1.Role_ROLE_OWNER {
			return im.Errorf(im.CodeInvalid, "there is no role %d", r.Role)
		}
	}
	return nil
}

// allow decides whether a member may make a change. Codes: forbidden. Spec: P-8.8.
func (m *Members) allow(from im.User, ch *petrelv1.MemberChange, p *policy.Policy) error {
	owner := m.atLeast(from, p.GiveRoles)
	if ch.Dissolved && !owner {
		return im.Errorf(im.CodeForbidden, "only the owner may dissolve a group")
	}
	if len(ch.Added)+len(ch.Removed) > 0 && !m.atLeast(from, p.Add) {
		return im.Errorf(im.CodeForbidden, "only admins and the owner may add and remove members")
	}
	for _, r := range ch.Added {
		if r.Role == petrelv1.Role_ROLE_OWNER || r.Role == petrelv1.Role_ROLE_ADMIN && !owner {
			return im.Errorf(im.CodeForbidden, "a new member cannot get this role from you")
		}
	}
	for _, u := range ch.Removed {
		if role := m.Role(im.User(u)); im.User(u) == from || role > petrelv1.Role_ROLE_MEMBER && !owner {
			return im.Errorf(im.CodeForbidden, "an admin may remove members only; the owner may remove everybody else")
		}
	}
	if err := m.allowLeave(from, ch.Left); err != nil {
		return err
	}
	if len(ch.Roles) > 0 && !owner {
		return im.Errorf(im.CodeForbidden, "only the owner may give roles")
	}
	handsOver := slices.ContainsFunc(ch.Roles, func(r *petrelv1.MemberRef) bool {
		return r.Role == petrelv1.Role_ROLE_OWNER && im.User(r.User) != from
	})
	for _, r := range ch.Roles {
		if im.User(r.User) == from && !handsOver {
			return im.Errorf(im.CodeForbidden, "the owner has to name another owner first")
		}
	}
	return nil
}

func (m *Members) allowLeave(from im.User, left []string) error {
	for _, u := range left {
		if im.User(u) != from {
			return im.Errorf(im.CodeForbidden, "a user can only leave for themselves")
		}
		if m.Role(from) == petrelv1.Role_ROLE_OWNER && len(m.current) > 1 {
			return im.Errorf(im.CodeForbidden, "the owner has to hand the group over before they leave")
		}
	}
	return nil
}

// changeGroup admits a new title, or a freeze or thaw by the operator. The conversation's
// record keeps it.
func (a *admission) changeGroup(c *conv, from im.User, p *petrelv1.GroupChange) (*info, error) {
	in := c.log.info
	may := in.policy(c.key.Conv)
	if p.GetFrozen() != in.record.Frozen && p.Frozen != nil && from == "" && may.Members && !in.record.Dissolved {
		record := proto.CloneOf(in.record)
		record.Frozen, p.Title = p.GetFrozen(), record.Title
		return &info{record: record, members: in.members}, nil
	}
	switch {
	case !may.Members:
		return nil, im.Errorf(im.CodeForbidden, "only groups have titles")
	case p.Frozen != nil && from != "":
		return nil, im.Errorf(im.CodeForbidden, "only the operator freezes a group")
	case p.Frozen != nil:
		return nil, im.Errorf(im.CodeInvalid, "the change changes nothing")
	case from != "" && !in.members.atLeast(from, may.Rename):
		return nil, im.Errorf(im.CodeForbidden, "only admins and the owner may rename a group")
	case in.record.Dissolved:
		return nil, im.Errorf(im.CodeForbidden, "the group is dissolved")
	case len(p.GetTitle()) > MaxTitle:
		return nil, im.Errorf(im.CodeInvalid, "a title has at most %d bytes", MaxTitle)
	case p.GetTitle() == in.record.Title:
		return nil, im.Errorf(im.CodeInvalid, "the change changes nothing")
	}
	record := proto.CloneOf(in.record)
	retitle(record, strings.Clone(p.GetTitle()), c.log.head+1)
	return &info{record: record, members: in.members}, nil
}

// create admits the first entry of a conversation that does not exist yet.
func (a *admission) create(c *conv, s *Send) (*info, error) {
	from, p := im.User(s.Entry.From), policy.Of(c.key.Conv.Kind())
	if err := a.inboxLag.check(p); err != nil {
		return nil, err
	}
	in := &info{}
	var err error
	switch {
	case p.Pair && from != "" && s.Peer != "":
		im.Assert(a.ids.Direct(c.key.Tenant, from, s.Peer) == c.key.Conv, "direct conversation of other users")
		if err := a.lookUp(c, from, []im.User{s.Peer}, false); err != nil {
			return nil, err
		}
		in = direct(from, s.Peer)
		was := c.log.info.record
		in.record.Blocks, in.record.Sides = was.GetBlocks(), was.GetSides()
		in.record.ContactVersion = was.GetContactVersion()
		if in, err = a.firstMessage(c, s, in); err != nil {
			return nil, err
		}
		in = in.withWriter(from)
	case p.List && from == "" && s.Peer != "":
		in = inbox(s.Peer)
	case s.Create != nil:
		if in, err = a.createGroup(c, s); err != nil {
			return nil, err
		}
	default:
		return nil, noConversation()
	}
	in.record.CreatedMs = a.now
	return in, nil
}

// firstMessage returns the info of a new direct conversation after the first message. What the back end sends is no
// message of a stranger.
func (a *admission) firstMessage(c *conv, s *Send, in *info) (*info, error) {
	if a.first == nil || s.BackEnd || s.Peer == im.User(s.Entry.From) {
		return in, nil
	}
	first, err := a.first(context.Background(), im.Account{Tenant: c.key.Tenant, User: s.Peer})
	if err != nil {
		return nil, err
	}
	return in.withFirst(s.Peer, first, a.now), nil
}

// direct returns the info of a new direct conversation of two users, who may be the same. It copies the
// names, so that the info, which stays in memory, does not keep the whole frame there.
func direct(a, b im.User) *info {
	low, high := strings.Clone(string(min(a, b))), strings.Clone(string(max(a, b)))
	return &info{
		record: &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_DIRECT),
			Participants: []string{low, high}},
		members: first(&petrelv1.MemberRef{User: low}, &petrelv1.MemberRef{User: high}),
	}
}

// inbox returns the info of a new inbox of u.
func inbox(u im.User) *info {
	name := strings.Clone(string(u))
	return &info{
		record:  &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_INBOX), Participants: []string{name}},
		members: first(&petrelv1.MemberRef{User: name, Role: petrelv1.Role_ROLE_OWNER}),
	}
}

// restore returns the conversation's info. If damage has taken the record or the members of a direct
// conversation or an inbox, it makes them again. The id of such a conversation is derived from its users, so
// it proves who they are; and they are members for ever. Codes: no_conversation, overloaded.
func (a *admission) restore(c *conv, s *Send) (*info, error) {
	in := c.log.info
	whole := a.users(c, s)
	switch {
	case whole != nil:
	case in.record == nil:
		return nil, noConversation()
	default:
		return in, nil
	}
	if err := a.inboxLag.check(policy.Of(c.key.Conv.Kind())); err != nil {
		return nil, err
	}
	whole.record.CreatedMs = a.now
	if in.record != nil {
		was := in.record
		whole.record.CreatedMs, whole.record.FirstSeq, whole.record.Blocks = was.CreatedMs, was.FirstSeq, was.Blocks
		whole.record.Sides, whole.record.ContactVersion = was.Sides, was.ContactVersion
		whole.record.Mentioned, whole.record.MentionAll, whole.record.Wrote = was.Mentioned, was.MentionAll, was.Wrote
	} else {
		whole.record.Mentioned = uint64(c.log.head) // the record is lost: any entry may have a mention
	}
	return whole, nil
}

// users returns the info that a direct conversation or an inbox must have; nil if its record and its members are
// there, or if its users are unknown. It hashes users to an id only if the record or a member is missing.
func (a *admission) users(c *conv, s *Send) *info {
	in, from := c.log.info, im.User(s.Entry.From)
	n := len(in.members.all)
	switch p := policy.Of(c.key.Conv.Kind()); {
	case p.List:
		if (in.record == nil || n == 0) && s.Peer != "" && a.ids.Inbox(c.key.Tenant, s.Peer) == c.key.Conv {
			return inbox(s.Peer)
		}
	case p.Pair:
		one, other := from, s.Peer
		if other == "" && in.record != nil && len(in.record.Participants) == 2 {
			one, other = im.User(in.record.Participants[0]), im.User(in.record.Participants[1])
		}
		if in.record != nil && (n == 2 || n == 1 && one == other) { // one member: the user writes to themselves
			return nil
		}
		if one != "" && other != "" && a.ids.Direct(c.key.Tenant, one, other) == c.key.Conv {
			return direct(one, other)
		}
	}
	return nil
}

// first returns the members of a new conversation: they may read from seq 1.
func first(refs ...*petrelv1.MemberRef) *Members {
	m := &Members{}
	m.add(refs, 1)
	m.list()
	return m
}

// createGroup admits the first entry of a group. A user who makes a group must be its owner.
func (a *admission) createGroup(c *conv, s *Send) (*info, error) {
	from, ch := im.User(s.Entry.From), s.Entry.GetMembers()
	if err := checkChange(ch); err != nil {
		return nil, err
	}
	members, done, err := noMembers.apply(ch, 1)
	switch {
	case err != nil:
		return nil, err
	case len(members.current) == 0:
		return nil, im.Errorf(im.CodeInvalid, "a new group needs at least one member")
	case len(members.current) > MaxMembers:
		return nil, im.Errorf(im.CodeInvalid, "a group has at most %d members", MaxMembers)
	case len(s.Create.Title) > MaxTitle:
		return nil, im.Errorf(im.CodeInvalid, "a title has at most %d bytes", MaxTitle)
	case from != "" && members.Role(from) != petrelv1.Role_ROLE_OWNER:
		return nil, im.Errorf(im.CodeForbidden, "the user who makes a group is its owner")
	}
	if from != "" {
		if err := a.checkAdded(c, from, done); err != nil {
			return nil, err
		}
	}
	s.cut(done)
	return &info{record: s.Create, members: members}, nil
}

// checkAdded refuses to add users who do not exist, or who do not let others add them to groups. Changes by
// the operator are not checked here, but before they are queued. Codes: no_user, forbidden, rate_limited.
func (a *admission) checkAdded(c *conv, from im.User, done *petrelv1.MemberChange) error {
	var asked []im.User
	for _, r := range done.Added {
		if im.User(r.User) != from {
			asked = append(asked, im.User(r.User))
		}
	}
	if len(asked) == 0 {
		return nil
	}
	return a.lookUp(c, from, asked, true)
}

// lookUp calls Options.LookUp on behalf of the sender.
func (a *admission) lookUp(c *conv, from im.User, users []im.User, adding bool) error {
	if a.find == nil {
		return nil
	}
	return a.find(context.Background(), im.Account{Tenant: c.key.Tenant, User: from}, users, adding)
}
