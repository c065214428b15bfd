package api

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxGroupUsers bounds the users that one call names.
const maxGroupUsers = 1000

// CreateGroup makes a group that the caller owns. Spec: P-8.8.
func (s *Server) CreateGroup(ctx context.Context,
	r *petrelv1.CreateGroupRequest) (*petrelv1.CreateGroupResponse, error) {
	a, m := identity(ctx).Account, r
	if len(m.Users) > maxGroupUsers {
		return nil, tooManyUsers()
	}
	if err := im.CheckShown("title", m.Title, maxTitle); err != nil {
		return nil, err
	}
	if err := s.rates.Take(s.o.Now(), rateKey{rateGroup, a},
		rate.Per(s.o.GroupsPerHour, time.Hour, s.o.GroupsPerHour)); err != nil {
		return nil, err
	}
	if err := s.payNames(a, len(m.Users)); err != nil {
		return nil, err
	}
	id := im.NewGroupID()
	if m.RequestId != "" {
		id = s.convs.IDs().RequestedGroup(a, m.RequestId)
	}
	change := &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: string(a.User),
		Role: petrelv1.Role_ROLE_OWNER}}}
	for _, u := range m.Users {
		change.Added = append(change.Added, &petrelv1.MemberRef{User: u, Role: petrelv1.Role_ROLE_MEMBER})
	}
	// A repeat gets the first entry as its answer, even if it asks for another group. So the client message id of
	// that entry is a hash of the request, by which sameGroup notices this.
	sum := hashOf("group", m.Title, strings.Join(m.Users, "\n"))
	k := "create:" + hex.EncodeToString(sum[:16])
	send := &conv.Send{Conv: im.Key{Tenant: a.Tenant, Conv: id}, Keyed: true, Create: record(m.Title, "")}
	send.Entry.From, send.Entry.ClientMsgId = string(a.User), k
	send.Entry.Body, send.MutedMs = &petrelv1.Message_Members{Members: change}, identity(ctx).MutedMs
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	if res.Repeat {
		if err := s.sameGroup(ctx, send.Conv, k); err != nil {
			return nil, err
		}
	}
	s.settle(ctx, send.Conv)
	return &petrelv1.CreateGroupResponse{Conv: id.String(), Seq: uint64(res.Seq)}, nil
}

// sameGroup returns an error if the first entry of a group has another client message id than k: then another
// request has made the group. Codes: conflict.
func (s *Server) sameGroup(ctx context.Context, key im.Key, k string) error {
	p, err := route.Ask(ctx, s.route, conv.Query{Conv: key}, (*conv.Owner).History, &convpb.GetHistory{Limit: 1})
	if err != nil || len(p.Rows) == 0 {
		return err
	}
	var first petrelv1.Message
	if err := wire.ParseMessage(p.Rows[0], &first); err != nil {
		return err
	}
	if first.Seq == 1 && first.ClientMsgId != k { // else retention has removed the first entry
		return im.Errorf(im.CodeConflict, "this request id was used before for another group")
	}
	return nil
}

// RenameGroup gives a group a title.
func (s *Server) RenameGroup(ctx context.Context, r *petrelv1.RenameGroupRequest) (*petrelv1.ChangeResponse, error) {
	if err := im.CheckShown("title", r.Title, maxTitle); err != nil {
		return nil, err
	}
	return s.userChange(ctx, r.Conv, r.RequestId, &petrelv1.Message{Body: newTitle(r.Title)})
}

// AddMembers adds members to a group.
func (s *Server) AddMembers(ctx context.Context, r *petrelv1.AddMembersRequest) (*petrelv1.ChangeResponse, error) {
	if n := len(r.Users); n == 0 || n > maxGroupUsers {
		return nil, tooManyUsers()
	}
	var added []*petrelv1.MemberRef
	for _, u := range r.Users {
		added = append(added, &petrelv1.MemberRef{User: u, Role: petrelv1.Role_ROLE_MEMBER})
	}
	return s.userChange(ctx, r.Conv, r.RequestId, membership(&petrelv1.MemberChange{Added: added}))
}

// RemoveMembers removes members from a group.
func (s *Server) RemoveMembers(ctx context.Context,
	r *petrelv1.RemoveMembersRequest) (*petrelv1.ChangeResponse, error) {
	if n := len(r.Users); n == 0 || n > maxGroupUsers {
		return nil, tooManyUsers()
	}
	return s.userChange(ctx, r.Conv, r.RequestId, membership(&petrelv1.MemberChange{Removed: r.Users}))
}

// LeaveGroup ends the caller's membership.
func (s *Server) LeaveGroup(ctx context.Context, r *petrelv1.LeaveGroupRequest) (*petrelv1.ChangeResponse, error) {
	return s.userChange(ctx, r.Conv, r.RequestId,
		membership(&petrelv1.MemberChange{Left: []string{string(identity(ctx).Account.User)}}))
}

// SetRole makes a member an admin, or an admin a member.
func (s *Server) SetRole(ctx context.Context, r *petrelv1.SetRoleRequest) (*petrelv1.ChangeResponse, error) {
	if r.Role != petrelv1.Role_ROLE_MEMBER && r.Role != petrelv1.Role_ROLE_ADMIN {
		return nil, im.Errorf(im.CodeInvalid,
			"role is ROLE_MEMBER or ROLE_ADMIN; call TransferOwnership to change the owner")
	}
	return s.roleChange(ctx, r.Conv, r.RequestId, r.User, r.Role)
}

