package api

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxTitle and maxKey are in bytes.
const (
	maxTitle = 256
	maxKey   = 128

	maxReason = 200
)

// CreateGroup makes a group; its first entry adds the members.
func (s adminService) CreateGroup(ctx context.Context, r *connect.Request[petrelv1.AdminCreateGroupRequest]) (*connect.Response[petrelv1.AdminCreateGroupResponse], error) {
	m := r.Msg
	t, err := s.users.Tenant(ctx, m.Tenant)
	if err != nil {
		return nil, err
	}
	if err := im.CheckShown("title", m.Title, maxTitle); err != nil {
		return nil, err
	}
	if len(m.Key) > maxKey {
		return nil, im.Errorf(im.CodeInvalid, "key has at most %d bytes", maxKey)
	}
	change := &petrelv1.MemberChange{Added: m.Members}
	if err := s.checkMembers(ctx, t, change); err != nil {
		return nil, err
	}
	id, k := im.NewGroupID(), randomID()
	if m.Key != "" {
		id, k = s.convs.IDs().KeyedGroup(t, m.Key), "create"
	}
	send := &conv.Send{Conv: im.Key{Tenant: t, Conv: id}, Keyed: true, Create: record(m.Title, m.Key)}
	send.Entry.ClientMsgId = k
	send.Entry.Body = &petrelv1.Message_Members{Members: change}
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	s.settle(ctx, send.Conv)
	return connect.NewResponse(&petrelv1.AdminCreateGroupResponse{Conv: id.String(), Seq: uint64(res.Seq), Created: !res.Repeat}), nil
}

// ChangeMembers adds, removes and changes roles, in one entry.
func (s adminService) ChangeMembers(ctx context.Context, r *connect.Request[petrelv1.ChangeMembersRequest]) (*connect.Response[petrelv1.ChangeResponse], error) {
	m := r.Msg
	key, err := s.operatorKey(ctx, m.Tenant, m.Conv)
	if err != nil {
		return nil, err
	}
	if m.Change == nil {
		m.Change = &petrelv1.MemberChange{}
	}
	if err := s.checkMembers(ctx, key.Tenant, m.Change); err != nil {
		return nil, err
	}
	if err := s.checkStanding(ctx, key, m.Change); err != nil {
		return nil, err
	}
	return s.change(ctx, key, "", m.RequestId, membership(m.Change))
}

// SendAs sends for a user.
func (s adminService) SendAs(ctx context.Context, r *connect.Request[petrelv1.SendAsRequest]) (*connect.Response[petrelv1.Ack], error) {
	t, err := s.users.Tenant(ctx, r.Msg.Tenant)
	if err != nil {
		return nil, err
	}
	from := im.Account{Tenant: t, User: im.User(r.Msg.From)}
	if r.Msg.Send == nil {
		return nil, im.Errorf(im.CodeInvalid, "send is missing")
	}
	if copies(r.Msg) {
		if err := checkReason(ctx, r.Msg.Reason); err != nil {
			return nil, err
		}
	}
	named := []im.User{from.User}
	if r.Msg.Send.User != "" {
		named = append(named, im.User(r.Msg.Send.User)) // else the sender would have tried a name
	}
	if err := s.users.LookUp(ctx, im.Account{Tenant: t}, named, false); err != nil {
		return nil, err
	}
	send, e := conv.Prepare(s.convs.IDs(), from, r.Msg.Send, s.o.BodyBytes())
	if e != nil {
		return nil, e
	}
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	return answered(res.Ack(send.Conv.Conv.String()))
}

// copies reports whether a call copies what somebody else may have written: it is a read.
func copies(req any) bool {
	r, ok := req.(*petrelv1.SendAsRequest)
	return ok && r.Send.GetRel().GetForwardOf() != nil
}

// checkReason takes the reason for which the caller reads what others wrote; a back end needs
// none. Codes: invalid.
func checkReason(ctx context.Context, reason string) error {
	none := reason == "" && callOf(ctx).caller.key.Operator == ""
	if !none && (len(reason) > maxReason || !strings.ContainsFunc(reason, unicode.IsLetter)) {
		return im.Errorf(im.CodeInvalid, "reason has 1 to %d bytes and a letter: why you read what others wrote; the audit log keeps it", maxReason)
	}
	return nil
}

