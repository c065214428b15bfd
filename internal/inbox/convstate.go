package inbox

import (
	"context"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Conversation returns the state of one conversation, as in a sync, for a user who is or was a
// member. With own it has no cursors of others. Codes: no_conversation.
func (y *Syncer) Conversation(ctx context.Context, a im.Account, id im.ConvID,
	own bool) (*petrelv1.ConvState, error) {
	rec, err := route.Ask(ctx, y.Router, conv.Query{Conv: im.Key{Tenant: a.Tenant, Conv: id}, User: a.User},
		(*conv.Owner).Record, &convpb.GetRecord{})
	if err != nil {
		return nil, err
	}
	ask := &convpb.Ask{Conv: id[:], Kind: rec.Kind, Always: true, Own: own}
	if policy.OfRecord(rec.Kind).Pair {
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
	c := changes[0]
	if c.Left && policy.OfRecord(c.Kind).Members {
		c.Title, err = y.listedTitle(ctx, a, id)
	}
	return c, err
}

// listedTitle returns the title of a group in the user's list, which for a former member is the title when
// they left; "" if the group is not in the list. Spec: P-8.3.
func (y *Syncer) listedTitle(ctx context.Context, a im.Account, id im.ConvID) (title string, err error) {
	err = y.withList(ctx, a, func(l *list) error {
		title = ""
		if len(l.parts) == 0 {
			return nil
		}
		all, err := y.items(ctx, a, l, l.from(id))
		if err != nil {
			return err
		}
		if i, found := all.find(id); found {
			title = all.item(i).title
		}
		return nil
	})
	return title, err
}
