package user

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// MaxProfiles is how many users one call of Profiles describes.
const MaxProfiles = 100

// Find describes a user to a reader. Exactly one of user and handle is set. A disabled user does not exist, nor does a
// handle that the reader does not see. Codes: no_user.
func (us *Users) Find(ctx context.Context, reader im.Account, user im.User, handle string) (Info, Profile, error) {
	if handle != "" {
		return us.byHandle(ctx, reader, handle)
	}
	a := im.Account{Tenant: reader.Tenant, User: user}
	u, err := us.must(ctx, a)
	if err == nil && u.Disabled {
		err = noUser(a)
	}
	if err != nil {
		return Info{}, Profile{}, err
	}
	s, err := us.sightOf(ctx, reader, a, u)
	return describe(user, u), us.profile(a, u, s), err
}

// Profiles describes users to a reader who has has, versions of their profiles. It leaves out the profiles whose
// versions are equal. Users who do not exist, or are disabled, are unknown.
func (us *Users) Profiles(ctx context.Context, reader im.Account,
	has map[im.User]string, users []im.User) (differ []Profile, unknown []im.User, err error) {
	err = us.eachSeen(ctx, reader, users, func(i int, u *storepb.User, s sight) {
		a := im.Account{Tenant: reader.Tenant, User: users[i]}
		if u == nil {
			unknown = append(unknown, a.User)
		} else if v := us.profileVersion(a, u, s); v != has[a.User] {
			p := seenProfile(a, u, s)
			p.Version = v
			differ = append(differ, p)
		}
	})
	return differ, unknown, err
}

// VersionsOf returns the versions of what a reader sees of users, in their order; "": there is no such user, or
// the user is disabled. Spec: P-14.5.
func (us *Users) VersionsOf(ctx context.Context, reader im.Account, users []im.User) ([]string, error) {
	all := make([]string, len(users))
	return all, us.eachSeen(ctx, reader, users, func(i int, u *storepb.User, s sight) {
		if u != nil {
			all[i] = us.profileVersion(im.Account{Tenant: reader.Tenant, User: users[i]}, u, s)
		}
	})
}

// eachSeen calls f for each of some users, in their order, with the record, and how much of the profile a reader sees.
// Of a user who does not exist, or is disabled, the record is nil. It reads one record more of each user who shows
// something to contacts alone.
func (us *Users) eachSeen(ctx context.Context, reader im.Account, users []im.User,
	f func(i int, u *storepb.User, s sight)) error {
	recs, err := us.records(ctx, reader.Tenant, users)
	if err != nil {
		return err
	}
	sights := make([]sight, len(users))
	var asks []int // those whose sight the record of a pair decides
	for i, u := range recs {
		switch a := (im.Account{Tenant: reader.Tenant, User: users[i]}); {
		case u.GetDisabled():
			recs[i] = nil
		case a == reader:
			sights[i] = asOneself
		case showsToContacts(u):
			asks = append(asks, i)
		}
	}
	if err := readEach(len(asks), func(n int) (err error) {
		i := asks[n]
		sights[i], err = us.pairSight(ctx, reader, users[i])
		return err
	}); err != nil {
		return err
	}
	for i, u := range recs {
		f(i, u, sights[i])
	}
	return nil
}

// sightOf returns how much of the profile of a user a reader sees.
func (us *Users) sightOf(ctx context.Context, reader, of im.Account, u *storepb.User) (sight, error) {
	switch {
	case reader == of:
		return asOneself, nil
	case showsToContacts(u):
		return us.pairSight(ctx, reader, of.User)
	}
	return asStranger, nil
}

// pairSight returns asContact if a user has the reader as a contact. The record of their direct conversation decides:
// an owner has changed it before a change of contacts is answered, and databases read many such records with one
// statement. If it is damaged, the reader sees what strangers see. Spec: P-14.3.
func (us *Users) pairSight(ctx context.Context, reader im.Account, of im.User) (sight, error) {
	rec, err := us.store.Conversation(ctx, im.Key{Tenant: reader.Tenant,
		Conv: us.ids.Direct(reader.Tenant, reader.User, of)})
	if errors.Is(err, store.ErrCorrupt) {
		return asStranger, nil
	}
	for _, side := range rec.GetSides() {
		if side.User == string(of) && side.ContactMs > 0 {
			return asContact, err
		}
	}
	return asStranger, err
}

// HaveAsContact tells of each of some users whether they have another user as a contact.
func (us *Users) HaveAsContact(ctx context.Context, other im.Account, users []im.User) ([]bool, error) {
	all := make([]bool, len(users))
	return all, readEach(len(users), func(i int) error {
		s, err := us.pairSight(ctx, other, users[i])
		all[i] = s == asContact
		return err
	})
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
