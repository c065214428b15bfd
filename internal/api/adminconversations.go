package api

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Bounds of texts, in bytes.
const (
	maxTitle = 256
	maxKey   = 128

	maxReason = 200
)

// AdminCreateGroup makes a group. Its first entry adds the members.
func (s *Server) AdminCreateGroup(ctx context.Context, t im.Tenant,
	r *petrelv1.AdminCreateGroupRequest) (*petrelv1.AdminCreateGroupResponse, error) {
	if err := im.CheckShown("title", r.Title, maxTitle); err != nil {
		return nil, err
	}
	if len(r.Key) > maxKey {
		return nil, im.Errorf(im.CodeInvalid, "key has at most %d bytes", maxKey)
	}
	change := &petrelv1.MemberChange{Added: r.Members}
	if err := s.checkMembers(ctx, t, change); err != nil {
		return nil, err
	}
	id, k := im.NewGroupID(), randomID()
	if r.Key != "" {
		id, k = s.convs.IDs().KeyedGroup(t, r.Key), "create"
	}
	send := &conv.Send{Conv: im.Key{Tenant: t, Conv: id}, Keyed: true, Create: record(r.Title, r.Key)}
	send.Entry.ClientMsgId = k
	send.Entry.Body = &petrelv1.Message_Members{Members: change}
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	s.settle(ctx, send.Conv)
	return &petrelv1.AdminCreateGroupResponse{Conv: id.String(), Seq: uint64(res.Seq), Created: !res.Repeat}, nil
}

// ChangeMembers adds members, removes members and changes roles, all in one entry.
func (s *Server) ChangeMembers(ctx context.Context, key im.Key,
	r *petrelv1.ChangeMembersRequest) (*petrelv1.ChangeResponse, error) {
	if r.Change == nil {
		r.Change = &petrelv1.MemberChange{}
	}
	if err := s.checkMembers(ctx, key.Tenant, r.Change); err != nil {
		return nil, err
	}
	if err := s.checkStanding(ctx, key, r.Change); err != nil {
		return nil, err
	}
	return s.change(ctx, key, "", r.RequestId, membership(r.Change))
}

// SendAs sends a message for a user.
func (s *Server) SendAs(ctx context.Context, t im.Tenant, r *petrelv1.SendAsRequest) (*petrelv1.Ack, error) {
	from := im.Account{Tenant: t, User: im.User(r.From)}
	if r.Send == nil {
		return nil, im.Errorf(im.CodeInvalid, "send is missing")
	}
	if copies(r) {
		if err := checkReason(ctx, r.Reason); err != nil {
			return nil, err
		}
	}
	named := []im.User{from.User}
	if r.Send.User != "" {
		named = append(named, im.User(r.Send.User)) // else the send would count against the sender as a guessed name
	}
	if err := s.users.LookUp(ctx, im.Account{Tenant: t}, named, false); err != nil {
		return nil, err
	}
	send, e := conv.Prepare(s.convs.IDs(), from, r.Send, s.o.BodyBytes())
	if e != nil {
		return nil, e
	}
	send.BackEnd = true
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	return res.Ack(send.Conv.Conv.String())
}

// copies reports whether a call forwards a message or shows what a report keeps, and so reads what others wrote.
func copies(req any) bool {
	switch r := req.(type) {
	case *petrelv1.SendAsRequest:
		return r.Send.GetRel().GetForwardOf() != nil
	case *petrelv1.GetReportRequest:
		return r.Context
	}
	return false
}

// checkReason checks the reason that an operator gives for reading what others wrote. Back ends, which call with
// an admin key, need none. Codes: invalid.
func checkReason(ctx context.Context, reason string) error {
	none := reason == "" && callOf(ctx).caller.key.Operator == ""
	if !none && (len(reason) > maxReason || !strings.ContainsFunc(reason, unicode.IsLetter)) {
		return im.Errorf(im.CodeInvalid,
			"reason has 1 to %d bytes and a letter: why you read what others wrote; the audit log keeps it", maxReason)
	}
	return nil
}

// AdminGetHistory reads any conversation, for the operator.
func (s *Server) AdminGetHistory(ctx context.Context, t im.Tenant,
	r *petrelv1.AdminGetHistoryRequest) (*petrelv1.HistoryPage, error) {
	if r.History == nil {
		return nil, im.Errorf(im.CodeInvalid, "history is missing")
	}
	if err := checkReason(ctx, r.Reason); err != nil {
		return nil, err
	}
	return s.route.HistoryPage(ctx, im.Account{Tenant: t}, r.History, conv.MaxPage,
		conv.Extras{Refs: true, Notes: true})
}

// AdminRenameGroup gives a group a title, for the operator.
func (s *Server) AdminRenameGroup(ctx context.Context, key im.Key,
	r *petrelv1.AdminRenameGroupRequest) (*petrelv1.ChangeResponse, error) {
	if err := im.CheckShown("title", r.Title, maxTitle); err != nil {
		return nil, err
	}
	return s.change(ctx, key, "", r.RequestId, &petrelv1.Message{Body: newTitle(r.Title)})
}

