package pebblestore

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// The id of a direct conversation is made from its two users, and the id of an inbox
// from its user (im.IDs). So a repair finds the users again when their records are
// lost: it tries who they may have been, and the id proves who they were.

// Kinds and roles of petrel.v1, as the records have them.
const (
	kindDirect = 1
	kindGroup  = 2
	kindInbox  = 5
	roleMember = 1
	roleOwner  = 3
)

// derived tells whether the id of c is made from its users.
func derived(c im.Key) bool { return c.Conv.Kind() != im.Group }

// participants are the users of a direct conversation or an inbox, as its record has
// them; nil: nobody can tell.
func (s *settler) participants(c im.Key) ([]string, error) {
	if c.Conv.Kind() == im.Inbox {
		return s.owner(c)
	}
	near, err := s.named(c)
	if err != nil {
		return nil, err
	}
	var pair []string
	try := func(a, b im.User) bool {
		if s.ids.Direct(c.Tenant, a, b) == c.Conv {
			pair = []string{string(min(a, b)), string(max(a, b))}
		}
		return pair != nil
	}
	for i, a := range near {
		if slices.ContainsFunc(near[i:], func(b im.User) bool { return try(a, b) }) {
			return pair, nil
		}
	}
	err = s.accounts(c.Tenant, func(b im.User) bool {
		return slices.ContainsFunc(near, func(a im.User) bool { return try(a, b) })
	})
	return pair, err
}

// owner is the user of an inbox.
func (s *settler) owner(c im.Key) (users []string, err error) {
	mine := func(u im.User) bool {
		if s.ids.Inbox(c.Tenant, u) == c.Conv {
			users = []string{string(u)}
		}
		return users != nil
	}
	near, err := s.named(c)
	if err != nil || slices.ContainsFunc(near, mine) {
		return users, err
	}
	return users, s.accounts(c.Tenant, mine)
}

// maxRead bounds the rows that are read to find the users who wrote them.
const maxRead = 1000

// named are the users whom the records and rows of c name.
func (s *settler) named(c im.Key) (users []im.User, err error) {
	add := func(u im.User) {
		if u != "" && !slices.Contains(users, u) {
			users = append(users, u)
		}
	}
	for _, kind := range []byte{kindMember, kindCursor} {
		err := s.until(convKey(kind, c), after(convKey(kind, c)), func(k, _ []byte) bool {
			add(im.User(k[convKeyLen:]))
			return false
		})
		if err != nil {
			return nil, err
		}
	}
	n := 0
	err = s.until(convKey(kindRow, c), after(convKey(kindRow, c)), func(_, v []byte) bool {
		n++
		add(senderOf(v))
		return len(users) > 1 || n == maxRead
	})
	return users, err
}

// accounts calls found for the users of a tenant until it returns true.
func (s *settler) accounts(t im.Tenant, found func(im.User) bool) error {
	prefix := recordKey(store.Users, t, nil)
	return s.until(prefix, after(bytes.Clone(prefix)), func(k, _ []byte) bool { return found(im.User(k[tableKeyLen:])) })
}

// until calls fn for the keys of a range until it returns true.
func (s *settler) until(lower, upper []byte, fn func(key, value []byte) bool) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var v []byte
		if v, err = it.ValueAndErr(); err == nil && fn(it.Key(), v) {
			break
		}
	}
	if e := it.Close(); err == nil { // it has the error of the iteration too
		err = e
	}
	return err
}

// restoreMembers gives direct conversations and inboxes the members back that were lost
// in h. Their standing never changes, so nothing older comes to light.
func (s *settler) restoreMembers(h hole) error {
	lower, upper := h.within(kindMember)
	if lower == nil {
		return nil
	}
	lower = bytes.Clone(lower[:min(len(lower), convKeyLen)])
	end := []byte{kindConversation + 1}
	if upper[0] == kindMember {
		end = after(bytes.Clone(upper[:min(len(upper), convKeyLen)]))
		end[0] = kindConversation
	}
	lower[0] = kindConversation
	return s.commit(func() error {
		return s.each(lower, end, func(k, v []byte) error {
			if len(k) != convKeyLen || !derived(keyOf(k)) {
				return nil
			}
			var rec storepb.Conversation
			if rec.UnmarshalVT(v) != nil {
				return nil // who loads it meets the error
			}
			return s.restoreMembersOf(keyOf(k), rec.Participants)
		})
	})
}

func (s *settler) restoreMembersOf(c im.Key, users []string) error {
	st := Store{db: s.db}
	for _, u := range slices.Compact(users) {
		k := append(convKey(kindMember, c), u...)
		if v, err := st.get(k); err != nil {
			return err
		} else if v != nil {
			continue
		}
		m := &storepb.Member{Role: roleMember, Stays: []*storepb.Stay{{From: 1}}, Version: 1, ChangedPos: uint64(s.last.pos)}
		if c.Conv.Kind() == im.Inbox {
			m.Role = roleOwner
		}
		v, err := m.MarshalVT()
		if err != nil {
			return err
		}
		if err := s.b.Set(k, v, nil); err != nil {
			return err
		}
	}
	return nil
}

// keyOf is the conversation in the key of one of its records or rows.
func keyOf(k []byte) im.Key {
	return im.Key{Tenant: im.Tenant(binary.BigEndian.Uint32(k[1:])), Conv: im.ConvID(k[5:convKeyLen])}
}

// within is the part of h that has keys of a kind; nil if there is none.
func (h hole) within(kind byte) (lower, upper []byte) {
	lower, upper = []byte{kind}, []byte{kind + 1}
	if bytes.Compare(h.from, lower) > 0 {
		lower = h.from
	}
	if bytes.Compare(h.to, upper) < 0 {
		upper = h.to
	}
	if bytes.Compare(lower, upper) >= 0 {
		return nil, nil
	}
	return lower, upper
}
