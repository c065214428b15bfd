package user

import (
	"context"
	"regexp"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// A handle is a name by which others find a user. No handle looks like the handle or the id of another user: its forms
// stand in the table Names, beside those of ids. Only the back end, which makes users of any id, can make one whose id
// is a handle; this user gets the handle by asking for it.

var handleSyntax = regexp.MustCompile(`^[a-z0-9_.]{3,32}$`)

// checkHandle refuses a text that is no handle. Codes: invalid.
func checkHandle(handle string) error {
	if !handleSyntax.MatchString(handle) {
		return im.Errorf(im.CodeInvalid, "a handle has 3 to 32 of a-z, 0-9, _ and .")
	}
	return nil
}

// formsOf returns what the table Names has of a handle: how it looks, and how it reads.
func formsOf(handle string) []string {
	if handle == "" {
		return nil
	}
	return append(looks(im.User(handle)), guess(im.User(handle)))
}

// moveHandle gives a user another handle; "": none. With strict it refuses a handle that reads as the id or handle of
// another user. Codes: handle_taken.
func (c *change) moveHandle(ctx context.Context, a im.Account, was, handle string, strict bool) error {
	if err := c.giveHandleBack(ctx, a, was, handle); err != nil || handle == "" {
		return err
	}
	for _, form := range formsOf(handle) {
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
		case im.User(value) != a.User && (strict || form != guess(im.User(handle))):
			return handleTaken(handle)
		}
	}
	if err := c.endHandle(ctx, a, handle); err != nil {
		return err
	}
	c.Put(store.Handles, a.Tenant, []byte(handle), []byte(a.User))
	return nil
}

// giveHandleBack ends that a user has a handle, apart from the forms that a new one has too.
func (c *change) giveHandleBack(ctx context.Context, a im.Account, was, handle string) error {
	if was == "" {
		return nil
	}
	value, err := c.Record(ctx, store.Handles, a.Tenant, []byte(was))
	if err != nil {
		return err
	}
	if im.User(value) == a.User {
		c.Put(store.Handles, a.Tenant, []byte(was), nil)
	}
	for _, form := range formsOf(was) {
		if slices.Contains(formsOf(handle), form) || slices.Contains(formsOf(string(a.User)), form) {
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
	return nil
}

// endHandle takes a handle away from another user, if there is one: the back end has made a user since whose id looks
// like the handle, and this user wants it now. Codes: handle_taken, if the handle is the id of the other user.
func (c *change) endHandle(ctx context.Context, a im.Account, handle string) error {
	value, err := c.Record(ctx, store.Handles, a.Tenant, []byte(handle))
	holder := im.Account{Tenant: a.Tenant, User: im.User(value)}
	if err != nil || value == nil || holder == a {
		return err
	}
	if _, changes := c.called[holder]; changes || string(holder.User) == handle {
		return handleTaken(handle)
	}
	u, err := c.user(ctx, holder)
	if err != nil || u == nil || u.Handle != handle {
		return err
	}
	u.Handle = ""
	return c.putUser(holder, u)
}

func handleTaken(handle string) error {
	return im.Errorf(im.CodeHandleTaken, "another user has the handle %.64q, or a name that looks like it", handle)
}

// byHandle describes the user who has a handle, if the reader sees it. A handle that nobody has takes the same reads as
// one that the reader does not see. Codes: no_user. Spec: P-14.3.
func (us *Users) byHandle(ctx context.Context, reader im.Account, handle string) (Info, Profile, error) {
	none := im.Errorf(im.CodeNoUser, "there is no user with the handle %.64q", handle)
	if checkHandle(handle) != nil {
		return Info{}, Profile{}, none
	}
	value, err := us.store.Record(ctx, store.Handles, reader.Tenant, []byte(handle))
	if err != nil {
		return Info{}, Profile{}, err
	}
	a := im.Account{Tenant: reader.Tenant, User: im.User(value)}
	u, err := us.read(ctx, a)
	if err != nil {
		return Info{}, Profile{}, err
	}
	s, err := us.pairSight(ctx, reader, a.User)
	if a == reader {
		s = asOneself
	}
	switch {
	case err != nil:
		return Info{}, Profile{}, err
	case u == nil || u.Disabled || u.LeavingMs > 0 || u.Handle != handle || !s.sees(u, "handle"):
		return Info{}, Profile{}, none
	}
	return describe(a.User, u), us.profile(a, u, s), nil
}
