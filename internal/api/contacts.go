package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// These are the bounds of contacts. Spec: P-14.9.
const (
	maxContacts = 5000
	maxSent     = 100  // requests of a user that wait
	maxReceived = 1000 // requests that a user sees; further ones stay hidden
	maxGreeting = 200  // characters
	maxRemark   = 64   // characters
	maxPairs    = 1000 // of one SetContacts
)

// RequestContact asks a user to become a contact. Spec: P-14.8.
func (s *Server) RequestContact(ctx context.Context, r *petrelv1.RequestContactRequest) (*petrelv1.Contact, error) {
	if (r.User == "") == (r.Handle == "") {
		return nil, im.Errorf(im.CodeInvalid, "set user or handle")
	}
	if err := im.CheckLine("greeting", r.Greeting, maxGreeting); err != nil {
		return nil, err
	}
	a := identity(ctx).Account
	other, err := s.contactWanted(ctx, a, r)
	if err != nil {
		return nil, err
	}
	return s.changeContact(ctx, other, conv.ContactAsk, strings.TrimSpace(r.Greeting))
}

// contactWanted returns the user whom a request names, and counts a look-up, unless the caller knows them.
// Codes: invalid, no_user, rate_limited.
func (s *Server) contactWanted(ctx context.Context, a im.Account, r *petrelv1.RequestContactRequest) (im.User, error) {
	name := im.User(r.User)
	if r.Handle != "" {
		name = handleName(r.Handle)
	} else if err := checkOther(a, name); err != nil {
		return "", err
	}
	known := false
	if r.User != "" {
		all, err := s.users.Acquaintances(ctx, a, im.Key{}, []im.User{name})
		if err != nil {
			return "", err
		}
		known = all[0]
	}
	if !known {
		if err := s.takeLookUp(ctx, a, name); err != nil {
			return "", err
		}
	}
	i, _, err := s.users.Find(ctx, a, im.User(r.User), r.Handle)
	if err != nil {
		return "", err
	}
	return i.User, checkOther(a, i.User)
}

// checkOther refuses an invalid user, and the caller. Codes: invalid.
func checkOther(a im.Account, other im.User) error {
	if other == a.User {
		return im.Errorf(im.CodeInvalid, "nobody is a contact of themselves")
	}
	return other.Check()
}

// AcceptContact accepts a request. Whether the other user still exists is told only if the request is there: else the
// answers would tell whose ids exist. Spec: P-8.9, P-14.8.
func (s *Server) AcceptContact(ctx context.Context, r *petrelv1.ContactRequest) (*petrelv1.Contact, error) {
	a := identity(ctx).Account
	if err := checkOther(a, im.User(r.User)); err != nil {
		return nil, err
	}
	switch c, err := s.o.Inbox.Contact(ctx, a, im.User(r.User)); {
	case err != nil:
		return nil, err
	case c.ReceivedMs > 0:
		if _, err := s.users.Account(ctx, im.Account{Tenant: a.Tenant, User: im.User(r.User)}); err != nil {
			return nil, err
		}
	}
	return s.changeContact(ctx, im.User(r.User), conv.ContactAccept, "")
}

// RefuseContact refuses a request, and tells nobody. Spec: P-14.8.
func (s *Server) RefuseContact(ctx context.Context, r *petrelv1.ContactRequest) (*petrelv1.Contact, error) {
	return s.changeContact(ctx, im.User(r.User), conv.ContactRefuse, "")
}

// WithdrawContact ends a request of the caller. Spec: P-14.8.
func (s *Server) WithdrawContact(ctx context.Context, r *petrelv1.ContactRequest) (*petrelv1.Contact, error) {
	return s.changeContact(ctx, im.User(r.User), conv.ContactWithdraw, "")
}

// RemoveContact removes a contact of the caller. Spec: P-14.8.
func (s *Server) RemoveContact(ctx context.Context, r *petrelv1.ContactRequest) (*petrelv1.Contact, error) {
	return s.changeContact(ctx, im.User(r.User), conv.ContactRemove, "")
}

// SetRemark says what the caller calls a contact. Spec: P-14.7.
func (s *Server) SetRemark(ctx context.Context, r *petrelv1.SetRemarkRequest) (*petrelv1.Contact, error) {
	if err := im.CheckLine("remark", r.Remark, maxRemark); err != nil {
		return nil, err
	}
	return s.changeContact(ctx, im.User(r.User), conv.ContactRemark, strings.TrimSpace(r.Remark))
}

// AcceptMessages accepts the messages of a user. Spec: P-14.12.
func (s *Server) AcceptMessages(ctx context.Context, r *petrelv1.ContactRequest) (*petrelv1.Contact, error) {
	return s.changeContact(ctx, im.User(r.User), conv.ContactAcceptMessages, "")
}

// RefuseMessages refuses the first messages of a user, and tells nobody. Spec: P-14.12.
func (s *Server) RefuseMessages(ctx context.Context, r *petrelv1.ContactRequest) (*petrelv1.Contact, error) {
	return s.changeContact(ctx, im.User(r.User), conv.ContactRefuseMessages, "")
}

