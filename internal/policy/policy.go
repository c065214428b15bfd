// Package policy has the rules of each kind of conversation: the role that each action needs, and how the
// server treats the conversation. Other packages ask for one of these answers, never for the kind. So a new
// kind of conversation is a new value here.
package policy

import (
	"math"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Nobody is a role that no user has. The server and the operator need no role.
const Nobody = petrelv1.Role(math.MaxInt32)

// Policy has the rules of a conversation. Each role is the lowest one with which a user may do
// something; the server and the operator need none.
type Policy struct {
	Write        petrelv1.Role
	MentionAll   petrelv1.Role
	Pin          petrelv1.Role
	RecallOthers petrelv1.Role // recall what others wrote
	Rename       petrelv1.Role
	Add          petrelv1.Role // add and remove members
	GiveRoles    petrelv1.Role // give roles, remove admins, dissolve the group

	// Refusal is the answer to a user who may not write.
	Refusal im.Error
	// Leave says that members may leave even if they may not write.
	Leave bool

	// Members says that users join and leave, and that there is a title. In the other kinds the users are fixed,
	// and the id of the conversation is derived from them.
	Members bool
	// Pair says that the conversation is one of two users, who may be the same. Each user learns how far the
	// other has read, and may block the other.
	Pair bool
	// List says that the conversation is a user's inbox: the list of their conversations and settings. No
	// list names it, its entries are no messages, and none of them becomes a hint.
	List bool

	// Signals says that users send signals, HeldSignals that signals wait for devices that are not connected.
	// Signals of a group do not wait: a user who was removed must get none of them.
	Signals     bool
	HeldSignals bool
}

const (
	member = petrelv1.Role_ROLE_MEMBER
	admin  = petrelv1.Role_ROLE_ADMIN
	owner  = petrelv1.Role_ROLE_OWNER
)

var (
	direct = &Policy{
		Write: member, MentionAll: member, Pin: member, RecallOthers: Nobody, Rename: Nobody, Add: Nobody,
		GiveRoles: Nobody,
		Pair:      true, Signals: true, HeldSignals: true,
	}
	group = &Policy{
		Write: member, MentionAll: admin, Pin: admin, RecallOthers: admin, Rename: admin, Add: admin, GiveRoles: owner,
		Members: true, Signals: true,
	}
	list = &Policy{
		Write: Nobody, MentionAll: Nobody, Pin: member, RecallOthers: Nobody, Rename: Nobody, Add: Nobody,
		GiveRoles: Nobody,
		Refusal:   im.Error{Code: im.CodeForbidden, Message: "only the server may write to an inbox"},
		List:      true,
	}
	other = &Policy{
		Write: Nobody, MentionAll: Nobody, Pin: Nobody, RecallOthers: Nobody, Rename: Nobody, Add: Nobody,
		GiveRoles: Nobody,
		Refusal:   im.Error{Code: im.CodeForbidden},
	}
	frozen = freeze(*group)
)

func freeze(p Policy) *Policy {
	p.Write, p.Leave, p.Refusal = Nobody, true, im.Error{Code: im.CodeFrozen}
	return &p
}

// Of returns the policy of the conversations of a kind.
func Of(k im.Kind) *Policy {
	switch k {
	case im.Direct:
		return direct
	case im.Group:
		return group
	case im.Inbox:
		return list
	}
	return other
}

// Frozen returns the policy of a group that the operator has frozen. Spec: P-8.12.
func Frozen() *Policy { return frozen }

// OfRecord returns the policy of the conversations with this kind in their record.
func OfRecord(k petrelv1.ConvKind) *Policy {
	switch k {
	case petrelv1.ConvKind_CONV_KIND_DIRECT:
		return direct
	case petrelv1.ConvKind_CONV_KIND_GROUP:
		return group
	case petrelv1.ConvKind_CONV_KIND_INBOX:
		return list
	}
	return other
}
