package conv

import (
	"context"
	"slices"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// State returns the state of a conversation for a user who is or was a member, up to the published
// head. Codes: no_conversation.
func (r *reader) State(ctx context.Context, by Query, _ *convpb.GetState) (*convpb.State, error) {
	c, at, in, end, err := r.enter(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	return r.standing(ctx, c, at, in, by.User)
}

// listed returns the state and the info of a conversation in the user's own list. Unlike State, it does not
// look into the store for the user's record. Codes: no_conversation.
func (r *reader) listed(ctx context.Context, key im.Key, u im.User) (*convpb.State, *info, error) {
	c, at, in, end, err := r.enterKnown(ctx, key, u)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	st, err := r.standing(ctx, c, at, in, u)
	return st, in, err
}

// standing returns the state of c for u, who is or was a member.
func (r *reader) standing(ctx context.Context, c *conv, at point, in *info, u im.User) (*convpb.State, error) {
	first, last := in.members.reach(u, at.head)
	st := &convpb.State{
		Head: uint64(min(last, at.head)), Counted: at.countedFor(in.viewer(u)), FirstSeq: uint64(in.firstSeq()),
		Joined: uint64(first), Pos: uint64(at.pos),
		Role: in.members.Role(u), Title: in.record.Title, Frozen: in.record.Frozen,
	}
	if st.Role != 0 {
		return st, nil
	}
	// A former member learns neither a later title nor how many entries followed.
	st.Title, st.Counted = "", 0
	if st.Head < st.FirstSeq {
		return st, nil
	}
	m, err := r.readMessage(ctx, c, in.viewer(u), im.Seq(st.Head))
	st.Counted = m.GetCounted()
	return st, err
}

// Record returns the kind and title of a conversation, and the users of a direct one. Codes:
// no_conversation.
func (r *reader) Record(ctx context.Context, by Query, _ *convpb.GetRecord) (*convpb.Record, error) {
	_, _, in, end, err := r.enter(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	return &convpb.Record{Kind: petrelv1.ConvKind(in.record.Kind), Title: in.record.Title,
		Users: in.record.Participants, Wrote: in.record.Wrote}, nil
}

// MaxMemberPage is the most members of one page of Members.
const MaxMemberPage = 1000

// Members lists the members after the user q.After, ascending by user. A q.Limit of 0
// or above MaxMemberPage means MaxMemberPage. Codes: no_conversation, not_member (of a former member).
// Spec: P-8.2.
func (r *reader) Members(ctx context.Context, by Query, q *convpb.ListMembers) (*convpb.Members, error) {
	_, _, in, end, err := r.enterAsMember(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	limit := int(q.Limit)
	if limit == 0 || limit > MaxMemberPage {
		limit = MaxMemberPage
	}
	i, found := in.members.find(im.User(q.After))
	if found {
		i++
	}
	page := &convpb.Members{}
	for _, x := range in.members.all[i:] {
		switch {
		case x.role == 0:
		case len(page.Members) == limit:
			page.More = true
			return page, nil
		default:
			page.Members = append(page.Members, &petrelv1.MemberRef{User: string(x.user), Role: x.role})
		}
	}
	return page, nil
}

// Leavers lists the users whose stay ended with the entry q, in the order of
// their ids. Stays beyond those that P-8.3 keeps are not remembered. Codes:
// no_conversation.
func (r *reader) Leavers(ctx context.Context, key im.Key, q im.Seq) ([]im.User, error) {
	_, _, in, end, err := r.open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer end()
	var all []im.User
	for _, x := range in.members.all {
		if slices.ContainsFunc(x.stays, func(s stay) bool { return s.to == q }) {
			all = append(all, x.user)
		}
	}
	return all, nil
}
