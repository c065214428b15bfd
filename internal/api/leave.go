package api

import (
	"context"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// DeleteAccount ends the tokens and sessions of the caller, and takes their profile away. Spec: P-14.25.
func (s *Server) DeleteAccount(ctx context.Context,
	r *petrelv1.DeleteAccountRequest) (*petrelv1.DeleteAccountResponse, error) {
	id := identity(ctx)
	until, err := s.users.Leave(ctx, id, r.Password)
	if err != nil {
		return nil, err
	}
	s.o.UserChanged(id.Account)
	ctx = context.WithoutCancel(ctx) // the end of the calling session must not stop the rest
	_, err = s.o.CloseUser(ctx, id.Account, im.CodeRevoked)
	if s.withdrawAll(ctx, id.Account); err != nil {
		return nil, err
	}
	return &petrelv1.DeleteAccountResponse{RestorableUntilMs: uint64(until.UnixMilli())}, nil
}

// withdrawAll ends the requests of a user to become a contact. It only logs an error: a request that stays looks like
// one of somebody who is silent.
func (s *Server) withdrawAll(ctx context.Context, a im.Account) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	var changed []im.Key
	for after, more := im.Seq(0), true; more && err == nil; {
		var page []*petrelv1.Contact
		page, after, err = s.o.Inbox.Contacts(ctx, a, after)
		more = after > 0
		for _, c := range page {
			if c.SentMs > 0 && err == nil {
				err = inbox.ChangeContact(ctx, s.convs, a, im.User(c.User), conv.ContactWithdraw, "", false)
				changed = append(changed, im.Key{Tenant: a.Tenant, Conv: s.convs.IDs().Direct(a.Tenant, a.User,
					im.User(c.User))})
			}
		}
	}
	for _, key := range changed {
		if err == nil {
			err = s.route.AwaitInboxes(ctx, key)
		}
	}
	if err != nil {
		s.log.WarnContext(ctx, "withdraw requests of a user who leaves failed", "user", string(a.User), "req",
			callOf(ctx).id, "err", err)
	}
}

// RestoreUser gives a user who has deleted the account it back. Spec: P-14.26.
func (s *Server) RestoreUser(ctx context.Context, a im.Account,
	_ *petrelv1.RestoreUserRequest) (*petrelv1.UserInfo, error) {
	return s.changeUser(ctx, a, "", func() (user.Info, error) { return s.users.Restore(ctx, a) })
}
