package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// contactCommand runs a call of the ContactService; false: it is none. "contact
// ask bob "greeting"", "contact accept bob", "contact remark bob "tall"", "contacts".
func (s *session) contactCommand(a args) bool {
	s.w.t.Helper()
	request := a.values["request"]
	switch a.word(0) {
	case "contacts":
		var lines []string
		for after := uint64(0); ; {
			r, err := invoke[petrelv1.ListContactsRequest, petrelv1.ListContactsResponse](s, "ContactService/ListContacts",
				&petrelv1.ListContactsRequest{After: after})
			if err != nil {
				s.reply(err, "")
				return true
			}
			for _, c := range r.Contacts {
				lines = append(lines, contactText(c))
			}
			if after = r.Next; after == 0 {
				break
			}
		}
		slices.Sort(lines)
		s.reply(nil, "%s", strings.Join(lines, ", "))
	case "contact":
		other := a.word(2)
		var r *petrelv1.Contact
		var err error
		switch a.word(1) {
		case "ask":
			q := &petrelv1.RequestContactRequest{User: other, Greeting: a.text(), RequestId: request}
			if handle, ok := strings.CutPrefix(other, "@"); ok {
				q.User, q.Handle = "", handle
			}
			r, err = invoke[petrelv1.RequestContactRequest, petrelv1.Contact](s, "ContactService/RequestContact", q)
		case "remark":
			r, err = invoke[petrelv1.SetRemarkRequest, petrelv1.Contact](s, "ContactService/SetRemark",
				&petrelv1.SetRemarkRequest{User: other, Remark: a.text(), RequestId: request})
		default:
			method := map[string]string{"accept": "AcceptContact", "refuse": "RefuseContact", "withdraw": "WithdrawContact",
				"remove": "RemoveContact", "hear": "AcceptMessages", "ignore": "RefuseMessages"}[a.word(1)]
			r, err = invoke[petrelv1.ContactRequest, petrelv1.Contact](s, "ContactService/"+method,
				&petrelv1.ContactRequest{User: other, RequestId: request})
		}
		s.reply(err, "%s", contactText(r))
	default:
		return false
	}
	return true
}

// setContacts runs a line of the operator: "contacts make alice bob", "contacts end alice bob".
func (w *world) setContacts(s *session, a args) error {
	u := w.user(a.word(2))
	_, err := w.node().Admin.SetContacts(w.deadline(), connect.NewRequest(&petrelv1.SetContactsRequest{
		Tenant: u.tenant.id, Pairs: []*petrelv1.ContactPair{{User: u.name, Other: w.user(a.word(3)).name}},
		End: a.word(1) == "end"}))
	if err == nil {
		s.put("ok")
	}
	return err
}

// firstMessages is the rule or the choice that a line names: "requests".
func firstMessages(word string) petrelv1.FirstMessages {
	return petrelv1.FirstMessages(petrelv1.FirstMessages_value["FIRST_MESSAGES_"+strings.ToUpper(word)])
}

// setFirstMessages runs a line of the operator: "first request alice", for the tenant of alice.
func (w *world) setFirstMessages(s *session, a args) error {
	_, err := w.node().Admin.SetFirstMessageRule(w.deadline(), connect.NewRequest(&petrelv1.SetFirstMessageRuleRequest{
		Tenant: w.user(a.word(2)).tenant.id, FirstMessages: firstMessages(a.word(1))}))
	if err == nil {
		s.put("ok")
	}
	return err
}

// text is what stands in quotes; "": nothing does.
func (a args) text() string { return strings.Join(a.bodies, "") }

// contactText is what a user sees of another one.
func contactText(c *petrelv1.Contact) string {
	l := c.GetUser()
	if c.GetSinceMs() > 0 {
		l += " contact"
	}
	if c.GetRemark() != "" {
		l += fmt.Sprintf(" remark=%q", c.Remark)
	}
	if c.GetSentMs() > 0 {
		l += " sent"
	}
	if c.GetReceivedMs() > 0 {
		l += " received"
	}
	if c.GetGreeting() != "" {
		l += fmt.Sprintf(" %q", c.Greeting)
	}
	switch {
	case c.GetMessagesRefused():
		l += " messages-refused"
	case c.GetMessagesMs() > 0:
		l += " messages-wait"
	}
	return l
}

// contactTime is the time in the value of a setting that tells of a contact.
var contactTime = regexp.MustCompile(`^\d+`)

// settingText is a setting as lines show it.
func settingText(name, value string) string {
	if name == "contact" || name == "first_messages" || strings.HasPrefix(name, "contact_") {
		value = contactTime.ReplaceAllString(value, "*")
	}
	return name + "=" + value
}
