package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// groupCommand runs a call of the ConversationService or the MessageService
// that is about one conversation; false: it is none.
func (s *session) groupCommand(a args) bool {
	s.w.t.Helper()
	w, verb, request := s.w, a.word(0), a.values["request"]
	if verb == "create" {
		s.create(a)
		return true
	}
	if !slices.Contains(strings.Fields("add remove leave role transfer rename dissolve members state receipts"), verb) {
		return false
	}
	conv, _ := w.resolve(s.user, a.word(1))
	users := a.words[min(2, len(a.words)):]
	var r *petrelv1.ChangeResponse
	var err error
	switch verb {
	case "add":
		r, err = invoke[petrelv1.AddMembersRequest, petrelv1.ChangeResponse](s, "ConversationService/AddMembers", &petrelv1.AddMembersRequest{Conv: conv, Users: users, RequestId: request})
	case "remove":
		r, err = invoke[petrelv1.RemoveMembersRequest, petrelv1.ChangeResponse](s, "ConversationService/RemoveMembers", &petrelv1.RemoveMembersRequest{Conv: conv, Users: users, RequestId: request})
	case "leave":
		r, err = invoke[petrelv1.LeaveGroupRequest, petrelv1.ChangeResponse](s, "ConversationService/LeaveGroup", &petrelv1.LeaveGroupRequest{Conv: conv, RequestId: request})
	case "role":
		role := petrelv1.Role(petrelv1.Role_value["ROLE_"+strings.ToUpper(a.word(3))])
		r, err = invoke[petrelv1.SetRoleRequest, petrelv1.ChangeResponse](s, "ConversationService/SetRole", &petrelv1.SetRoleRequest{Conv: conv, User: a.word(2), Role: role, RequestId: request})
	case "transfer":
		r, err = invoke[petrelv1.TransferOwnershipRequest, petrelv1.ChangeResponse](s, "ConversationService/TransferOwnership", &petrelv1.TransferOwnershipRequest{Conv: conv, User: a.word(2), RequestId: request})
	case "rename":
		r, err = invoke[petrelv1.RenameGroupRequest, petrelv1.ChangeResponse](s, "ConversationService/RenameGroup", &petrelv1.RenameGroupRequest{Conv: conv, Title: a.body(), RequestId: request})
	case "dissolve":
		r, err = invoke[petrelv1.DissolveGroupRequest, petrelv1.ChangeResponse](s, "ConversationService/DissolveGroup", &petrelv1.DissolveGroupRequest{Conv: conv, RequestId: request})
	default:
		s.groupQuestion(verb, conv)
		return true
	}
	if err == nil {
		w.noteChange(conv, r.Seq)
	}
	s.reply(err, "seq=%d", r.GetSeq())
	return true
}

// create makes a group and gives it its name in the scenario: "create g1 bob
// title="…"". A repeat that is answered with an old one shows that one's name.
func (s *session) create(a args) {
	s.w.t.Helper()
	q := &petrelv1.CreateGroupRequest{Title: a.word(1), Users: a.words[2:], RequestId: a.values["request"]}
	if title, ok := a.values["title"]; ok {
		q.Title = title
	}
	r, err := invoke[petrelv1.CreateGroupRequest, petrelv1.CreateGroupResponse](s, "ConversationService/CreateGroup", q)
	if err == nil {
		if _, known := s.w.names[r.Conv]; !known {
			s.user.tenant.groups[a.word(1)] = r.Conv
			s.w.names[r.Conv] = place{tenant: s.user.tenant, group: a.word(1)}
		}
		s.w.noteChange(r.Conv, r.Seq)
	}
	s.reply(err, "%s seq=%d", s.w.nameOf(s.user, r.GetConv()), r.GetSeq())
}

// groupQuestion runs a call that changes nothing.
func (s *session) groupQuestion(verb, conv string) {
	s.w.t.Helper()
	var list []string
	var err error
	switch verb {
	case "members":
		list, err = s.members(conv)
	case "receipts":
		list, err = s.receipts(conv)
	default:
		var r *petrelv1.ConvState
		r, err = invoke[petrelv1.GetConversationRequest, petrelv1.ConvState](s, "ConversationService/GetConversation", &petrelv1.GetConversationRequest{Conv: conv})
		if err == nil {
			list = []string{s.stateText(r)}
		}
	}
	s.reply(err, "%s", strings.Join(list, ", "))
}

// receipts reads all pages, of two members each.
func (s *session) receipts(conv string) ([]string, error) {
	s.w.t.Helper()
	var list []string
	q := &petrelv1.ListReceiptsRequest{Conv: conv, Limit: 2}
	for more := true; more; {
		r, err := invoke[petrelv1.ListReceiptsRequest, petrelv1.ListReceiptsResponse](s, "MessageService/ListReceipts", q)
		if err != nil {
			return nil, err
		}
		for _, x := range r.Receipts {
			list = append(list, x.User+cursorText(x))
		}
		q.After, more = r.Next, r.More
	}
	return list, nil
}

// members reads all pages; of more than 20 only the number is shown.
func (s *session) members(conv string) ([]string, error) {
	s.w.t.Helper()
	var list []string
	q := &petrelv1.ListMembersRequest{Conv: conv}
	for more := true; more; {
		r, err := invoke[petrelv1.ListMembersRequest, petrelv1.ListMembersResponse](s, "ConversationService/ListMembers", q)
		if err != nil {
			return nil, err
		}
		for _, m := range r.Members {
			list = append(list, m.User+"="+roleText(m.Role))
			q.After = m.User
		}
		more = r.More
	}
	if !slices.IsSorted(list) {
		s.w.fatalf("members of %s are not in their order: %v", s.w.nameOf(s.user, conv), list)
	}
	if len(list) > 20 {
		list = []string{fmt.Sprintf("%d members", len(list))}
	}
	return list, nil
}

// noteChange notes whose inbox will speak of the entry seq.
func (w *world) noteChange(conv string, seq uint64) {
	w.t.Helper()
	p := w.names[conv]
	rows := w.operatorReads(conv, p)
	if p.group == "" || seq == 0 || seq > uint64(len(rows)) {
		return
	}
	c := rows[seq-1].GetMembers()
	about := slices.Concat(c.GetRemoved(), c.GetLeft())
	for _, m := range slices.Concat(c.GetAdded(), c.GetRoles()) {
		about = append(about, m.User)
	}
	for u, stays := range staysOf(p, rows) {
		if c.GetDissolved() && stays[len(stays)-1].to == seq {
			about = append(about, u)
		}
	}
	for _, name := range about {
		if u := p.tenant.users[name]; u != nil {
			u.list(change{conv, seq})
		}
	}
}