// changeContact does what a user asks for, one act of each user on this node at a time, so that acts that come
// together do not exceed the bounds. Codes: invalid, no_contact, forbidden, too_many_contacts, overloaded.
func (s *Server) changeContact(ctx context.Context, other im.User, act conv.ContactAct,
	text string) (*petrelv1.Contact, error) {
	a := identity(ctx).Account
	if err := checkOther(a, other); err != nil {
		return nil, err
	}
	switch act {
	case conv.ContactRemark, conv.ContactAcceptMessages, conv.ContactRefuseMessages: // each user's own
	default:
		if err := s.users.MayChangeContacts(ctx, a.Tenant); err != nil {
			return nil, err
		}
	}
	if _, busy := s.contacting.LoadOrStore(a, struct{}{}); busy {
		return nil, &im.Error{Code: im.CodeOverloaded, RetryAfter: 100 * time.Millisecond}
	}
	defer s.contacting.Delete(a)
	full, err := s.contactRoom(ctx, a, other, act)
	if err != nil {
		return nil, err
	}
	if err := s.store(ctx, len(text)); err != nil {
		return nil, err
	}
	if err := inbox.ChangeContact(ctx, s.convs, a, other, act, text, full); err != nil {
		return nil, err
	}
	return s.contact(ctx, a, other)
}

// contactRoom refuses what would exceed the bounds of a, unless it changes nothing that they count. full: other has no
// room for a request that comes. Codes: too_many_contacts.
func (s *Server) contactRoom(ctx context.Context, a im.Account, other im.User,
	act conv.ContactAct) (full bool, err error) {
	if act != conv.ContactAsk && act != conv.ContactAccept {
		return false, nil
	}
	is, err := s.o.Inbox.Contact(ctx, a, other)
	if err != nil || is.SinceMs > 0 || act == conv.ContactAsk && is.SentMs > 0 {
		return false, err
	}
	count := func(of im.Account) (*inbox.ContactCount, error) {
		return read(ctx, s, func() (*inbox.ContactCount, error) { return s.o.Inbox.CountContacts(ctx, of) })
	}
	own, err := count(a)
	switch {
	case err != nil:
		return false, err
	case own.Contacts+own.Sent >= maxContacts:
		return false, im.Errorf(im.CodeTooManyContacts, "a user has at most %d contacts and requests", maxContacts)
	case act == conv.ContactAsk && own.Sent >= maxSent:
		return false, im.Errorf(im.CodeTooManyContacts, "at most %d requests of a user wait", maxSent)
	case act == conv.ContactAccept:
		return false, nil
	}
	theirs, err := count(im.Account{Tenant: a.Tenant, User: other})
	return err == nil && theirs.Received >= maxReceived, err
}

// contact returns what other is to a, once the inboxes of both say so.
func (s *Server) contact(ctx context.Context, a im.Account, other im.User) (*petrelv1.Contact, error) {
	if err := s.route.AwaitInboxes(ctx, im.Key{Tenant: a.Tenant, Conv: s.convs.IDs().Direct(a.Tenant, a.User,
		other)}); err != nil {
		return nil, err
	}
	return s.o.Inbox.Contact(ctx, a, other)
}

// ListContacts returns a page of the caller's contacts and requests.
func (s *Server) ListContacts(ctx context.Context,
	r *petrelv1.ListContactsRequest) (*petrelv1.ListContactsResponse, error) {
	return s.listContacts(ctx, identity(ctx).Account, r.After)
}

// ListContactsOf returns a page of a user's contacts and requests, for the operator.
func (s *Server) ListContactsOf(ctx context.Context, t im.Tenant,
	r *petrelv1.ListUserContactsRequest) (*petrelv1.ListContactsResponse, error) {
	a := im.Account{Tenant: t, User: im.User(r.User)}
	if _, err := s.users.Account(ctx, a); err != nil {
		return nil, err
	}
	return s.listContacts(ctx, a, r.After)
}

func (s *Server) listContacts(ctx context.Context, a im.Account, after uint64) (*petrelv1.ListContactsResponse, error) {
	return read(ctx, s, func() (*petrelv1.ListContactsResponse, error) {
		page, next, err := s.o.Inbox.Contacts(ctx, a, im.Seq(after))
		return &petrelv1.ListContactsResponse{Contacts: page, Next: uint64(next)}, err
	})
}

// SetContacts sets contacts for the back end. Spec: P-14.10.
func (s *Server) SetContacts(ctx context.Context, t im.Tenant,
	r *petrelv1.SetContactsRequest) (*petrelv1.SetContactsResponse, error) {
	if n := len(r.Pairs); n == 0 || n > maxPairs {
		return nil, im.Errorf(im.CodeInvalid, "pairs has 1 to %d entries", maxPairs)
	}
	var users []im.User
	for _, p := range r.Pairs {
		if err := checkOther(im.Account{User: im.User(p.User)}, im.User(p.Other)); err != nil {
			return nil, err
		}
		users = append(users, im.User(p.User), im.User(p.Other))
	}
	slices.Sort(users)
	if err := s.users.MustAll(ctx, t, slices.Compact(users)); err != nil {
		return nil, err
	}
	act := conv.ContactMake
	if r.End {
		act = conv.ContactEnd
	}
	keys, err := inbox.SetContacts(ctx, s.convs, t, r.Pairs, act)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if err := s.route.AwaitInboxes(ctx, key); err != nil {
			return nil, err
		}
	}
	return &petrelv1.SetContactsResponse{}, nil
}
