package petrel

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
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
// look-up is left, or this user has withdrawn a request to them in the last ten seconds).
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

// AcceptMessages accepts the first messages of another user, and all further ones.
func (c Contacts) AcceptMessages(ctx context.Context, user string) (*petrelv1.Contact, error) {
	return c.change(ctx, "AcceptMessages", &petrelv1.ContactRequest{User: user})
}

// RefuseMessages refuses the first messages of another user, who is not told. Further ones do not arrive.
func (c Contacts) RefuseMessages(ctx context.Context, user string) (*petrelv1.Contact, error) {
	return c.change(ctx, "RefuseMessages", &petrelv1.ContactRequest{User: user})
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
