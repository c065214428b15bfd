package user

import (
	"context"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// MaxProfiles is how many users one call of Profiles describes.
const MaxProfiles = 100

// Find describes a user to another one. Exactly one of user and handle is set. A disabled user does not exist, nor
// does a handle that not everybody sees. Codes: no_user.
func (us *Users) Find(ctx context.Context, t im.Tenant, user im.User, handle string) (Info, Profile, error) {
	var u *storepb.User
	var err error
	if handle != "" {
		user, u, err = us.byHandle(ctx, t, handle)
	} else if u, err = us.must(ctx, im.Account{Tenant: t, User: user}); err == nil && u.Disabled {
		err = noUser(im.Account{User: user})
	}
	if err != nil {
		return Info{}, Profile{}, err
	}
	return describe(user, u), us.profile(im.Account{Tenant: t, User: user}, u, asStranger), nil
}

// Profiles describes users to a reader, in their order; a nil one does not exist, or is disabled.
func (us *Users) Profiles(ctx context.Context, reader im.Account, users []im.User) ([]*Profile, error) {
	recs, err := us.records(ctx, reader.Tenant, users)
	if err != nil {
		return nil, err
	}
	all := make([]*Profile, len(users))
	for i, u := range recs {
		if u == nil || u.Disabled {
			continue
		}
		a := im.Account{Tenant: reader.Tenant, User: users[i]}
		p := us.profile(a, u, sightOf(reader, a))
		all[i] = &p
	}
	return all, nil
}

// VersionsOf returns the versions of what a reader sees of users, in their order; "": there is no such user, or
// the user is disabled. Spec: P-14.5.
func (us *Users) VersionsOf(ctx context.Context, reader im.Account, users []im.User) ([]string, error) {
	recs, err := us.records(ctx, reader.Tenant, users)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(users))
	for i, u := range recs {
		if u != nil && !u.Disabled {
			a := im.Account{Tenant: reader.Tenant, User: users[i]}
			all[i] = us.profileVersion(a, u, sightOf(reader, a))
		}
	}
	return all, nil
}

func sightOf(reader, of im.Account) sight {
	if reader == of {
		return asOneself
	}
	return asStranger
}

// records reads the records of users, in their order; nil: there is no such user.
func (us *Users) records(ctx context.Context, t im.Tenant, users []im.User) ([]*storepb.User, error) {
	all := make([]*storepb.User, len(users))
	return all, readEach(len(users), func(i int) error {
		value, err := us.store.Record(ctx, store.Users, t, []byte(users[i]))
		if err == nil {
			all[i], err = transaction.Parse[storepb.User]("user", value)
		}
		return err
	})
}

// Acquaintances tells of each of some users whether a reader may ask for their profile without a look-up: they are
// in a conversation (in; the zero key: none) that the reader is in too, have a direct conversation with the reader, or
// are contacts of the reader or have asked to be. It takes three point reads for each of them at most. Spec: P-14.4.
func (us *Users) Acquaintances(ctx context.Context, reader im.Account, in im.Key, users []im.User) ([]bool, error) {
	shared := false
	if in != (im.Key{}) {
		m, err := us.store.Member(ctx, in, reader.User)
		if err != nil {
			return nil, err
		}
		shared = m.GetRole() != 0
	}
	all := make([]bool, len(users))
	return all, readEach(len(users), func(i int) error {
		u := users[i]
		if u == reader.User {
			all[i] = true
			return nil
		}
		if shared {
			m, err := us.store.Member(ctx, in, u)
			if err != nil || m.GetRole() != 0 {
				all[i] = err == nil
				return err
			}
		}
		direct := im.Key{Tenant: reader.Tenant, Conv: us.ids.Direct(reader.Tenant, reader.User, u)}
		m, err := us.store.Member(ctx, direct, reader.User)
		if all[i] = m != nil; m != nil || err != nil {
			return err
		}
		rec, err := us.store.Conversation(ctx, direct)
		for _, side := range rec.GetSides() { // a contact of the reader, or somebody whose request the reader sees
			asks := side.User == string(u) && side.AskedMs > 0 && !side.Hidden
			all[i] = all[i] || side.User == string(reader.User) && side.ContactMs > 0 || asks
		}
		return err
	})
}
