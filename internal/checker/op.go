// Package checker judges a server by the op logs of its clients: their sends, the answers, and the entries that
// they were shown. Check compares the logs with each other and with the server's history at the end, and names
// each broken promise with a witness. `petrel check`, the load generator and the tests all use it.
//
// docs/reference/checker.md describes the format of the logs and what follows from them. Promises are those of
// docs/architecture.md, I1 to I12.
package checker

import (
	"crypto/sha256"
	"encoding/binary"
)

// Kind is the kind of an op.
type Kind uint8

// The kinds of ops.
const (
	Invoke   Kind = iota + 1 // an attempt of a send leaves the client
	OK                       // the ack of a send, with its seq
	Rejected                 // this attempt of a send has stored nothing, and never will
	Unknown                  // this attempt of a send has no answer, or one that decides nothing
	Deliver                  // the client took an entry as new: once for each device, in the order of the seqs
	Read                     // the client was shown an entry, of a page of history for example, and may have it already
	Head                     // the client was told the head of a conversation
	Receipt                  // the client was told a pair of cursors
	Note                     // the client was told what members have made of an entry
	Follow                   // the device wants every entry above a seq, and has those up to it
	End                      // the device wants nothing more: an entry that it has not got is no loss
	Conv                     // a conversation and its members
	Entry                    // an entry of the history, as the operator reads it in the end
	History                  // the entries of a conversation are all there, from one seq to another
	lastKind
)

var kindNames = [lastKind]string{
	Invoke: "invoke", OK: "ok", Rejected: "rejected", Unknown: "unknown", Deliver: "deliver", Read: "read",
	Head: "head", Receipt: "receipt",
	Note: "note", Follow: "follow", End: "end", Conv: "conv", Entry: "entry", History: "history",
}

func (k Kind) String() string {
	if k > 0 && k < lastKind {
		return kindNames[k]
	}
	return "no kind"
}

// Op is one line of a log. The method missing knows which fields a kind needs. The others may be zero, which
// means that the log does not say.
type Op struct {
	Kind Kind
	// ns of a clock that all logs share: of an Invoke before it left, of all others after it came. 0: not known
	At    int64
	Began int64 // of a Read, a Head, or a Receipt that answers a request: At of the request. 0: nobody asked

	User    string // whose client it is
	Device  string // of the user; empty: the user has one
	Session string // name of the connection; no other connection in any of the logs has it

	Conv string
	To   string // of an Invoke, an OK, a Conv: the other user of a direct conversation whose id may not be known yet
	ID   string // client message id
	Body uint64 // Digest of the body; 0: it has none

	Seq       uint64 // of Head and History: the head; of Follow: what the device has; of Note: the entry it is about
	From      string // of Deliver, Read, Entry: who sent it; empty: the server
	Edits     uint64 // Invoke, Entry: the seq of the entry to which it gives another body
	Recalls   uint64 // Invoke, Entry: the seq of the entry whose body it takes away
	Rewritten uint64 // of Deliver, Read, Entry: the seq of the edit or recall that has rewritten it, as it says itself
	Hidden    bool   // of Deliver, Read: the client is told that it does not get the body

	// Since is a seq. Of a Read: the client was told that from Since up to the entry shown there is no other one
	// that this user may read. Of a Conv and a History: the seq where it begins.
	Since uint64

	About    string // of a Receipt: whose cursors
	ReadUpTo uint64 // of a Receipt; Seq is the delivered one
	Version  uint64 // of a Note

	Added   []string // of a Conv: its members from Since on; of an Entry: users who are members from it on
	Removed []string // of an Entry: users who are members up to it

	where uint64 // the line in its log, 1 for the first, above logBits bits for the number of the log
}

// logBits is the number of bits for the number of a log. It limits how many logs are checked at once.
const logBits = 12

// Digest returns the number that stands for a body in a log: the first 8 bytes of the SHA-256 of its type (""
// stands for "text"), a line feed, and the body. It is never 0.
func Digest(typ string, body []byte) uint64 {
	if typ == "" {
		typ = "text"
	}
	var space [512]byte
	b := append(append(append(space[:0], typ...), '\n'), body...)
	sum := sha256.Sum256(b)
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

// missing returns the name of the first field that an op lacks; "" if it lacks none, "op" if it has no kind.
func (op *Op) missing() string {
	conv, user, seq, id := op.Conv == "", op.User == "", op.Seq == 0, op.ID == ""
	switch op.Kind {
	case Invoke, Rejected, Unknown:
		switch {
		case user:
			return "user"
		case id:
			return "id"
		case conv && op.To == "":
			return "conv, or to"
		}
		return ""
	case OK:
		switch {
		case user:
			return "user"
		case id:
			return "id"
		case seq:
			return "seq"
		}
	case Deliver, Read, Note:
		if user {
			return "user"
		}
		if seq {
			return "seq"
		}
	case Head, Follow:
		if user {
			return "user"
		}
	case Receipt:
		if user || op.About == "" {
			return "user and about"
		}
	case Entry:
		if seq {
			return "seq"
		}
	case End:
		if user {
			return "user"
		}
		return ""
	case Conv, History:
	default:
		return "op"
	}
	if conv {
		return "conv"
	}
	return ""
}

// stream returns the key of the device that takes entries.
func (op *Op) stream() string { return op.User + "\x00" + op.Device }