// AdminDissolveGroup ends a group, for the operator.
func (s *Server) AdminDissolveGroup(ctx context.Context, key im.Key,
	r *petrelv1.AdminDissolveGroupRequest) (*petrelv1.ChangeResponse, error) {
	return s.change(ctx, key, "", r.RequestId, membership(&petrelv1.MemberChange{Dissolved: true}))
}

// ListUserConversations lists a page of the conversations of a user, as a sync of that user does.
func (s *Server) ListUserConversations(ctx context.Context, a im.Account,
	r *petrelv1.ListUserConversationsRequest) (*petrelv1.ListUserConversationsResponse, error) {
	page, err := s.o.Inbox.Sync(ctx, a, r.Token, inbox.Wants{})
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListUserConversationsResponse{Convs: page.Convs}
	if page.More {
		res.Token = page.Token
	}
	return res, nil
}

// AdminListMembers lists the members of any conversation.
func (s *Server) AdminListMembers(ctx context.Context, key im.Key,
	r *petrelv1.AdminListMembersRequest) (*petrelv1.ListMembersResponse, error) {
	return s.memberPage(ctx, key, "", r.After, r.Limit)
}

// settleTime bounds how long a change of members waits until the members' lists show it. A list that is updated
// later reaches the sessions of its user by itself.
const settleTime = 5 * time.Second

func (s *Server) settle(ctx context.Context, key im.Key) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	_ = s.o.Settle(ctx, key) // after an error the lists are only late
}

// checkMembers checks the users and roles of a change. Codes: invalid, no_user.
func (s *Server) checkMembers(ctx context.Context, t im.Tenant, ch *petrelv1.MemberChange) error {
	if len(ch.Added)+len(ch.Removed)+len(ch.Left)+len(ch.Roles) == 0 {
		return im.Errorf(im.CodeInvalid, "the change is empty")
	}
	if len(ch.Added) > conv.MaxMembers {
		return im.Errorf(im.CodeInvalid, "a group has at most %d members", conv.MaxMembers)
	}
	users := slices.Concat(ch.Removed, ch.Left)
	for _, m := range ch.Added {
		if m.Role < petrelv1.Role_ROLE_UNSPECIFIED || m.Role > petrelv1.Role_ROLE_OWNER {
			return im.Errorf(im.CodeInvalid, "there is no role %d", m.Role)
		}
		users = append(users, m.User)
	}
	for _, m := range ch.Roles {
		if m.Role < petrelv1.Role_ROLE_MEMBER || m.Role > petrelv1.Role_ROLE_OWNER {
			return im.Errorf(im.CodeInvalid, "there is no role %d", m.Role)
		}
		users = append(users, m.User)
	}
	for _, u := range users {
		ok, err := s.users.Exists(ctx, im.Account{Tenant: t, User: im.User(u)})
		if err != nil {
			return err
		}
		if !ok {
			return im.Errorf(im.CodeNoUser, "there is no user %.64s", u)
		}
	}
	return nil
}

// checkStanding refuses a change that removes, or gives a role to, a user who never was a member. The commit
// decides whether the user is a member now, so that a repeated call gets its first answer. Codes: not_member,
// no_conversation.
func (s *Server) checkStanding(ctx context.Context, key im.Key, ch *petrelv1.MemberChange) error {
	if _, err := route.Ask(ctx, s.route, conv.Query{Conv: key}, (*conv.Owner).Record, &convpb.GetRecord{}); err != nil {
		return err
	}
	users := slices.Concat(ch.Removed, ch.Left)
	for _, m := range ch.Roles {
		users = append(users, m.User)
	}
	for _, u := range users {
		if slices.ContainsFunc(ch.Added, func(m *petrelv1.MemberRef) bool { return m.User == u }) {
			continue
		}
		err := s.wasMember(ctx, key, im.User(u))
		if err != nil && im.CodeOf(err) == im.CodeNoConversation {
			return im.Errorf(im.CodeNotMember, "%s never was a member of the conversation", u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wasMember returns an error unless a user is or was a member. Codes: no_conversation.
func (s *Server) wasMember(ctx context.Context, key im.Key, u im.User) error {
	_, err := route.Ask(ctx, s.route, conv.Query{Conv: key, User: u}, (*conv.Owner).State, &convpb.GetState{})
	return err
}

func record(title, key string) *storepb.Conversation {
	return &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: title, Key: key}
}

// FreezeConversation stops all writing into a group, or allows it again. Spec: P-8.12.
func (s *Server) FreezeConversation(ctx context.Context, key im.Key,
	r *petrelv1.FreezeConversationRequest) (*petrelv1.ChangeResponse, error) {
	recordChange(ctx, "frozen", yesNo(!r.Frozen), yesNo(r.Frozen))
	return s.change(ctx, key, "", r.RequestId,
		&petrelv1.Message{Body: &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Frozen: &r.Frozen}}})
}
