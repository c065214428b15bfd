package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// admit decides whether the sender may, and returns what the entry makes of
// the conversation's info. A refusal is an *im.Error, settled. Spec: P-4.5.
func (b *builder) admit(c *conv, s *Send) (*info, error) {
	in, from := c.log.info, im.User(s.Entry.From)
	if in.record == nil {
		return b.create(c, s)
	}
	if from != "" && in.members.Role(from) == 0 && !sabotageSkipsAdmission {
		return nil, &im.Error{Code: im.CodeNotMember}
	}
	if from != "" && c.key.Conv.Kind() == im.Inbox {
		return nil, im.Errorf(im.CodeForbidden, "only the server writes to an inbox")
	}
	change := s.Entry.GetMembers()
	if change == nil {
		return in, nil
	}
	if c.key.Conv.Kind() != im.Group {
		return nil, im.Errorf(im.CodeForbidden, "the members of this conversation do not change")
	}
	members, _ := in.members.apply(change, c.log.head+1)
	if len(members.current) > MaxMembers {
		return nil, im.Errorf(im.CodeInvalid, "a group has at most %d members", MaxMembers)
	}
	return &info{record: in.record, members: members}, nil
}

// create admits the first entry of a conversation that does not exist yet.
func (b *builder) create(c *conv, s *Send) (*info, error) {
	from := im.User(s.Entry.From)
	var record *storepb.Conversation
	members := &Members{}
	switch kind := c.key.Conv.Kind(); {
	case kind == im.Direct && from != "" && s.Peer != "":
		im.Assert(im.DirectID(c.key.Tenant, from, s.Peer) == c.key.Conv, "direct conversation of other users")
		if err := b.checkPeer(im.Account{Tenant: c.key.Tenant, User: s.Peer}); err != nil {
			return nil, err
		}
		record = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_DIRECT), Participants: []string{string(min(from, s.Peer)), string(max(from, s.Peer))}}
		members.join(from, petrelv1.Role_ROLE_MEMBER, 1)
		members.join(s.Peer, petrelv1.Role_ROLE_MEMBER, 1)
	case kind == im.Inbox && from == "" && s.Peer != "":
		record = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_INBOX), Participants: []string{string(s.Peer)}}
		members.join(s.Peer, petrelv1.Role_ROLE_OWNER, 1)
	case s.Create != nil:
		record = s.Create
		members, _ = members.apply(s.Entry.GetMembers(), 1)
	default:
		return nil, &im.Error{Code: im.CodeNoConversation}
	}
	record.CreatedMs = b.now
	members.list()
	return &info{record: record, members: members}, nil
}

func (b *builder) checkPeer(a im.Account) error {
	if b.cs.o.UserExists == nil {
		return nil
	}
	ok, err := b.cs.o.UserExists(context.Background(), a)
	if err != nil {
		return fmt.Errorf("look up user %s: %w", a, err)
	}
	if !ok {
		return im.Errorf(im.CodeNoUser, "there is no user %s", a.User)
	}
	return nil
}
