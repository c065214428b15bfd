// Package verdict has clients of one server do a little of everything that the checker can judge,
// and has it judged: sends and repeats, edits and recalls, pages of history, heads, cursors, members
// who come and go. Of a server that keeps its promises there is no finding. Rules of test/sabotage
// break one promise each, and the class of the finding is that of the promise.
package verdict

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Each class has a subtest, so that a rule of test/sabotage can say which one convicts.
func TestTheOpLogIsClean(t *testing.T) {
	l := &opLog{}
	l.w = checker.NewWriter(&l.b)
	play(t, l)
	if err := l.w.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := checker.Check([]checker.Log{{Name: "verdict.jsonl", Reader: &l.b}}, checker.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checker.Classes() {
		t.Run(c.String(), func(t *testing.T) {
			for _, w := range r.Witnesses {
				if w.Class == c {
					t.Fatal(w)
				}
			}
		})
	}
	t.Run("everything", func(t *testing.T) {
		if s := r.Sums; s.Acked == 0 || s.Rejected == 0 || s.Deliveries == 0 || s.Reads == 0 || s.Heads == 0 || s.Cursors == 0 || s.Rewrites == 0 ||
			s.Due == 0 || s.WithHistory != 2 || s.WithMembers != 2 {
			t.Fatalf("the log has %+v", s)
		}
	})
}

// opLog is written by one goroutine.
type opLog struct {
	b  bytes.Buffer
	w  *checker.Writer
	at int64 // moments so far
}

// now is the next moment. The order of the moments is all that matters.
func (l *opLog) now() int64 {
	l.at++
	return l.at
}

func (l *opLog) write(op checker.Op) { _ = l.w.Write(&op) } // the error stays, and Flush returns it

// client is a device of a user. It takes what is pushed when it is told to, so that one
// goroutine does everything.
type client struct {
	t    *testing.T
	l    *opLog
	user string
	conn *wiretest.Conn
	have map[string]uint64
}

func newClient(t *testing.T, l *opLog, srv *imtest.Server, user, token string) *client {
	return &client{t: t, l: l, user: user, conn: srv.Dial(wire.WebSocket, wire.Proto, token, "device"), have: map[string]uint64{}}
}

func (c *client) ctx() context.Context { return eventually.Context(c.t) }

// op is one of this client, now.
func (c *client) op(kind checker.Kind, conv string) checker.Op {
	return checker.Op{Kind: kind, At: c.l.now(), User: c.user, Device: "device", Session: c.user, Conv: conv}
}

// send sends, and returns the seq; 0: it was refused.
func (c *client) send(s *petrelv1.Send) (conv string, seq uint64) {
	c.t.Helper()
	op := c.op(checker.Invoke, s.Conv)
	op.To, op.ID = s.User, s.ClientMsgId
	switch b := s.Body.(type) {
	case *petrelv1.Send_Text:
		op.Body = checker.Digest(s.Type, []byte(b.Text))
	case *petrelv1.Send_Edit:
		op.Edits, op.Body = b.Edit.Target, checker.Digest(b.Edit.Type, []byte(b.Edit.GetText()))
	case *petrelv1.Send_Recall:
		op.Recalls = b.Recall.Target
	}
	c.l.write(op)
	ack, err := c.conn.Send(c.ctx(), s)
	op.At, op.Edits, op.Recalls, op.Body = c.l.now(), 0, 0, 0
	c.take() // the ack is the own copy of the entry: earlier pushes come before it
	switch {
	case err == nil:
		op.Kind, op.Conv, op.Seq = checker.OK, cmp.Or(ack.Conv, s.Conv), ack.Seq
	case im.CodeOf(err).Info().Settled:
		op.Kind = checker.Rejected
	default:
		c.t.Fatalf("%s sends %s: %v", c.user, s.ClientMsgId, err)
	}
	c.l.write(op)
	return op.Conv, op.Seq
}

// read reads a conversation from its beginning.
func (c *client) read(conv string) {
	c.t.Helper()
	for after, more := uint64(0), true; more; {
		began := c.l.now()
		page, err := c.conn.History(c.ctx(), &petrelv1.GetHistory{Conv: conv, After: after, Limit: 7})
		if err != nil {
			if code := im.CodeOf(err); code == im.CodeNotMember || code == im.CodeNoConversation {
				return
			}
			c.t.Fatalf("%s reads %s: %v", c.user, conv, err)
		}
		if page.Head > 0 {
			c.head(conv, page.Head, began)
		}
		since := uint64(0) // of the first one: a page may begin after what this user may not read
		for _, m := range page.Messages {
			op := checker.Shown(checker.Read, m)
			op.At, op.User, op.Device, op.Session, op.Began, op.Since = c.l.now(), c.user, "pages", c.user, began, since
			c.l.write(op)
			after, since = m.Seq, m.Seq+1
		}
		if more = page.More && len(page.Messages) > 0; !more {
			return
		}
	}
}

func (c *client) head(conv string, head uint64, began int64) {
	op := c.op(checker.Head, conv)
	op.Seq, op.Began = head, began
	c.l.write(op)
}

func (c *client) cursors(conv, about string, delivered, read uint64, began int64) {
	op := c.op(checker.Receipt, conv)
	op.About, op.Seq, op.ReadUpTo, op.Began = about, delivered, read, began
	c.l.write(op)
}

// sync asks for everything.
func (c *client) sync() {
	c.t.Helper()
	began := c.l.now()
	page, err := c.conn.Sync(c.ctx(), nil)
	if err != nil {
		c.t.Fatalf("%s syncs: %v", c.user, err)
	}
	for _, s := range page.Convs {
		if s.Left {
			continue // its head is that of this user
		}
		c.head(s.Conv, s.Head, began)
		c.cursors(s.Conv, c.user, s.Delivered, s.Read, began)
	}
}

// move moves the cursors of the user. The answer has them as they are.
func (c *client) move(conv string, delivered, read uint64) {
	c.t.Helper()
	began := c.l.now()
	id, err := c.conn.Write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Cursor{Cursor: &petrelv1.MoveCursor{Conv: conv, Delivered: delivered, Read: read}}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.takeUntil(func(f *petrelv1.ServerFrame) bool {
		if f.Id != id {
			return false
		}
		if m := f.GetCursor(); m != nil {
			c.cursors(conv, c.user, m.Delivered, m.Read, began)
		}
		return true
	})
}

// take takes what has been pushed.
func (c *client) take() {
	c.t.Helper()
	id, err := c.conn.Write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.takeUntil(func(f *petrelv1.ServerFrame) bool { return f.Id == id })
}

func (c *client) takeUntil(last func(f *petrelv1.ServerFrame) bool) {
	c.t.Helper()
	for {
		f, err := c.conn.Recv(c.ctx())
		if err != nil {
			c.t.Fatalf("%s: %v", c.user, err)
		}
		for _, m := range f.GetEvents().GetMessages() {
			if m.Conv[0] == byte(im.Inbox) {
				continue
			}
			op := checker.Shown(checker.Deliver, m)
			op.At, op.User, op.Device, op.Session = c.l.now(), c.user, "device", c.user
			c.l.write(op)
			c.have[m.Conv] = max(c.have[m.Conv], m.Seq)
		}
		for _, r := range f.GetEvents().GetReceipts() {
			c.cursors(r.Conv, r.User, r.Delivered, r.Read, 0)
		}
		if last(f) {
			return
		}
	}
}

func text(conv, id, body string) *petrelv1.Send {
	return &petrelv1.Send{Conv: conv, ClientMsgId: id, Body: &petrelv1.Send_Text{Text: body}}
}

func play(t *testing.T, l *opLog) {
	srv := imtest.Start(t, imtest.Options{})
	names := []string{"alice", "bob", "carol", "dave"}
	tokens := srv.Users("", names...)
	group := srv.Group("", "group", "alice", "bob", "carol")
	all := map[string]*client{}
	for i, n := range names {
		all[n] = newClient(t, l, srv, n, tokens[i])
		all[n].sync()
	}
	alice, bob, carol, dave := all["alice"], all["bob"], all["carol"], all["dave"]
	everybody := func(do func(c *client)) {
		for _, n := range names {
			do(all[n])
		}
	}
	everybody((*client).take) // the group itself is told before anybody writes

	for i := range 60 {
		by := []*client{alice, bob, carol}[i%3]
		by.send(text(group, fmt.Sprint("m", i), fmt.Sprintf("message %d of %s", i, by.user)))
		if i%10 == 0 {
			alice.read(group)
			bob.sync()
		}
	}
	for _, i := range []int{0, 3, 57} { // of alice, again as they were
		alice.send(text(group, fmt.Sprint("m", i), fmt.Sprintf("message %d of alice", i)))
	}
	dave.send(text(group, "in", "let me in"))
	dave.read(group)
	direct, _ := alice.send(&petrelv1.Send{User: "bob", ClientMsgId: "hello", Body: &petrelv1.Send_Text{Text: "hello"}})
	bob.send(text(direct, "hi", "hi"))
	everybody((*client).take)

	for _, at := range []struct{ delivered, read uint64 }{{20, 10}, {30, 30}, {25, 5}, {1000, 1000}} {
		bob.move(group, at.delivered, at.read)
		bob.sync()
		alice.take()
	}

	alice.send(&petrelv1.Send{Conv: group, ClientMsgId: "edit", Body: &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 2, Body: &petrelv1.Edit_Text{Text: "another text"}}}})
	alice.send(&petrelv1.Send{Conv: group, ClientMsgId: "edit again", Body: &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 2, Body: &petrelv1.Edit_Text{Text: "a third text"}}}})
	alice.send(&petrelv1.Send{Conv: group, ClientMsgId: "recall", Body: &petrelv1.Send_Recall{Recall: &petrelv1.Recall{Target: 5}}})
	everybody((*client).take)
	everybody(func(c *client) { c.read(group) })

	change := func(c *petrelv1.MemberChange) {
		if _, err := srv.Admin.ChangeMembers(t.Context(), connect.NewRequest(&petrelv1.ChangeMembersRequest{Conv: group, Change: c, RequestId: fmt.Sprint(c)})); err != nil {
			t.Fatal(err)
		}
	}
	change(&petrelv1.MemberChange{Removed: []string{"carol"}})
	for i := range 5 {
		bob.send(text(group, fmt.Sprint("without carol ", i), "carol does not see this"))
	}
	carol.send(text(group, "still", "am I still here?"))
	change(&petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: "dave", Role: petrelv1.Role_ROLE_MEMBER}}})
	for i := range 5 {
		dave.send(text(group, fmt.Sprint("with dave ", i), "dave sees this"))
	}
	everybody((*client).take)
	everybody(func(c *client) { c.read(group); c.sync() })
	history(t, l, srv, group)
	history(t, l, srv, direct)
	l.write(checker.Op{Kind: checker.Conv, Conv: direct, User: "alice", To: "bob", Added: []string{"alice", "bob"}})
	for _, c := range []*client{alice, bob} {
		l.write(checker.Op{Kind: checker.Follow, User: c.user, Device: "device", Conv: group, Seq: 1})
		l.write(checker.Op{Kind: checker.Follow, User: c.user, Device: "device", Conv: direct})
	}
}

// history notes a conversation as the operator reads it.
func history(t *testing.T, l *opLog, srv *imtest.Server, conv string) {
	after := uint64(0)
	for more := true; more; {
		r, err := srv.Admin.GetHistory(t.Context(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: conv, After: after}}))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Msg.Messages {
			l.write(checker.Shown(checker.Entry, m))
			after = m.Seq
		}
		more = r.Msg.More && len(r.Msg.Messages) > 0
	}
	l.write(checker.Op{Kind: checker.History, Conv: conv, Seq: after})
}