// TransferOwnership makes a member the owner; the owner becomes an admin.
func (s *Server) TransferOwnership(ctx context.Context,
	r *petrelv1.TransferOwnershipRequest) (*petrelv1.ChangeResponse, error) {
	return s.roleChange(ctx, r.Conv, r.RequestId, r.User, petrelv1.Role_ROLE_OWNER)
}

func (s *Server) roleChange(ctx context.Context, conv, request, u string,
	role petrelv1.Role) (*petrelv1.ChangeResponse, error) {
	return s.userChange(ctx, conv, request,
		membership(&petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{{User: u, Role: role}}}))
}

// DissolveGroup ends a group.
func (s *Server) DissolveGroup(ctx context.Context,
	r *petrelv1.DissolveGroupRequest) (*petrelv1.ChangeResponse, error) {
	return s.userChange(ctx, r.Conv, r.RequestId, membership(&petrelv1.MemberChange{Dissolved: true}))
}

// GetConversation returns one conversation as a sync does.
func (s *Server) GetConversation(ctx context.Context, a im.Account, key im.Key,
	_ *petrelv1.GetConversationRequest) (*petrelv1.ConvState, error) {
	return s.o.Inbox.Conversation(ctx, a, key.Conv, identity(ctx).PrivateReading)
}

// ListMembers lists the members of a conversation to a member. Spec: P-8.2.
func (s *Server) ListMembers(ctx context.Context, a im.Account, key im.Key,
	r *petrelv1.ListMembersRequest) (*petrelv1.ListMembersResponse, error) {
	res, err := s.memberPage(ctx, key, a.User, r.After, r.Limit)
	if err != nil || !r.Profiles {
		return res, err
	}
	users := make([]im.User, len(res.Members))
	for i, m := range res.Members {
		users[i] = im.User(m.User)
	}
	res.Profiles, err = s.users.VersionsOf(ctx, a, users)
	return res, err
}

// memberPage lists members of a conversation; user "" means the operator.
func (s *Server) memberPage(ctx context.Context, key im.Key, user im.User, after string,
	limit uint32) (*petrelv1.ListMembersResponse, error) {
	page, err := route.Ask(ctx, s.route, conv.Query{Conv: key, User: user}, (*conv.Owner).Members,
		&convpb.ListMembers{After: after, Limit: limit})
	return &petrelv1.ListMembersResponse{Members: page.GetMembers(), More: page.GetMore()}, err
}

// userChange applies a change of a conversation by the caller. It counts the users whom a change of members names.
func (s *Server) userChange(ctx context.Context, conv, request string,
	m *petrelv1.Message) (*petrelv1.ChangeResponse, error) {
	a, key, err := keyOf(ctx, conv)
	if ch := m.GetMembers(); err == nil && ch != nil {
		err = s.payNames(a, len(ch.Added)+len(ch.Removed)+len(ch.Roles)) // a user who leaves pays nothing
	}
	if err != nil {
		return nil, err
	}
	send := changeOf(key, a.User, request, m)
	if m.GetGroup() != nil || len(m.GetMembers().GetAdded()) > 0 { // others read it
		send.MutedMs = identity(ctx).MutedMs
	}
	return s.submitChange(ctx, send)
}

// payNames counts the users that account a names in a change of members: the change writes into the list of each
// of them. Without this limit, one user who adds and removes a thousand users in turns would write more than
// everybody else together. Codes: rate_limited. Spec: P-9.2.
func (s *Server) payNames(a im.Account, names int) error {
	n := s.o.MembersPerMinute
	if names == 0 {
		return nil
	}
	return s.rates.TakeAll(s.o.Now(), rate.Claim[rateKey]{
		Key: rateKey{rateMembers, a}, Limit: rate.Per(n, time.Minute, max(2*n, maxGroupUsers)), Tokens: names,
	})
}

// change adds one entry to a conversation; from "" means the operator.
func (s *Server) change(ctx context.Context, key im.Key, from im.User, request string,
	m *petrelv1.Message) (*petrelv1.ChangeResponse, error) {
	return s.submitChange(ctx, changeOf(key, from, request, m))
}

// changeOf makes the send of an entry that changes a conversation.
func changeOf(key im.Key, from im.User, request string, m *petrelv1.Message) *conv.Send {
	send := &conv.Send{Conv: key, Keyed: true}
	send.Entry.From, send.Entry.ClientMsgId, send.Entry.Body = string(from), entryID(request), m.Body
	return send
}

func (s *Server) submitChange(ctx context.Context, send *conv.Send) (*petrelv1.ChangeResponse, error) {
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	s.settle(ctx, send.Conv)
	return &petrelv1.ChangeResponse{Seq: uint64(res.Seq)}, nil
}

func membership(ch *petrelv1.MemberChange) *petrelv1.Message {
	return &petrelv1.Message{Body: &petrelv1.Message_Members{Members: ch}}
}

func newTitle(title string) *petrelv1.Message_Group {
	return &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Title: title}}
}

func tooManyUsers() error {
	return im.Errorf(im.CodeInvalid, "users has 1 to %d entries", maxGroupUsers)
}
