package user

import (
	"bytes"
	"context"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// The index of display names has a record for each user who has one. It is written in the same
// update as the user's record. It is for operators: users cannot find anybody by a display name.

// maxSearched is the length of the searched part of a name, in bytes.
const maxSearched = 64

// Searched returns the form of a name, or of the title of a group, for search and order: in small
// letters, trimmed, and cut to maxSearched. It has no byte 0.
func Searched(name string) string {
	s := strings.ReplaceAll(strings.ToLower(norm.NFKC.String(strings.TrimSpace(name))), "\x00", "")
	return s[:min(len(s), maxSearched)]
}

func displayNameKey(name string, u im.User) []byte {
	return append(append([]byte(Searched(name)), 0), u...)
}

// indexName updates the index for a new display name of a user. This
// change must have read the user's record, if there is one.
func (c *change) indexName(a im.Account, now string) {
	was := c.called[a]
	if Searched(was) == Searched(now) {
		return
	}
	if was != "" {
		c.Put(store.DisplayNames, a.Tenant, displayNameKey(was, a.User), nil)
	}
	if now != "" {
		c.Put(store.DisplayNames, a.Tenant, displayNameKey(now, a.User), []byte{1})
	}
	c.called[a] = now
}

// ListNamed describes users of a tenant whose display name begins with prefix, ordered by display name, or with
// down in the opposite order. The page begins behind token, which the page before has returned as next, and has
// at most limit users (0 or too large: MaxUsersPage). next is the token of the next page; empty: there is none.
// Codes: invalid.
func (us *Users) ListNamed(ctx context.Context, t im.Tenant, prefix string, token []byte, down bool,
	limit int) (list []Info, next []byte, err error) {
	if limit <= 0 || limit > MaxUsersPage {
		limit = MaxUsersPage
	}
	begins := []byte(Searched(prefix))
	if !bytes.HasPrefix(token, begins) && len(token) > 0 {
		return nil, nil, im.Errorf(im.CodeInvalid, "the page token belongs to another search")
	}
	var keys [][]byte
	err = store.RecordsBehind(ctx, us.store, store.DisplayNames, t, begins, token, down, func(key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return len(keys) <= limit
	})
	if err != nil {
		return nil, nil, err
	}
	if len(keys) > limit {
		keys = keys[:limit]
		next = keys[limit-1]
	}
	accounts := make([]im.Account, len(keys))
	for i, k := range keys {
		accounts[i] = im.Account{Tenant: t, User: im.User(k[bytes.LastIndexByte(k, 0)+1:])}
	}
	there, err := us.begin().users(ctx, accounts)
	for _, a := range accounts {
		if u := there[a.User]; u != nil && strings.HasPrefix(Searched(u.DisplayName), string(begins)) {
			list = append(list, describe(a.User, u))
		}
	}
	return list, next, err
}
