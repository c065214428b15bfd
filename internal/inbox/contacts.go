package inbox

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The record of a direct conversation says what its two users are to each other (conv/contact.go). The consumer of its
// feed carries what each of them sees of it into their inbox: as settings of the other user, one of these names
// with a value. So it reaches all devices as settings do. A value is a time in Unix milliseconds, and after a blank the
// remark or the greeting. Spec: P-14.7.
const (
	ContactName  = "contact"          // since when; the remark
	SentName     = "contact_sent"     // when the user asked; the greeting
	ReceivedName = "contact_received" // when the other one asked; the greeting
	MessagesName = "first_messages"   // when the other one wrote; refused
)

// refusedWord is the text of MessagesName after the user has refused the messages.
const refusedWord = "refused"

// contactNames are the names of settings of users that only changes of contacts write.
var contactNames = []string{ContactName, SentName, ReceivedName, MessagesName}

// IsContactName reports whether users may not change the setting of another user with this name.
func IsContactName(name string) bool { return slices.Contains(contactNames, name) }

func contactValues(c *petrelv1.Contact) map[string]string {
	value := func(ms uint64, text string) string {
		if ms == 0 {
			return ""
		}
		return strings.TrimSuffix(strconv.FormatUint(ms, 10)+" "+text, " ")
	}
	refused := ""
	if c.MessagesRefused {
		refused = refusedWord
	}
	return map[string]string{ContactName: value(c.SinceMs, c.Remark), SentName: value(c.SentMs, c.Greeting),
		ReceivedName: value(c.ReceivedMs, c.Greeting), MessagesName: value(c.MessagesMs, refused)}
}

// addContactValue notes in c the value of a setting that contactValues has made.
func addContactValue(c *petrelv1.Contact, name, value string) {
	number, text, _ := strings.Cut(value, " ")
	ms, _ := strconv.ParseUint(number, 10, 64) // 0: the value was removed
	switch name {
	case ContactName:
		c.SinceMs, c.Remark = ms, text
	case SentName:
		c.SentMs = ms
	case ReceivedName:
		c.ReceivedMs = ms
	case MessagesName:
		c.MessagesMs, c.MessagesRefused = ms, text == refusedWord
		return
	}
	if name != ContactName && ms > 0 {
		c.Greeting = text
	}
}

// contacts returns the entries for users of a direct conversation, those of the sides in a bit set, who see a change
// of contacts with this version. An entry has the present state, and its id follows from the version. So a second
// consumer, which may be behind, makes entries with the same ids, and never puts an older state after a newer one.
// With version 0 it returns the newest entry of each side that has ever seen a change.
func (c *Consumer) contacts(ctx context.Context, key im.Key, version, sides uint64) ([]*conv.Send, error) {
	rec, err := c.store.Conversation(ctx, key)
	if err != nil {
		return nil, err
	}
	var sends []*conv.Send
	for i, own := range rec.GetSides() {
		if own.Version == 0 || version > 0 && sides>>i&1 == 0 {
			continue
		}
		seen := conv.ContactOf(own, rec.Sides[1-i])
		change := &petrelv1.InboxSettings{User: seen.User, Values: contactValues(seen)}
		if own.FirstMs == 0 { // the inbox has never had it
			delete(change.Values, MessagesName)
		}
		s := c.entry(key, im.User(own.User),
			&petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: change}}, 0)
		s.Entry.ClientMsgId = c.convs.IDs().ContactEntry(key, im.User(own.User), cmp.Or(version, own.Version))
		sends = append(sends, s)
	}
	return sends, nil
}

// ChangeContact changes what a user is to another one, and returns when the change is durable. full: the other user
// has no room for a request, so a new one stays hidden from them. Codes: no_contact, forbidden, store_stalled (unknown:
// ctx ended), and those of conv.Convs.Submit.
func ChangeContact(ctx context.Context, cs *conv.Convs, a im.Account, other im.User, act conv.ContactAct,
	text string, full bool) error {
	_, err := send(ctx, cs, &conv.Send{Conv: im.Key{Tenant: a.Tenant, Conv: cs.IDs().Direct(a.Tenant, a.User, other)},
		Peer:    other,
		Contact: &storepb.ContactChange{User: string(a.User), Act: uint32(act), Text: text, Full: full}})
	return err
}

