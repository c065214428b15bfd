package api

import (
	"context"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	maxConvPage  = 200
	convPage     = 50
	describeWait = time.Second // for the owners of a page of conversations
	maxPerMinute = 1000        // the most entries that are counted for a rate
)

// ListConversations lists a page of groups by title. If the owner of a group does not answer within describeWait,
// or with an error, the fields that only the owner knows are left out.
func (s *Server) ListConversations(ctx context.Context, t im.Tenant,
	r *petrelv1.ListConversationsRequest) (*petrelv1.ListConversationsResponse, error) {
	limit := int(min(r.Limit, maxConvPage))
	if limit == 0 {
		limit = convPage
	}
	list, next, err := inbox.Titles(ctx, s.o.Store, t, r.TitlePrefix, r.Token, r.Descending, limit)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListConversationsResponse{Conversations: make([]*petrelv1.ConversationInfo, len(list)),
		Token: next}
	within, cancel := context.WithTimeout(ctx, describeWait)
	defer cancel()
	var wg sync.WaitGroup
	slots := make(chan struct{}, traceAtOnce)
	for i, x := range list {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			info, err := s.describe(within, im.Key{Tenant: t, Conv: x.Conv}, 0)
			if err != nil {
				p, owner := s.o.Console.Owner(x.Conv)
				info = &petrelv1.ConversationInfo{Conv: x.Conv.String(), Kind: petrelv1.ConvKind_CONV_KIND_GROUP,
					Title: x.Title, Partition: uint32(p), Owner: string(owner),
					Unknown: string(s.asCode(ctx, "describe", err).Code)}
			}
			res.Conversations[i] = info
		})
	}
	wg.Wait()
	return res, nil
}

// describe asks the owner of a conversation for its state. rate is how many entries are counted at most for
// PerMinute; 0: PerMinute is left out.
func (s *Server) describe(ctx context.Context, key im.Key, rate uint32) (*petrelv1.ConversationInfo, error) {
	d, err := route.Ask(ctx, s.route, conv.Query{Conv: key}, (*conv.Owner).Describe, &convpb.Describe{Rate: rate})
	if err != nil {
		return nil, err
	}
	p, owner := s.o.Console.Owner(key.Conv)
	info := &petrelv1.ConversationInfo{
		Conv: key.Conv.String(), Kind: d.Kind, Title: d.Title, Key: d.Key, Users: d.Users, CreatedMs: d.CreatedMs,
		Head: d.Head, FirstSeq: d.FirstSeq, Members: d.Members,
		Dissolved: d.Dissolved, Frozen: d.Frozen, LastMs: d.LastMs, Partition: uint32(p), Owner: string(owner),
	}
	if rate > 0 {
		info.PerMinute = d.PerMinute
	}
	return info, nil
}

// AdminGetConversation describes any conversation, for the operator.
func (s *Server) AdminGetConversation(ctx context.Context, key im.Key,
	_ *petrelv1.AdminGetConversationRequest) (*petrelv1.ConversationInfo, error) {
	return s.describe(ctx, key, maxPerMinute)
}