// GetHistory reads any conversation, for the operator.
func (s adminService) GetHistory(ctx context.Context, r *connect.Request[petrelv1.AdminGetHistoryRequest]) (*connect.Response[petrelv1.HistoryPage], error) {
	t, err := s.users.Tenant(ctx, r.Msg.Tenant)
	if err != nil {
		return nil, err
	}
	if r.Msg.History == nil {
		return nil, im.Errorf(im.CodeInvalid, "history is missing")
	}
	if err := checkReason(ctx, r.Msg.Reason); err != nil {
		return nil, err
	}
	return answered(read(ctx, s.Server, keyReader(ctx), func() (*petrelv1.HistoryPage, error) {
		return s.route.HistoryPage(ctx, im.Account{Tenant: t}, r.Msg.History, conv.MaxPage, conv.Extras{Refs: true, Notes: true})
	}))
}

// RenameGroup gives a group a title, for the operator.
func (s adminService) RenameGroup(ctx context.Context, r *connect.Request[petrelv1.AdminRenameGroupRequest]) (*connect.Response[petrelv1.ChangeResponse], error) {
	key, err := s.operatorKey(ctx, r.Msg.Tenant, r.Msg.Conv)
	if err == nil {
		err = im.CheckShown("title", r.Msg.Title, maxTitle)
	}
	if err != nil {
		return nil, err
	}
	return s.change(ctx, key, "", r.Msg.RequestId, &petrelv1.Message{Body: profile(r.Msg.Title)})
}

// DissolveGroup ends a group, for the operator.
func (s adminService) DissolveGroup(ctx context.Context, r *connect.Request[petrelv1.AdminDissolveGroupRequest]) (*connect.Response[petrelv1.ChangeResponse], error) {
	key, err := s.operatorKey(ctx, r.Msg.Tenant, r.Msg.Conv)
	if err != nil {
		return nil, err
	}
	return s.change(ctx, key, "", r.Msg.RequestId, membership(&petrelv1.MemberChange{Dissolved: true}))
}

// ListUserConversations lists the conversations of a user, as their sync does.
func (s adminService) ListUserConversations(ctx context.Context, r *connect.Request[petrelv1.ListUserConversationsRequest]) (*connect.Response[petrelv1.ListUserConversationsResponse], error) {
	a, err := s.account(ctx, r.Msg.Tenant, r.Msg.User)
	if err != nil {
		return nil, err
	}
	page, err := read(ctx, s.Server, keyReader(ctx), func() (*petrelv1.SyncPage, error) { return s.o.Inbox.Sync(ctx, a, r.Msg.Token, inbox.Wants{}) })
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListUserConversationsResponse{Convs: page.Convs}
	if page.More {
		res.Token = page.Token
	}
	return connect.NewResponse(res), nil
}

// ListMembers lists the members of any conversation.
func (s adminService) ListMembers(ctx context.Context, r *connect.Request[petrelv1.AdminListMembersRequest]) (*connect.Response[petrelv1.ListMembersResponse], error) {
	key, err := s.operatorKey(ctx, r.Msg.Tenant, r.Msg.Conv)
	if err != nil {
		return nil, err
	}
	return s.memberPage(ctx, key, "", r.Msg.After, r.Msg.Limit)
}

// operatorKey is a conversation that the operator names. Codes: invalid,
// no_conversation.
func (s *Server) operatorKey(ctx context.Context, tenant, conv string) (im.Key, error) {
	t, err := s.users.Tenant(ctx, tenant)
	if err != nil {
		return im.Key{}, err
	}
	id, err := im.ParseConvID(conv)
	return im.Key{Tenant: t, Conv: id}, err
}

// settleTime bounds how long a change of members waits for the members' lists;
// what is later reaches their sessions by itself.
const settleTime = 5 * time.Second

func (s *Server) settle(ctx context.Context, key im.Key) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	_ = s.o.Settle(ctx, key) // only late
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

// checkStanding refuses a change that takes from somebody, or gives them a role,
// who never was a member. Whether they are one now is the conversation's to say:
// a repeated call is answered as before. Codes: not_member, no_conversation.
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

// wasMember tells whether a user is or was a member. Codes: no_conversation.
func (s *Server) wasMember(ctx context.Context, key im.Key, u im.User) error {
	_, err := route.Ask(ctx, s.route, conv.Query{Conv: key, User: u}, (*conv.Owner).State, &convpb.GetState{})
	return err
}

func record(title, key string) *storepb.Conversation {
	return &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: title, Key: key}
}
