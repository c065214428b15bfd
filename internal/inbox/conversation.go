package inbox

import (
	"context"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Conversation is what a sync says of one conversation, to a user who is or was
// a member. Codes: no_conversation.
func (y *Syncer) Conversation(ctx context.Context, a im.Account, id im.ConvID) (*petrelv1.ConvState, error) {
	rec, err := route.Ask(ctx, y.Router, conv.Query{Conv: im.Key{Tenant: a.Tenant, Conv: id}, User: a.User}, (*conv.Owner).Record, &convpb.GetRecord{})
	if err != nil {
		return nil, err
	}
	ask := &convpb.Ask{Conv: id[:], Kind: rec.Kind, Always: true}
	if rec.Kind == petrelv1.ConvKind_CONV_KIND_DIRECT {
		ask.Peer = rec.Users[0]
		if ask.Peer == string(a.User) {
			ask.Peer = rec.Users[1]
		}
	}
	changes, _, err := y.Router.Changes(ctx, a, []*convpb.Ask{ask}, conv.Newest{Mentions: true})
	if err == nil && changes[0] == nil {
		err = &im.Error{Code: im.CodeNoConversation}
	}
	if err != nil {
		return nil, err
	}
	return changes[0], nil
}
