package user

import (
	"context"
	"regexp"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A handle is a name by which others find a user. No handle looks like the handle or the id of another user:
// its forms stand in the table Names, beside those of ids.

var handleSyntax = regexp.MustCompile(`^[a-z0-9_.]{3,32}$`)

// checkHandle refuses a text that is no handle. Codes: invalid.
func checkHandle(handle string) error {
	if !handleSyntax.MatchString(handle) {
		return im.Errorf(im.CodeInvalid, "a handle has 3 to 32 of a-z, 0-9, _ and .")
	}
	return nil
}

// moveHandle gives a user another handle; "": none. Codes: handle_taken.
func (c *change) moveHandle(ctx context.Context, a im.Account, was, handle string) error {
	if was != "" {
		c.Put(store.Handles, a.Tenant, []byte(was), nil)
	}
	forms := looks(im.User(handle))
	if handle == "" {
		forms = nil
	}
	for _, form := range looks(im.User(was)) {
		if was == "" || slices.Contains(forms, form) || slices.Contains(looks(a.User), form) {
			continue
		}
		value, err := c.Record(ctx, store.Names, a.Tenant, []byte(form))
		if err != nil {
			return err
		}
		if im.User(value) == a.User {
			c.Put(store.Names, a.Tenant, []byte(form), nil)
		}
	}
	for _, form := range forms {
		if to, given := c.given[form]; given && to != a.User {
			return handleTaken(handle)
		}
		c.given[form] = a.User
		value, err := c.Record(ctx, store.Names, a.Tenant, []byte(form))
		switch {
		case err != nil:
			return err
		case value == nil:
			c.Put(store.Names, a.Tenant, []byte(form), []byte(a.User))
		case im.User(value) != a.User:
			return handleTaken(handle)
		}
	}
	if handle != "" {
		c.Put(store.Handles, a.Tenant, []byte(handle), []byte(a.User))
	}
	return nil
}

func handleTaken(handle string) error {
	return im.Errorf(im.CodeHandleTaken, "another user has the handle %.64s, or a name that looks like it", handle)
}

// byHandle finds the user who has a handle and lets everybody see it. Codes: no_user.
func (us *Users) byHandle(ctx context.Context, t im.Tenant, handle string) (im.User, *storepb.User, error) {
	none := im.Errorf(im.CodeNoUser, "there is no user with the handle %.64s", handle)
	if checkHandle(handle) != nil {
		return "", nil, none
	}
	value, err := us.store.Record(ctx, store.Handles, t, []byte(handle))
	if err != nil {
		return "", nil, err
	}
	if value == nil {
		return "", nil, none
	}
	a := im.Account{Tenant: t, User: im.User(value)}
	u, err := us.read(ctx, a)
	switch {
	case err != nil:
		return "", nil, err
	case u == nil || u.Disabled || u.Handle != handle || !asStranger.sees(u, "handle"):
		return "", nil, none
	}
	return a.User, u, nil
}
