// Package im is the vocabulary of Petrel: the identifiers and numbers that every other package uses, and the
// errors that a client may see.
//
// Read im.go for the identifiers, deriveids.go for those that are derived, then standing.go, errors.go and
// displaytext.go. The file codes_gen.go is generated from proto/errors.yaml.
//
// The package imports nothing but the standard library. So it may not know how frames, rows or keys are encoded.
package im

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
)

// Seq numbers the entries of one conversation: 1, 2, 3, ... without gaps. Zero
// means "before the first entry". A Seq is never reused, even after its entry
// was recalled. Only package conv assigns it. Spec: P-5.1.
type Seq uint64

// Pos is a position in a feed. It counts the commits of the feed: 1, 2, 3, ...
// without gaps. A batch names the position of the commit before it. The store
// refuses the batch if the feed is at another position.
type Pos uint64

// Epoch is the fencing number of an owner. It grows with every change of owner,
// and the store refuses a batch that carries an older epoch. So a node that
// still believes itself the owner cannot write.
type Epoch uint64

// Partition is a slice of the conversations of a store. Partitions are numbered
// 0..Partitions-1.
type Partition uint16

// Partitions is how many partitions a store has. It is written into every store
// at its creation and checked at start: with another number, conversations would
// be looked for in the wrong partition.
const Partitions = 256

// Node names one process of a cluster.
type Node string

// Tenant is the number of a tenant. Every key in the store begins with it.
// Package user assigns the numbers; the default tenant has 1.
type Tenant uint32

// DefaultTenant exists without configuration.
const DefaultTenant Tenant = 1

// User is the id of a user within a tenant: 1..MaxUser bytes out of
// [A-Za-z0-9._@+-]. The empty User is the server itself.
type User string

// MaxUser is the length of the longest user id, in bytes. User ids are part of
// keys in the store, so they have to be short.
const MaxUser = 64

// Check returns an error that says why u is no user id, or nil. Errors: invalid.
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

// MaxTenantName is the length of the longest name of a tenant, in bytes. The name is part of tokens.
const MaxTenantName = 32

// IsTenantName reports whether a tenant may have the name: it is like a user id, but shorter and without dots.
func IsTenantName(name string) bool {
	return User(name).Check() == nil && len(name) <= MaxTenantName && !strings.Contains(name, ".")
}

// Kind is the kind of a conversation. It is the letter with which the
// conversation's id begins.
type Kind byte

// The kinds of conversations.
const (
	Direct   Kind = 'd' // two users (or one with themselves); the id is derived from them
	Group    Kind = 'g' // members are added and removed
	Channel  Kind = 'c'
	Chatroom Kind = 'r'
	Inbox    Kind = 'i' // one user's list of conversations and settings
)

// ConvID is the id of a conversation within a tenant. The first byte is the kind. The other 15 bytes are random,
// or a keyed hash, for example of the two users of a direct conversation; see IDs.
type ConvID [16]byte

// Kind returns the kind of the conversation c.
func (c ConvID) Kind() Kind { return Kind(c[0]) }

// String returns the id as clients see it: the letter of the kind and 20
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
		// The decoder skips line breaks. A text with line breaks in it decodes to
		// fewer than 15 bytes, and is refused: an id has one text form only.
		if n, err := base64.RawURLEncoding.Decode(c[1:], src[:]); err == nil && n == len(c)-1 {
			switch c[0] = s[0]; Kind(s[0]) {
			case Direct, Group, Channel, Chatroom, Inbox:
				return c, nil
			}
		}
	}
	return ConvID{}, Errorf(CodeNoConversation, "there is no conversation %.32q", s)
}

// NewGroupID returns a random group id.
func NewGroupID() ConvID {
	var c ConvID
	_, _ = rand.Read(c[1:]) // never fails
	c[0] = byte(Group)
	return c
}

// PartitionOf returns the partition that holds c. It takes one byte of the id: ids
// are hashes or random, so each value of a byte is equally likely.
func PartitionOf(c ConvID) Partition { return Partition(c[1]) }

// Key names a conversation among those of all tenants.
type Key struct {
	Tenant Tenant
	Conv   ConvID
}

func (k Key) String() string { return fmt.Sprintf("%d/%s", k.Tenant, k.Conv) }

// Account names a user among those of all tenants.
type Account struct {
	Tenant Tenant
	User   User
}

// OfTenant returns the key of a counter that all accounts of the tenant share. The key is not an account.
func (a Account) OfTenant() Account { return Account{Tenant: a.Tenant} }

func (a Account) String() string { return fmt.Sprintf("%d/%s", a.Tenant, a.User) }
