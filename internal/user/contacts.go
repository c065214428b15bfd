package user

import (
	"context"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
)

// managedContacts is the value of Managed of a tenant whose contacts only the back end changes. Spec: P-14.10.
const managedContacts = "contacts"

// MayChangeContacts refuses changes by users where only the back end changes contacts. Codes: forbidden.
func (us *Users) MayChangeContacts(ctx context.Context, t im.Tenant) error {
	rec, err := us.tenantRecord(ctx, t)
	if err == nil && slices.Contains(rec.Managed, managedContacts) {
		err = im.Errorf(im.CodeForbidden, "only the application changes contacts")
	}
	return err
}

// MustAll refuses users of whom one does not exist. Codes: no_user.
func (us *Users) MustAll(ctx context.Context, t im.Tenant, users []im.User) error {
	recs, err := us.records(ctx, t, users)
	if i := slices.Index(recs, nil); err == nil && i >= 0 {
		err = noUser(im.Account{Tenant: t, User: users[i]})
	}
	return err
}
