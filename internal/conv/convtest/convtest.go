// Package convtest has test helpers for conv and route: a node with the conversations of a store, a
// gate that holds the commits of this store, sends, and connections whose frames a test reads.
package convtest

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// OpenStore opens a small store on fs. The caller closes it.
func OpenStore(t testing.TB, fs vfs.FS) *pebblestore.Store {
	t.Helper()
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: fs, CacheBytes: 8 << 20, MemTableBytes: 1 << 20,
		BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Node is the part of a node that conv needs: a store, its conversations, and the online table.
type Node struct {
	T     testing.TB
	Gate  *Gate
	Table *fanout.Table
	Convs *conv.Convs // nil until Open
}

// NewNode makes a node on st, with nobody online.
func NewNode(t testing.TB, st store.Store) *Node {
	return &Node{T: t, Gate: &Gate{Store: st, failed: make(chan struct{})}, Table: fanout.NewTable()}
}

// Open makes the conversations. The caller runs them.
func (n *Node) Open(o conv.Options) {
	n.T.Helper()
	var err error
	if n.Convs, err = conv.New(n.T.Context(), o, n.Gate, n.Table); err != nil {
		n.T.Fatal(err)
	}
}

// Submit queues sends and returns the channels of their results, in the same order.
func (n *Node) Submit(sends ...*conv.Send) []chan conv.Result {
	out := make([]chan conv.Result, len(sends))
	for i, s := range sends {
		ch := make(chan conv.Result, 1)
		s.Done = func(r conv.Result) { ch <- r }
		out[i] = ch
	}
	var k fanout.WakeUps
	n.Convs.Submit(sends, &k)
	k.Flush()
	return out
}

// Await returns the result of a send.
func (n *Node) Await(ch chan conv.Result) conv.Result {
	n.T.Helper()
	return eventually.Receive(n.T, "the answer to a send", ch)
}

// Send sends, and returns the result.
func (n *Node) Send(s *conv.Send) conv.Result {
	n.T.Helper()
	return n.Await(n.Submit(s)[0])
}

// MustSend sends a message that must be accepted, and returns its seq.
func (n *Node) MustSend(s *conv.Send) im.Seq {
	n.T.Helper()
	r := n.Send(s)
	if r.Err != nil {
		n.T.Fatalf("send %s: %v (%s)", s.Entry.ClientMsgId, r.Err, r.Err.Code)
	}
	return r.Seq
}

// Group makes a group; its first entry adds the users.
func (n *Node) Group(users ...im.User) im.Key {
	n.T.Helper()
	key := NewGroup()
	change := &petrelv1.MemberChange{}
	for _, u := range users {
		change.Added = append(change.Added, &petrelv1.MemberRef{User: string(u)})
	}
	s := Entry(key, "create", change)
	s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
	if q := n.MustSend(s); q != 1 {
		n.T.Fatalf("the first entry of a group has seq %d", q)
	}
	return key
}

// NewGroup returns the key of a group that does not exist yet.
func NewGroup() im.Key { return im.Key{Tenant: im.DefaultTenant, Conv: im.NewGroupID()} }

// Message returns a send of a text. after < 0: it is sent without after.
func Message(key im.Key, from im.User, k string, after int, text string) *conv.Send {
	s := &conv.Send{Conv: key, Keyed: after < 0}
	if after > 0 {
		s.After = im.Seq(after)
	}
	s.Entry.From, s.Entry.ClientMsgId = string(from), k
	s.Entry.Body = &petrelv1.Message_Text{Text: text}
	return s
}

// Entry returns a send of the operator that changes members.
func Entry(key im.Key, k string, change *petrelv1.MemberChange) *conv.Send {
	s := &conv.Send{Conv: key, Keyed: true}
	s.Entry.ClientMsgId = k
	s.Entry.Body = &petrelv1.Message_Members{Members: change}
	return s
}

// Kick returns a send of the operator that removes a user from a group.
func Kick(key im.Key, k string, u im.User) *conv.Send {
	return Entry(key, k, &petrelv1.MemberChange{Removed: []string{string(u)}})
}

// Add returns a send of the operator that adds a user to a group.
func Add(key im.Key, k string, u im.User) *conv.Send {
	return Entry(key, k, &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: string(u)}}})
}

// WantCode checks that a send was refused with a code.
func WantCode(t testing.TB, r conv.Result, code im.Code) {
	t.Helper()
	if r.Err == nil || r.Err.Code != code {
		t.Errorf("answer %+v, want code %s", r, code)
	}
}

// History returns the whole history of a conversation as "seq:body". page reads one page for one user.
func History(t testing.TB, page func(*convpb.GetHistory) (*convpb.History, error)) []string {
	t.Helper()
	var all []string
	for after := im.Seq(0); ; {
		p, err := page(&convpb.GetHistory{After: uint64(after)})
		if err != nil {
			t.Fatalf("read history after %d: %v", after, err)
		}
		for _, row := range p.Rows {
			var m petrelv1.Message
			if err := wire.ParseMessage(row, &m); err != nil {
				t.Fatal(err)
			}
			all = append(all, show(&m))
			after = im.Seq(m.Seq)
		}
		if !p.More {
			return all
		}
		if len(p.Rows) == 0 {
			t.Fatal("a page without rows says that there are more")
		}
	}
}

// Show returns messages as "seq:body".
func Show(messages []*petrelv1.Message) []string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = show(m)
	}
	return all
}

// show returns a message as "seq:body".
func show(m *petrelv1.Message) string {
	switch b := m.Body.(type) {
	case *petrelv1.Message_Text:
		return fmt.Sprintf("%d:%s%s", m.Seq, b.Text, marks(m))
	case *petrelv1.Message_Members:
		return fmt.Sprintf("%d:members", m.Seq)
	case *petrelv1.Message_Edit:
		return fmt.Sprintf("%d:edit of %d %s%s", m.Seq, b.Edit.Target, b.Edit.GetText(), marks(m))
	case *petrelv1.Message_Recall:
		return fmt.Sprintf("%d:recall of %d", m.Seq, b.Recall.Target)
	case nil:
		return fmt.Sprintf("%d:%s", m.Seq, marks(m))
	default:
		return fmt.Sprintf("%d:%T", m.Seq, b)
	}
}

// marks says by which entries m was edited and recalled.
func marks(m *petrelv1.Message) string {
	var s string
	if m.EditedBy != 0 {
		s += fmt.Sprintf(" (edited by %d)", m.EditedBy)
	}
	if m.RecalledBy != 0 {
		s += fmt.Sprintf(" (recalled by %d)", m.RecalledBy)
	}
	return s
}

// SeqsOf returns the seqs of rows.
func SeqsOf(t testing.TB, rows [][]byte) []im.Seq {
	t.Helper()
	var all []im.Seq
	for _, row := range rows {
		var m petrelv1.Message
		if err := wire.ParseMessage(row, &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, im.Seq(m.Seq))
	}
	return all
}
