package petrel

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Names of the settings of another user that say what they are to the user of the client. Spec: P-14.7.
const (
	settingContact  = "contact"
	settingSent     = "contact_sent"
	settingReceived = "contact_received"
)

// Contacts are the contacts of the user, and the requests that wait. They are settings of the user, so
// [Change].Account reports a change of them, from any device. Each method that changes one waits for the connection,
// and returns what the other user is afterwards. Get and List have that at once, unless the client has connected since
// the method was called: then they have it when the client has synced. Spec: P-14.7, P-14.8, S-21.
type Contacts struct{ c *Client }

// Contacts returns the contacts of the user.
func (c *Client) Contacts() Contacts { return Contacts{c} }

// List returns all contacts and waiting requests, ascending by user. The slice and the contacts are shared and must
// not be modified.
func (c Contacts) List() (all []*petrelv1.Contact) {
	c.c.do(func(k *core) { all = k.contactList() })
	return all
}

// Get returns what another user is; nil: not a contact, and no request waits. The contact is shared and must not be
// modified. It is the same pointer until the contact changes.
func (c Contacts) Get(user string) (contact *petrelv1.Contact) {
	c.c.do(func(k *core) { contact = k.contact(user) })
	return contact
}

// Ask asks another user to become a contact. If a request of theirs waits, or they have this user as a contact, both
// are contacts at once. A repeat changes the greeting, which has at most 200 characters. Codes: invalid, no_user,
// forbidden (this user blocks them, or only the back end changes contacts), too_many_contacts, rate_limited (no
// look-up is left).
func (c Contacts) Ask(ctx context.Context, user, greeting string) (*petrelv1.Contact, error) {
	return c.change(ctx, "RequestContact", &petrelv1.RequestContactRequest{User: user, Greeting: greeting})
}

// AskByHandle is Ask for the user with a handle.
func (c Contacts) AskByHandle(ctx context.Context, handle, greeting string) (*petrelv1.Contact, error) {
	return c.change(ctx, "RequestContact", &petrelv1.RequestContactRequest{Handle: handle, Greeting: greeting})
}

// Accept accepts the request of another user: each is a contact of the other one then. Codes: no_contact, no_user,
// forbidden, too_many_contacts.
func (c Contacts) Accept(ctx context.Context, user string) (*petrelv1.Contact, error) {
	return c.change(ctx, "AcceptContact", &petrelv1.ContactRequest{User: user})
}

// Refuse removes the request of another user, who is not told. Code: forbidden.
func (c Contacts) Refuse(ctx context.Context, user string) (*petrelv1.Contact, error) {
	return c.change(ctx, "RefuseContact", &petrelv1.ContactRequest{User: user})
}

// Withdraw ends the request to another user. Code: forbidden.
func (c Contacts) Withdraw(ctx context.Context, user string) (*petrelv1.Contact, error) {
	return c.change(ctx, "WithdrawContact", &petrelv1.ContactRequest{User: user})
}

// Remove removes a contact, with the remark. The other user keeps this one as a contact. Code: forbidden.
func (c Contacts) Remove(ctx context.Context, user string) (*petrelv1.Contact, error) {
	return c.change(ctx, "RemoveContact", &petrelv1.ContactRequest{User: user})
}

// SetRemark sets the remark of a contact: at most 64 characters in one line; "" removes it. Codes: invalid,
// no_contact.
func (c Contacts) SetRemark(ctx context.Context, user, remark string) (*petrelv1.Contact, error) {
	return c.change(ctx, "SetRemark", &petrelv1.SetRemarkRequest{User: user, Remark: remark})
}

func (c Contacts) change(ctx context.Context, method string, q proto.Message) (*petrelv1.Contact, error) {
	var began contactCall
	c.c.do(func(k *core) { began = contactCall{k.live, k.settings.newest()} })
	r := new(petrelv1.Contact)
	if err := c.c.Call(ctx, contactService+method, q, r); err != nil {
		return nil, err
	}
	c.c.do(func(k *core) { k.takeContact(began, r) })
	return r, nil
}

// contactViews are the newest snapshots of contacts. Spec: S-21.3.
type contactViews struct {
	of     map[string]*petrelv1.Contact // by user
	list   []*petrelv1.Contact
	listed bool // list is up to date
}

// contact returns what another user is; nil: not a contact, and no request waits.
func (c *core) contact(user string) *petrelv1.Contact {
	now := &petrelv1.Contact{User: user}
	for _, name := range []string{settingContact, settingSent, settingReceived} {
		addContactValue(now, name, c.settings.value(subject{user: user}, name))
	}
	old := c.contacts.of[user]
	switch {
	case now.SinceMs == 0 && now.SentMs == 0 && now.ReceivedMs == 0:
		delete(c.contacts.of, user)
		return nil
	case proto.Equal(old, now):
		return old
	}
	c.contacts.of[user] = now
	return now
}

// addContactValue adds the value of a setting to a contact: a time in Unix milliseconds, and after a blank a text. A
// request that was received comes after one that was sent: its greeting is the one to be shown. Spec: P-14.7.
func addContactValue(to *petrelv1.Contact, name, value string) {
	number, text, _ := strings.Cut(value, " ")
	ms, err := strconv.ParseUint(number, 10, 63)
	if err != nil || ms == 0 {
		return // the setting was removed; the server lets no other value through
	}
	switch name {
	case settingContact:
		to.SinceMs, to.Remark = ms, text
	case settingSent:
		to.SentMs, to.Greeting = ms, text
	case settingReceived:
		to.ReceivedMs, to.Greeting = ms, text
	}
}

// contactValue is the value of a setting that addContactValue reads.
func contactValue(ms uint64, text string) string {
	if ms == 0 {
		return ""
	}
	return strings.TrimSuffix(strconv.FormatUint(ms, 10)+" "+text, " ")
}

// contactList returns all contacts and waiting requests, ascending by user.
func (c *core) contactList() []*petrelv1.Contact {
	if c.contacts.listed {
		return c.contacts.list
	}
	var all []*petrelv1.Contact
	for of := range c.settings {
		if of.user == "" {
			continue
		}
		if one := c.contact(of.user); one != nil {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b *petrelv1.Contact) int { return cmp.Compare(a.User, b.User) })
	c.contacts.list, c.contacts.listed = all, true
	return all
}

// contactCall is the state of the client when a call began.
type contactCall struct {
	live *live
	seq  uint64 // of the newest setting
}

// takeContact takes the answer of a call. It counts as an entry of the inbox that came just before the call, so the
// entry of the change, and all later ones, replace it. An answer on another connection than the one of the call is
// dropped: it may be older than what the sync has brought. Spec: S-21.2.
func (c *core) takeContact(began contactCall, answer *petrelv1.Contact) {
	if began.live == nil || c.live != began.live {
		return
	}
	for name, value := range map[string]string{
		settingContact:  contactValue(answer.SinceMs, answer.Remark),
		settingSent:     contactValue(answer.SentMs, answer.Greeting),
		settingReceived: contactValue(answer.ReceivedMs, answer.Greeting),
	} {
		if c.settings.value(subject{user: answer.User}, name) != value {
			c.takeSetting(&petrelv1.Personal{Seq: began.seq, User: answer.User, Name: name, Value: value})
		}
	}
	c.out.woken = true
}
