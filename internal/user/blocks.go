package user

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// ReadBlock returns the block of a user (other) by an account (by); nil: the account does not block the user.
// It reads their direct conversation, which is written last when a block begins. If that is damaged, it returns
// a block without details. Spec: P-5.4.
func ReadBlock(ctx context.Context, st store.Store, ids *im.IDs, by im.Account, other im.User) (*storepb.Block, error) {
	rec, err := st.Conversation(ctx, im.Key{Tenant: by.Tenant, Conv: ids.Direct(by.Tenant, by.User, other)})
	if errors.Is(err, store.ErrCorrupt) {
		return &storepb.Block{}, nil
	}
	for _, b := range rec.GetBlocks() {
		if b.Blocked && b.User == string(by.User) {
			return b, err
		}
	}
	return nil, err
}

// blocks tells whether an account (by) blocks a user (other). Most accounts have never blocked that user, and
// then it takes one read.
func (us *Users) blocks(ctx context.Context, by im.Account, other im.User) (bool, error) {
	v, err := us.store.Record(ctx, store.Blocks, by.Tenant, im.PairKey(by.User, other))
	if v == nil && !errors.Is(err, store.ErrCorrupt) {
		return false, err
	}
	b, err := ReadBlock(ctx, us.store, us.ids, by, other)
	return b != nil, err
}