// SetContacts does an act of the back end for pairs of users, and returns their direct conversations when all changes
// are durable. After an error some of them may be. Codes: those of ChangeContact.
func SetContacts(ctx context.Context, cs *conv.Convs, t im.Tenant, pairs []*petrelv1.ContactPair,
	act conv.ContactAct) (keys []im.Key, err error) {
	results := make(chan conv.Result, len(pairs))
	var sends []*conv.Send
	for _, p := range pairs {
		key := im.Key{Tenant: t, Conv: cs.IDs().Direct(t, im.User(p.User), im.User(p.Other))}
		keys = append(keys, key)
		sends = append(sends, &conv.Send{Conv: key, Peer: im.User(p.Other), Done: func(r conv.Result) { results <- r },
			Contact: &storepb.ContactChange{User: p.User, Act: uint32(act)}})
	}
	var wakeUps fanout.WakeUps
	cs.Submit(sends, &wakeUps)
	wakeUps.Flush()
	for range pairs {
		select {
		case r := <-results:
			if r.Err != nil {
				err = r.Err
			}
		case <-ctx.Done():
			return nil, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
		}
	}
	return keys, err
}

// Contact returns what other is to a, from the record of their direct conversation.
func (y *Syncer) Contact(ctx context.Context, a im.Account, other im.User) (*petrelv1.Contact, error) {
	key := im.Key{Tenant: a.Tenant, Conv: y.Router.IDs().Direct(a.Tenant, a.User, other)}
	rec, err := y.Store.Conversation(ctx, key)
	if err != nil {
		return nil, err
	}
	own, theirs := conv.SidesOf(rec, a.User)
	c := conv.ContactOf(own, theirs)
	c.User = string(other)
	return c, nil
}

// Contacts returns a page of a user's contacts and requests: the oldest that entries of the inbox above after have
// changed. From the second page on it has removed ones, too, only with their user. next is the after of the next page;
// 0: there is none.
func (y *Syncer) Contacts(ctx context.Context, a im.Account,
	after im.Seq) (page []*petrelv1.Contact, next im.Seq, err error) {
	err = y.withList(ctx, a, func(l *list) error {
		page, next, err = y.contactsAfter(ctx, a, l, after)
		return err
	})
	return page, next, err
}

func (y *Syncer) contactsAfter(ctx context.Context, a im.Account, l *list,
	after im.Seq) (page []*petrelv1.Contact, next im.Seq, err error) {
	of := map[string]*petrelv1.Contact{}
	told, bytes := after, 0
	err = y.eachSetting(ctx, a, l, after, func(s *setting) bool {
		if s.user == "" || !IsContactName(s.name) {
			return true
		}
		if bytes > pagePersonal && s.seq > told {
			next = told
			return false
		}
		told = s.seq
		if s.value == "" && (after == 0 || of[s.user] != nil) {
			return true
		}
		bytes += s.answerBytes()
		c := of[s.user]
		if c == nil {
			c = &petrelv1.Contact{User: s.user}
			of[s.user] = c
			page = append(page, c)
		}
		addContactValue(c, s.name, s.value)
		return true
	})
	return page, next, err
}

// ContactCount has what a user has of contacts and requests, up to 5 s late.
type ContactCount struct{ Contacts, Sent, Received int }

// CountContacts counts the contacts and requests of a user.
func (y *Syncer) CountContacts(ctx context.Context, a im.Account) (*ContactCount, error) {
	n := &ContactCount{}
	return n, y.withList(ctx, a, func(l *list) error {
		*n = l.sums.contacts
		return nil
	})
}
