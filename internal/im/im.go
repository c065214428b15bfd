// Package im is the vocabulary of Petrel: the identifiers and numbers that
// every other package uses, and the errors a client may see. It imports
// nothing of Petrel.
package im

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// Seq numbers the entries of one conversation: 1, 2, 3, ... without gaps. Zero
// means "before the first". A Seq is never reused, even after its entry is
// recalled. Assigned in conv/commit.go. Spec: P-5.1.
type Seq uint64

// Pos counts the commits of one feed: 1, 2, 3, ... without gaps. A batch says
// from which Pos it goes on; the store refuses it if that is not the last one.
type Pos uint64

// Epoch fences owners: a batch of an older epoch is refused.
type Epoch uint64

// Partition is a slice of the conversations, 0..Partitions-1.
type Partition uint16

// Partitions is written into every store at its creation and checked at start.
const Partitions = 256

// Node names one process of a cluster.
type Node string

// Tenant is the number of a tenant; every key begins with it. Numbers are
// given out by the user package; the default tenant has 1.
type Tenant uint32

// DefaultTenant needs no configuration.
const DefaultTenant Tenant = 1

// User is a user id within a tenant: 1..MaxUser bytes out of
// [A-Za-z0-9._@+-]. The empty User is the server itself.
type User string

// MaxUser is the longest user id, in bytes; it is part of keys.
const MaxUser = 64

// Check says why u is not a user id.
func (u User) Check() error {
	if len(u) == 0 || len(u) > MaxUser {
		return Errorf(CodeInvalid, "a user id has 1 to %d characters", MaxUser)
	}
	for i := 0; i < len(u); i++ {
		c := u[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '.', c == '_', c == '@', c == '+', c == '-':
		default:
			return Errorf(CodeInvalid, "a user id is made of letters, digits and . _ @ + -")
		}
	}
	return nil
}

// Kind is the kind of a conversation. Its letter is the first byte of the id.
type Kind byte

// The kinds of conversations.
const (
	Direct   Kind = 'd' // two users (or one with themselves); the id is derived from them
	Group    Kind = 'g' // members are added and removed
	Channel  Kind = 'c'
	Chatroom Kind = 'r'
	Inbox    Kind = 'i' // one user's list of conversations and settings
)

// ConvID names a conversation within a tenant: its kind and 15 bytes, derived
// from what the conversation is for, or random.
type ConvID [16]byte

// Kind tells what kind of conversation c names.
func (c ConvID) Kind() Kind { return Kind(c[0]) }

// String is the id as clients see it: the letter of the kind and 20
// characters of URL-safe base64.
func (c ConvID) String() string {
	var b [21]byte
	b[0] = c[0]
	base64.RawURLEncoding.Encode(b[1:], c[1:])
	return string(b[:])
}

// ParseConvID reads what String wrote. Errors: no_conversation.
func ParseConvID(s string) (ConvID, error) {
	var c ConvID
	if len(s) == 21 {
		var src [20]byte
		copy(src[:], s[1:])
		// Less than 15 bytes: the decoder skips line breaks.
		if n, err := base64.RawURLEncoding.Decode(c[1:], src[:]); err == nil && n == len(c)-1 {
			switch c[0] = s[0]; Kind(s[0]) {
			case Direct, Group, Channel, Chatroom, Inbox:
				return c, nil
			}
		}
	}
	return ConvID{}, Errorf(CodeNoConversation, "there is no conversation %.32q", s)
}

// DirectID is the conversation of a and b, in either order; a == b is the
// user's notes to themselves. There is no verb that creates it, so two users
// who write first at the same time meet in one conversation.
func DirectID(t Tenant, a, b User) ConvID {
	if b < a {
		a, b = b, a
	}
	return derive(Direct, t, string(a), string(b))
}

// InboxID is the inbox of u.
func InboxID(t Tenant, u User) ConvID { return derive(Inbox, t, string(u)) }

// KeyedGroupID is the group that an application named key.
func KeyedGroupID(t Tenant, key string) ConvID { return derive(Group, t, key) }

// RequestedGroupID is the group that a user made with a request id: the same
// request makes it once.
func RequestedGroupID(a Account, request string) ConvID {
	return derive(Group, a.Tenant, string(a.User), request)
}

// NewGroupID is a random group id.
func NewGroupID() ConvID {
	var c ConvID
	_, _ = rand.Read(c[1:]) // never fails
	c[0] = byte(Group)
	return c
}

// derive hashes the parts behind their lengths, so that no two lists of parts
// share an input.
func derive(k Kind, t Tenant, parts ...string) ConvID {
	h := sha256.New()
	var b [5]byte
	b[0] = byte(k)
	binary.BigEndian.PutUint32(b[1:], uint32(t))
	h.Write(b[:])
	for _, p := range parts {
		binary.BigEndian.PutUint32(b[1:], uint32(len(p)))
		h.Write(b[1:])
		h.Write([]byte(p))
	}
	var c ConvID
	copy(c[1:], h.Sum(nil))
	c[0] = byte(k)
	return c
}

// PartitionOf is the partition that holds c. Ids are hashes or random, so
// their bytes spread by themselves; the tenant is folded into derived ones.
func PartitionOf(c ConvID) Partition { return Partition(c[1]) }

// Key names a conversation across tenants.
type Key struct {
	Tenant Tenant
	Conv   ConvID
}

func (k Key) String() string { return fmt.Sprintf("%d/%s", k.Tenant, k.Conv) }

// Account names a user across tenants.
type Account struct {
	Tenant Tenant
	User   User
}

func (a Account) String() string { return fmt.Sprintf("%d/%s", a.Tenant, a.User) }
