package petrel

import (
	"cmp"
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
	settingFirst    = "first_messages"
)

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

// wordRefused is the text of the setting after the user has refused the messages.
const wordRefused = "refused"

func firstMessagesValue(c *petrelv1.Contact) string {
	if c.MessagesRefused {
		return contactValue(c.MessagesMs, wordRefused)
	}
	return contactValue(c.MessagesMs, "")
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
		settingFirst:    firstMessagesValue(answer),
	} {
		if c.settings.value(subject{user: answer.User}, name) != value {
			c.takeSetting(&petrelv1.Personal{Seq: began.seq, User: answer.User, Name: name, Value: value})
		}
	}
	c.out.woken = true
}
