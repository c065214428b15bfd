package chat

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// group is what the server was asked about a group.
type group struct {
	members  []*petrelv1.MemberRef // at most the first page
	more     bool                  // there are more
	receipts map[string]*petrelv1.Receipt
	asof     uint64 // seq of the newest change of members that this knows
}

func (g *group) has(user string) bool {
	for _, m := range g.members {
		if m.User == user {
			return true
		}
	}
	return false
}

// learn returns what asks the server about a group, nil when nothing is to be
// asked; the result goes to learned.
func (t *talk) learn(id string) func(context.Context) (*group, error) {
	v, ok := t.c.Conversation(id)
	if !ok || v.Kind != petrelv1.ConvKind_CONV_KIND_GROUP || v.Left {
		return nil
	}
	asof := uint64(1)
	for _, m := range t.c.Messages(id, 0, 0) {
		if m.GetMembers() != nil {
			asof = m.Seq
		}
	}
	if g := t.about[id]; g != nil && g.asof >= asof {
		return nil
	}
	g := &group{asof: asof, receipts: map[string]*petrelv1.Receipt{}}
	t.about[id] = &group{asof: asof} // is being asked
	user := t.c.Status().User
	return func(ctx context.Context) (*group, error) {
		var ms petrelv1.ListMembersResponse
		if err := t.c.Call(ctx, "petrel.v1.ConversationService/ListMembers", &petrelv1.ListMembersRequest{Conv: id}, &ms); err != nil {
			return nil, err
		}
		g.members, g.more = ms.Members, ms.More
		if g.more {
			return g, nil // a group of so many shows no receipts
		}
		q := &petrelv1.ListReceiptsRequest{Conv: id}
		for more := true; more; {
			var rs petrelv1.ListReceiptsResponse
			if err := t.c.Call(ctx, "petrel.v1.MessageService/ListReceipts", q, &rs); err != nil {
				return nil, err
			}
			for _, r := range rs.Receipts {
				if r.User != user {
					g.receipts[r.User] = r
				}
			}
			q.After, more = rs.Next, rs.More
		}
		return g, nil
	}
}

// learned takes the answer; without one it is asked again some time.
func (t *talk) learned(id string, g *group) {
	if g == nil {
		delete(t.about, id)
		return
	}
	t.about[id] = g
}

// ask is learn, done at once.
func (t *talk) ask(ctx context.Context, id string) (*group, error) {
	delete(t.about, id)
	ask := t.learn(id)
	if ask == nil {
		return nil, fmt.Errorf("this is not a group")
	}
	g, err := ask(ctx)
	t.learned(id, g)
	return g, err
}

// toggle puts a reaction of the user on a message or pins it; if that is so already, it
// takes it away.
func (t *talk) toggle(ctx context.Context, id string, o order) error {
	var is bool
	for _, m := range t.c.Messages(id, o.seq-1, 1) {
		if m.Seq != o.seq {
			break
		}
		is = o.verb == "/pin" && m.Pinned
		for _, r := range m.Reactions {
			is = is || o.verb == "/react" && r.Emoji == o.text && r.Mine
		}
	}
	if o.verb == "/pin" {
		return t.c.Pin(ctx, id, o.seq, is)
	}
	return t.c.React(ctx, id, o.seq, o.text, is)
}

// manage returns what carries out an order that changes a group: what it has
// done, in words, and the conversation to open, if another one.
func (t *talk) manage(id string, o order) func(context.Context) (said, open string, err error) {
	service := "petrel.v1.ConversationService/"
	changed := new(petrelv1.ChangeResponse)
	return func(ctx context.Context) (string, string, error) {
		switch o.verb {
		case "/group":
			var r petrelv1.CreateGroupResponse
			err := t.c.Call(ctx, service+"CreateGroup", &petrelv1.CreateGroupRequest{Title: o.text, Users: o.users}, &r)
			return "made “" + o.text + "”", r.Conv, err
		case "/add":
			err := t.c.Call(ctx, service+"AddMembers", &petrelv1.AddMembersRequest{Conv: id, Users: o.users}, changed)
			return "added " + listed(o.users), "", err
		case "/remove":
			err := t.c.Call(ctx, service+"RemoveMembers", &petrelv1.RemoveMembersRequest{Conv: id, Users: o.users}, changed)
			return "removed " + listed(o.users), "", err
		case "/rename":
			err := t.c.Call(ctx, service+"RenameGroup", &petrelv1.RenameGroupRequest{Conv: id, Title: o.text}, changed)
			return "renamed", "", err
		case "/leave":
			err := t.c.Call(ctx, service+"LeaveGroup", &petrelv1.LeaveGroupRequest{Conv: id}, changed)
			return "you left", "", err
		case "/react", "/pin":
			return "", "", t.toggle(ctx, id, o)
		case "/dm":
			err := t.c.Call(ctx, "petrel.v1.AccountService/GetUser", &petrelv1.GetUserRequest{User: o.users[0]}, &petrelv1.Account{})
			return "", toUser + o.users[0], err
		}
		return "", "", fmt.Errorf("%s does nothing here", o.verb)
	}
}

// membersLines are /members.
func membersLines(g *group) []string {
	lines := []string{"", plural(len(g.members), "member")}
	for _, m := range g.members {
		role := ""
		if m.Role != petrelv1.Role_ROLE_MEMBER {
			role = roleText(m.Role)
		}
		lines = append(lines, m.User+"\t"+role)
	}
	if g.more {
		lines = append(lines, "and more")
	}
	return lines
}
