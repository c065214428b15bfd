package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxTitle and maxKey are in bytes.
const (
	maxTitle = 256
	maxKey   = 128
)

// CreateConversation makes a group; its first entry adds the members.
func (s *Server) CreateConversation(ctx context.Context, r *connect.Request[petrelv1.CreateConversationRequest]) (*connect.Response[petrelv1.CreateConversationResponse], error) {
	m := r.Msg
	t, err := s.Users.Tenant(m.Tenant)
	if err != nil {
		return nil, err
	}
	if len(m.Title) > maxTitle || len(m.Key) > maxKey {
		return nil, im.Errorf(im.CodeInvalid, "title has at most %d bytes, key %d", maxTitle, maxKey)
	}
	change := &petrelv1.MemberChange{Added: m.Members}
	if err := s.checkMembers(ctx, t, change); err != nil {
		return nil, err
	}
	id, k := im.NewGroupID(), randomID()
	if m.Key != "" {
		id, k = im.KeyedGroupID(t, m.Key), "create"
	}
	send := &conv.Send{Conv: im.Key{Tenant: t, Conv: id}, Keyed: true, Create: record(m.Title, m.Key)}
	send.Entry.ClientMsgId = k
	send.Entry.Body = &petrelv1.Message_Members{Members: change}
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	s.settle(ctx)
	return connect.NewResponse(&petrelv1.CreateConversationResponse{Conv: id.String(), Created: !res.Repeat}), nil
}

// ChangeMembers adds, removes and changes roles, in one entry.
func (s *Server) ChangeMembers(ctx context.Context, r *connect.Request[petrelv1.ChangeMembersRequest]) (*connect.Response[petrelv1.ChangeMembersResponse], error) {
	m := r.Msg
	t, err := s.Users.Tenant(m.Tenant)
	if err != nil {
		return nil, err
	}
	id, err := im.ParseConvID(m.Conv)
	if err != nil {
		return nil, err
	}
	if m.Change == nil {
		m.Change = &petrelv1.MemberChange{}
	}
	if err := s.checkMembers(ctx, t, m.Change); err != nil {
		return nil, err
	}
	key := im.Key{Tenant: t, Conv: id}
	if err := s.checkStanding(ctx, key, m.Change); err != nil {
		return nil, err
	}
	if m.RequestId == "" {
		m.RequestId = randomID()
	}
	if len(m.RequestId) > conv.MaxClientMsgID {
		return nil, im.Errorf(im.CodeInvalid, "request_id has at most %d bytes", conv.MaxClientMsgID)
	}
	send := &conv.Send{Conv: key, Keyed: true}
	send.Entry.ClientMsgId = m.RequestId
	send.Entry.Body = &petrelv1.Message_Members{Members: m.Change}
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	s.settle(ctx)
	return connect.NewResponse(&petrelv1.ChangeMembersResponse{Seq: uint64(res.Seq)}), nil
}

// SendAs sends for a user.
func (s *Server) SendAs(ctx context.Context, r *connect.Request[petrelv1.SendAsRequest]) (*connect.Response[petrelv1.SendAsResponse], error) {
	t, err := s.Users.Tenant(r.Msg.Tenant)
	if err != nil {
		return nil, err
	}
	from := im.Account{Tenant: t, User: im.User(r.Msg.From)}
	if ok, err := s.Users.Exists(ctx, from); err != nil {
		return nil, err
	} else if !ok {
		return nil, im.Errorf(im.CodeNoUser, "there is no user %.64s", r.Msg.From)
	}
	if r.Msg.Send == nil {
		return nil, im.Errorf(im.CodeInvalid, "send is missing")
	}
	send, e := conv.Prepare(from, r.Msg.Send, s.BodyBytes())
	if e != nil {
		return nil, e
	}
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&petrelv1.SendAsResponse{Conv: send.Conv.Conv.String(), Seq: uint64(res.Seq), TimeMs: res.TimeMs}), nil
}

// ReadHistory reads any conversation, for the operator.
func (s *Server) ReadHistory(ctx context.Context, r *connect.Request[petrelv1.ReadHistoryRequest]) (*connect.Response[petrelv1.HistoryPage], error) {
	t, err := s.Users.Tenant(r.Msg.Tenant)
	if err != nil {
		return nil, err
	}
	if r.Msg.History == nil {
		return nil, im.Errorf(im.CodeInvalid, "history is missing")
	}
	page, err := s.Convs.HistoryPage(ctx, im.Account{Tenant: t}, r.Msg.History, conv.MaxPage)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(page), nil
}

// GetLimits tells the limits in force.
func (s *Server) GetLimits(context.Context, *connect.Request[petrelv1.GetLimitsRequest]) (*connect.Response[petrelv1.ServerLimits], error) {
	return connect.NewResponse(s.Limits()), nil
}

// SetLimits changes those that are not 0.
func (s *Server) SetLimits(_ context.Context, r *connect.Request[petrelv1.ServerLimits]) (*connect.Response[petrelv1.ServerLimits], error) {
	return connect.NewResponse(s.ChangeLimits(r.Msg)), nil
}

// GetStats tells what the process has done so far.
func (s *Server) GetStats(context.Context, *connect.Request[petrelv1.GetStatsRequest]) (*connect.Response[petrelv1.Stats], error) {
	return connect.NewResponse(s.Stats()), nil
}

// Compact merges the store's tables.
func (s *Server) Compact(ctx context.Context, _ *connect.Request[petrelv1.CompactRequest]) (*connect.Response[petrelv1.CompactResponse], error) {
	if err := s.CompactStore(ctx); err != nil {
		return nil, err
	}
	st := s.Stats()
	return connect.NewResponse(&petrelv1.CompactResponse{DiskBytes: st.DiskBytes, TableBytes: st.TableBytes}), nil
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
