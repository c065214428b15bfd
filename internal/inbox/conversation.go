package inbox

import (
	"context"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Conversation is what a sync says of one conversation, to a user who is or was
// a member. Codes: no_conversation, not_member.
func (y *Syncer) Conversation(ctx context.Context, a im.Account, id im.ConvID) (*petrelv1.ConvState, error) {
	kind, _, users, err := y.Convs.Peers(ctx, im.Key{Tenant: a.Tenant, Conv: id})
	if err != nil {
		return nil, err
	}
	ask := conv.Ask{Conv: id, Kind: kind, Always: true}
	if kind == petrelv1.ConvKind_CONV_KIND_DIRECT {
		ask.Peer = users[0]
		if ask.Peer == string(a.User) {
			ask.Peer = users[1]
		}
	}
	news, _, err := y.Convs.News(ctx, a, []conv.Ask{ask}, 0)
	if err == nil && news[0] == nil {
		err = &im.Error{Code: im.CodeNotMember}
	}
	if err != nil {
		return nil, err
	}
	return news[0], nil
}
