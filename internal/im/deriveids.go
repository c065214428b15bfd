package im

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// IDs derives ids of conversations from known names: the id of a direct conversation from its users, that of an
// inbox from its user, and that of a group from the key of an application or from the request id of the user who
// creates it.
//
// The key comes from the secret of the store, which no client knows. With a hash that everybody can compute, an
// outsider would know the id of the conversation of alice and bob, and could try what the server answers to it.
// Backups, restores and repairs keep the secret, and the nodes of a cluster share it: with another secret, all
// conversations would have other ids. Spec: P-8.4.
type IDs struct{ key [sha256.Size]byte }

// idsLabel separates the key of IDs from other keys that are derived from the secret.
const idsLabel = "petrel conversation ids"

// NewIDs makes the ids of the store with this secret.
func NewIDs(secret [16]byte) *IDs {
	h := hmac.New(sha256.New, secret[:])
	h.Write([]byte(idsLabel))
	return &IDs{key: [sha256.Size]byte(h.Sum(nil))}
}

// Direct returns the id of the direct conversation of a and b. The order of a and b
// does not matter. With a == b it holds the user's notes to themselves.
//
// No call creates a direct conversation; its id follows from its users. So two
// users who write their first messages to each other at the same time write into
// the same conversation.
func (d *IDs) Direct(t Tenant, a, b User) ConvID {
	if b < a {
		a, b = b, a
	}
	return d.derive(Direct, t, string(a), string(b))
}

// Inbox returns the id of the inbox of u.
func (d *IDs) Inbox(t Tenant, u User) ConvID { return d.derive(Inbox, t, string(u)) }

// KeyedGroup returns the id of the group that an application calls key.
func (d *IDs) KeyedGroup(t Tenant, key string) ConvID { return d.derive(Group, t, key) }

// RequestedGroup returns the id of the group that a user creates with a request id.
// A repeated request has the same id, so it creates no second group.
func (d *IDs) RequestedGroup(a Account, request string) ConvID {
	return d.derive(Group, a.Tenant, string(a.User), request)
}

// ContactEntry returns the client message id of the entry by which a user's inbox tells a change of contacts, of a
// direct conversation and with this version. The id does not tell the version: gaps between versions would tell of
// changes that the user does not see.
func (d *IDs) ContactEntry(c Key, u User, version uint64) string {
	id := d.derive(0, c.Tenant, string(c.Conv[:]), string(u), strconv.FormatUint(version, 10))
	return hex.EncodeToString(id[1:])
}

// derive returns the SHA-256 of the key, kind, tenant and parts, cut to 15 bytes. It writes the length of each
// part before the part. Without the lengths the users "ab" and "c" would have the same conversation as "a" and
// "bc".
//
// HMAC would hash a second time, against an attacker who extends a known hash. That attack needs the whole hash,
// and an id has less than half of it. Every message to a user calls this function: it takes half the time of
// HMAC, and no allocation.
func (d *IDs) derive(k Kind, t Tenant, parts ...string) ConvID {
	const longest = sha256.Size + 5 + 2*(4+2*MaxUser) // longer parts go to the heap
	var buf [longest]byte
	b := append(buf[:0], d.key[:]...)
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, uint32(t))
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	c := ConvID(sum[:len(ConvID{})])
	c[0] = byte(k)
	return c
}

// PairKey returns the key of a record about the user u and another user. If other is "", it returns the prefix of
// the keys of all pairs of u.
func PairKey(u, other User) []byte {
	return append(append([]byte(u), 0), other...)
}
