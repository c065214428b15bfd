package inbox

import (
	"context"

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
	it := item{id: id, conv: id.String(), kind: kind}
	if kind == petrelv1.ConvKind_CONV_KIND_DIRECT {
		it.peer = users[0]
		if it.peer == string(a.User) {
			it.peer = users[1]
		}
	}
	return y.state(ctx, a, it)
}
