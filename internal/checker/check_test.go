package checker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// story is a short run in which everything is as promised. Three members write to a group,
// each on one device; one is added and one is removed; a message is edited, one is recalled,
// one is rejected, and two have no answer, of which one is stored.
type story struct {
	ops []Op
	now int64
}

const group = "gGroup"

var body = func(text string) uint64 { return Digest("", []byte(text)) }

func (s *story) add(op Op) {
	s.now += 10
	if op.At == 0 {
		op.At = s.now
	}
	if op.Conv == "" && op.To == "" && op.Kind != End {
		op.Conv = group
	}
	if op.User != "" && op.Device == "" {
		op.Device = "phone"
	}
	if op.User != "" && op.Session == "" {
		op.Session = op.User + "-1"
	}
	s.ops = append(s.ops, op)
}

// sent is a message that is stored at a seq and acked.
func (s *story) sent(user, id string, seq uint64) {
	s.add(Op{Kind: Invoke, User: user, ID: id, Body: body(id)})
	s.add(Op{Kind: OK, User: user, ID: id, Seq: seq})
}

func (s *story) deliver(seq uint64, from, id string, users ...string) {
	for _, u := range users {
		s.add(Op{Kind: Deliver, User: u, Seq: seq, From: from, ID: id, Body: body(id)})
	}
}

func newStory() *story {
	s := &story{}
	server := func(seq uint64, users ...string) {
		for _, u := range users {
			s.add(Op{Kind: Deliver, User: u, Seq: seq})
		}
	}
	for _, u := range []string{"alice", "bob", "eve"} {
		s.add(Op{Kind: Follow, User: u})
	}
	server(1, "alice", "bob", "eve")
	s.sent("alice", "a1", 2)
	s.deliver(2, "alice", "a1", "bob", "eve")
	s.sent("bob", "b1", 3)
	s.deliver(3, "bob", "b1", "alice", "eve")
	s.sent("alice", "a2", 4)
	s.deliver(4, "alice", "a2", "bob", "eve")
	// Eve is removed and Dave is added.
	server(5, "alice", "bob", "eve")
	s.add(Op{Kind: Follow, User: "dave", Seq: 4})
	server(5, "dave")
	// Zoe, who is no member, is refused.
	s.add(Op{Kind: Invoke, User: "zoe", ID: "z1", Body: body("z1")})
	s.add(Op{Kind: Rejected, User: "zoe", ID: "z1"})
	// One has no answer and is stored, another one is not.
	s.add(Op{Kind: Invoke, User: "bob", ID: "b2", Body: body("b2")})
	s.add(Op{Kind: Unknown, User: "bob", ID: "b2"})
	s.deliver(6, "bob", "b2", "alice", "dave", "bob")
	s.add(Op{Kind: Invoke, User: "bob", ID: "b3", Body: body("b3")})
	s.add(Op{Kind: Unknown, User: "bob", ID: "b3"})
	// Alice edits a1, and recalls a2.
	s.add(Op{Kind: Invoke, User: "alice", ID: "a3", Body: body("a3"), Edits: 2})
	s.add(Op{Kind: OK, User: "alice", ID: "a3", Seq: 7})
	s.deliver(7, "alice", "a3", "bob")
	s.add(Op{Kind: Deliver, User: "dave", Seq: 7, From: "alice", ID: "a3", Hidden: true}) // who may not read its target
	s.add(Op{Kind: Invoke, User: "alice", ID: "a4", Recalls: 4})
	s.add(Op{Kind: OK, User: "alice", ID: "a4", Seq: 8})
	for _, u := range []string{"bob", "dave"} {
		s.add(Op{Kind: Deliver, User: u, Seq: 8, From: "alice", ID: "a4"})
	}
	// A message of a client that repeats it, and a probe with another body.
	s.add(Op{Kind: Invoke, User: "bob", ID: "b4", Body: body("b4")})
	s.add(Op{Kind: Unknown, User: "bob", ID: "b4"})
	s.add(Op{Kind: Invoke, User: "bob", ID: "b4", Session: "bob-2", Body: body("b4")})
	s.add(Op{Kind: OK, User: "bob", ID: "b4", Session: "bob-2", Seq: 9})
	s.add(Op{Kind: Invoke, User: "bob", ID: "b4", Session: "bob-2", Body: body("another")})
	s.add(Op{Kind: Rejected, User: "bob", ID: "b4", Session: "bob-2", Body: body("another")})
	s.deliver(9, "bob", "b4", "alice", "dave")
	for i, u := range []string{"alice", "bob"} {
		s.add(Op{Kind: Head, User: u, Began: s.now, Seq: 9})
		s.add(Op{Kind: Receipt, User: u, About: "dave", Seq: 8, ReadUpTo: uint64(6 + i)})
		s.add(Op{Kind: Receipt, User: u, About: "dave", Seq: 9, ReadUpTo: uint64(7 + i)})
		s.add(Op{Kind: Receipt, User: u, About: "dave", Began: s.now, Seq: 9, ReadUpTo: 9})
	}
	// Bob reads two pages again.
	began := s.now
	s.add(Op{Kind: Read, User: "bob", Began: began, Seq: 1, Since: 1})
	s.add(Op{Kind: Read, User: "bob", Began: began, Seq: 2, Since: 2, From: "alice", ID: "a1", Body: body("a3"), Rewritten: 7})
	s.add(Op{Kind: Read, User: "bob", Began: began, Seq: 4, Since: 4, From: "alice", ID: "a2", Rewritten: 8})
	s.add(Op{Kind: Note, User: "bob", Seq: 3, Version: 1, Body: 77})
	s.add(Op{Kind: Note, User: "alice", Seq: 3, Version: 1, Body: 77})
	s.history()
	return s
}

func (s *story) history() {
	s.add(Op{Kind: Entry, Seq: 1, Added: []string{"alice", "bob", "eve"}})
	for seq, m := range map[uint64][2]string{3: {"bob", "b1"}, 6: {"bob", "b2"}, 7: {"alice", "a3"}, 9: {"bob", "b4"}} {
		s.add(Op{Kind: Entry, Seq: seq, From: m[0], ID: m[1], Body: body(m[1])})
	}
	s.add(Op{Kind: Entry, Seq: 2, From: "alice", ID: "a1", Body: body("a3"), Rewritten: 7})
	s.add(Op{Kind: Entry, Seq: 4, From: "alice", ID: "a2", Rewritten: 8})
	s.add(Op{Kind: Entry, Seq: 5, Added: []string{"dave"}, Removed: []string{"eve"}})
	s.add(Op{Kind: Entry, Seq: 8, From: "alice", ID: "a4"})
	s.add(Op{Kind: History, Seq: 9})
}

// find is the first op that is like one.
func (s *story) find(like Op) *Op {
	for i := range s.ops {
		op := &s.ops[i]
		if op.Kind == like.Kind && (like.User == "" || like.User == op.User) && (like.ID == "" || like.ID == op.ID) &&
			(like.Seq == 0 || like.Seq == op.Seq) && (like.About == "" || like.About == op.About) {
			return op
		}
	}
	panic(fmt.Sprintf("there is no op like %v", like))
}

func (s *story) remove(like Op) {
	op := s.find(like)
	s.ops = slices.DeleteFunc(s.ops, func(x Op) bool { return x.At == op.At && x.Kind == op.Kind && x.User == op.User })
}

// check writes the ops, and checks that.
func (s *story) check(t *testing.T) *Report {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for i := range s.ops {
		if err := w.Write(&s.ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := Check([]Log{{"run.jsonl", &b}}, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAStoryAsPromisedIsClean(t *testing.T) {
	r := newStory().check(t)
	if !r.Findings.Clean() {
		t.Errorf("findings: %v", r.Witnesses)
	}
	want := Sums{
		Ops: uint64(len(newStory().ops)), Conversations: 1, Messages: 9, Attempts: 11, Acked: 6, Rejected: 1, Unknown: 2, UnknownKept: 1,
		Deliveries: 22, Reads: 3, Heads: 2, Cursors: 6, Rewrites: 2, Due: 9*3 + 5, Entries: 9, WithHistory: 1, WithMembers: 1,
	}
	if r.Sums != want {
		t.Errorf("sums %+v\nwant %+v", r.Sums, want)
	}
}

// fault changes the log of a story into one of a server that breaks a promise.
type fault struct {
	name    string
	promise string
	class   Class
	do      func(s *story)
}

// planted are logs of servers that break one promise each.
var planted = []fault{
	{"an acked message is not in the history", "I1", Lost, func(s *story) { s.remove(Op{Kind: Entry, Seq: 3}) }},
	{"the newest acked message is not in the history", "I1", Lost, func(s *story) { s.remove(Op{Kind: Entry, Seq: 9}); s.find(Op{Kind: History}).Seq = 8 }},
	{"the history has another body", "I1", Altered, func(s *story) { s.find(Op{Kind: Entry, Seq: 3}).Body++ }},
	{"a repeat is stored again", "I2", Duplicate, func(s *story) {
		s.add(Op{Kind: Entry, Seq: 10, From: "bob", ID: "b4", Body: body("b4")})
		s.find(Op{Kind: History}).Seq = 10
		for _, u := range []string{"alice", "bob", "dave"} {
			s.add(Op{Kind: Read, User: u, Seq: 10, From: "bob", ID: "b4", Body: body("b4")})
		}
	}},
	{"a message of unknown outcome is stored twice", "I2", Duplicate, func(s *story) {
		s.add(Op{Kind: Entry, Seq: 10, From: "bob", ID: "b2", Body: body("b2")})
		s.find(Op{Kind: History}).Seq = 10
		s.deliver(10, "bob", "b2", "alice", "dave", "bob")
	}},
	{"a repeat is acked at another seq", "I2", Duplicate, func(s *story) {
		s.add(Op{Kind: Invoke, User: "bob", ID: "b4", Body: body("b4")})
		s.add(Op{Kind: OK, User: "bob", ID: "b4", Seq: 10})
	}},
	{"a repeat with another body is acked", "I2", Altered, func(s *story) {
		op := s.find(Op{Kind: Rejected, User: "bob"})
		op.Kind, op.Seq = OK, 9
	}},
	{"a device takes an entry as new twice", "I2", Duplicate, func(s *story) { s.deliver(9, "bob", "b4", "alice") }},
	{"an entry is pushed that nobody sent", "I3", Ghost, func(s *story) { s.deliver(10, "bob", "never", "alice") }},
	{"an entry is stored that nobody sent", "I3", Ghost, func(s *story) {
		s.add(Op{Kind: Entry, Seq: 10, From: "bob", ID: "never", Body: 5})
		s.find(Op{Kind: History}).Seq = 10
	}},
	{"a rejected message is stored", "I3", Ghost, func(s *story) {
		op := s.find(Op{Kind: Entry, Seq: 6})
		op.From, op.ID, op.Body = "zoe", "z1", body("z1")
	}},
	{"a rejected message is pushed", "I3", Refused, func(s *story) { s.deliver(10, "zoe", "z1", "alice") }},
	{"what answers nothing is acked", "I3", Ghost, func(s *story) { s.add(Op{Kind: OK, User: "alice", ID: "other", Seq: 10}) }},
	{"a seq is missing in the history", "I4", Gap, func(s *story) {
		s.find(Op{Kind: History}).Seq = 11
		s.add(Op{Kind: Entry, Seq: 11})
		for _, u := range []string{"alice", "bob", "dave"} {
			s.add(Op{Kind: Read, User: u, Seq: 11})
			s.add(Op{Kind: Read, User: u, Seq: 10})
		}
		s.ops = slices.DeleteFunc(s.ops, func(op Op) bool { return op.Kind == Read && op.Seq == 10 })
	}},
	{"a page leaves an entry out", "I4", Gap, func(s *story) {
		s.add(Op{Kind: Read, User: "alice", Seq: 4, Since: 3, From: "alice", ID: "a2", Rewritten: 8})
	}},
	{"two messages are acked at one seq", "I4", Reordered, func(s *story) { s.find(Op{Kind: OK, ID: "a2"}).Seq = 3 }},
	{"two members see two entries at one seq", "I4", Altered, func(s *story) { s.find(Op{Kind: Deliver, User: "eve", Seq: 5}).Body = 9 }},
	{"a push has another body", "I4", Altered, func(s *story) { s.find(Op{Kind: Deliver, User: "eve", Seq: 3}).Body++ }},
	{"a push names another sender", "I4", Altered, func(s *story) {
		op := s.find(Op{Kind: Deliver, User: "eve", Seq: 3})
		op.From, op.ID = "mallory", "m"
	}},
	{"a later message stands before an acked one", "I5", Reordered, func(s *story) {
		// b5 was sent after everything, and everybody was told of it at seq 10, and of another one at 11 that was acked before.
		s.sent("alice", "a5", 11)
		s.sent("bob", "b5", 10)
		s.deliver(10, "bob", "b5", "alice", "dave")
		s.deliver(11, "alice", "a5", "bob", "dave")
		s.find(Op{Kind: History}).Seq = 11
		s.add(Op{Kind: Entry, Seq: 10, From: "bob", ID: "b5", Body: body("b5")})
		s.add(Op{Kind: Entry, Seq: 11, From: "alice", ID: "a5", Body: body("a5")})
	}},
	{"two sends of a connection change places", "I5", Reordered, func(s *story) {
		s.add(Op{Kind: Invoke, User: "alice", ID: "a5", Body: body("a5")})
		s.add(Op{Kind: Invoke, User: "alice", ID: "a6", Body: body("a6")})
		s.add(Op{Kind: OK, User: "alice", ID: "a6", Seq: 10})
		s.add(Op{Kind: OK, User: "alice", ID: "a5", Seq: 11})
		for _, m := range []string{"a6", "a5"} {
			seq := uint64(10 + b2u(m == "a5"))
			s.deliver(seq, "alice", m, "bob", "dave")
			s.add(Op{Kind: Entry, Seq: seq, From: "alice", ID: m, Body: body(m)})
		}
		s.find(Op{Kind: History}).Seq = 11
	}},
	{"a push comes after a later one", "I5", Reordered, func(s *story) {
		one, two := s.find(Op{Kind: Deliver, User: "eve", Seq: 2}), s.find(Op{Kind: Deliver, User: "eve", Seq: 3})
		one.Seq, one.From, one.ID, one.Body, two.Seq, two.From, two.ID, two.Body = two.Seq, two.From, two.ID, two.Body, one.Seq, one.From, one.ID, one.Body
	}},
	{"a lost push in the middle is never noticed", "I6", Lost, func(s *story) { s.remove(Op{Kind: Deliver, User: "dave", Seq: 7}) }},
	{"the last push is lost, and nobody is told", "I6", Lost, func(s *story) { s.remove(Op{Kind: Deliver, User: "dave", Seq: 9}) }},
	{"what was pushed is not in the history", "I6", Ghost, func(s *story) { s.remove(Op{Kind: Entry, Seq: 6}) }},
	{"a head goes back", "I7", Stale, func(s *story) { s.add(Op{Kind: Head, User: "alice", Began: s.now, Seq: 8}) }},
	{"an entry is read before it is sent", "I7", Stale, func(s *story) {
		op := s.find(Op{Kind: Invoke, ID: "a1"})
		s.ops = append([]Op{{Kind: Head, User: "bob", Conv: group, Began: op.At - 2, At: op.At - 1, Seq: 2}}, s.ops...)
	}},
	{"a receipt goes back", "I8", Cursor, func(s *story) { s.add(Op{Kind: Receipt, User: "alice", About: "dave", Seq: 9, ReadUpTo: 6}) }},
	{"a cursor that was acked is forgotten", "I8", Cursor, func(s *story) {
		s.add(Op{Kind: Receipt, User: "dave", Session: "dave-2", About: "dave", Began: s.now, Seq: 9, ReadUpTo: 8})
	}},
	{"read is above delivered", "I8", Cursor, func(s *story) { s.find(Op{Kind: Receipt, Seq: 8}).ReadUpTo = 9 }},
	{"a cursor is above the head", "I8", Cursor, func(s *story) {
		s.add(Op{Kind: Receipt, User: "alice", About: "bob", Seq: 12, ReadUpTo: 12})
	}},
	{"who was removed gets a later entry", "I9", Leaked, func(s *story) { s.deliver(6, "bob", "b2", "eve") }},
	{"who was added reads what was before", "I9", Leaked, func(s *story) {
		s.add(Op{Kind: Read, User: "dave", Seq: 3, From: "bob", ID: "b1", Body: body("b1")})
	}},
	{"who was added gets an edit of what was before", "I9", Leaked, func(s *story) {
		op := s.find(Op{Kind: Deliver, User: "dave", Seq: 7})
		op.Body, op.Hidden = body("a3"), false
	}},
	{"an outsider gets an entry", "I9", Leaked, func(s *story) { s.deliver(9, "bob", "b4", "zoe") }},
	{"a full queue drops a slow client's events in silence", "I10", Lost, func(s *story) {
		s.ops = slices.DeleteFunc(s.ops, func(op Op) bool { return op.Kind == Deliver && op.User == "dave" && op.Seq > 6 })
	}},
	{"a node serves less than was acked after a disk error", "I11", Lost, func(s *story) {
		s.remove(Op{Kind: Entry, Seq: 9})
		s.remove(Op{Kind: Entry, Seq: 8})
		s.find(Op{Kind: History}).Seq = 7
	}},
	{"a recalled body is on a page", "I12", Recalled, func(s *story) {
		op := s.find(Op{Kind: Read, Seq: 4})
		op.Body, op.Rewritten = body("a2"), 0
	}},
	{"a recalled body is on a page, which says that it is recalled", "I12", Recalled, func(s *story) { s.find(Op{Kind: Read, Seq: 4}).Body = body("a2") }},
	{"the former body of an edited message is on a page", "I12", Recalled, func(s *story) {
		op := s.find(Op{Kind: Read, Seq: 2})
		op.Body, op.Rewritten = body("a1"), 0
	}},
	{"the history keeps a recalled body", "I12", Recalled, func(s *story) {
		op := s.find(Op{Kind: Entry, Seq: 4})
		op.Body, op.Rewritten = body("a2"), 0
	}},
	{"an application is shown a body that it saw recalled", "I12", Recalled, func(s *story) { s.deliver(4, "alice", "a2", "dave") }},
}

func TestPlantedFaultsAreConvicted(t *testing.T) {
	promises, found := map[string]bool{}, map[Class]bool{}
	for _, f := range planted {
		t.Run(f.name, func(t *testing.T) {
			s := newStory()
			f.do(s)
			r := s.check(t)
			if r.Findings[f.class] == 0 {
				t.Errorf("%s: findings %v, want %s; %v", f.promise, r.Findings, f.class, r.Witnesses)
			}
			has := slices.IndexFunc(r.Witnesses, func(w Witness) bool { return w.Class == f.class })
			if has < 0 || r.Witnesses[has].Text == "" || !strings.HasPrefix(r.Witnesses[has].Text, group) {
				t.Fatalf("no witness of %s: %v", f.class, r.Witnesses)
			}
			t.Logf("%s %s: %v; %s", f.promise, f.class, r.Findings, r.Witnesses[has])
		})
		promises[f.promise], found[f.class] = true, true
	}
	for n := 1; n <= 12; n++ {
		if !promises[fmt.Sprintf("I%d", n)] {
			t.Errorf("no fault breaks I%d", n)
		}
	}
	for _, c := range Classes() {
		if !found[c] {
			t.Errorf("no fault is %s", c)
		}
	}
}

// TestTheFirstAttemptIsTheFirst: a client does not know the id of a new direct conversation when
// it sends, and knows it when it sends the same id again with another body.
func TestTheFirstAttemptIsTheFirst(t *testing.T) {
	for _, timed := range []bool{true, false} {
		s := &story{}
		began := s.now + 1
		s.add(Op{Kind: Invoke, User: "alice", To: "bob", ID: "d1", Body: body("d1")})
		s.add(Op{Kind: Invoke, User: "alice", To: "bob", ID: "d2", Body: body("d2")})
		s.add(Op{Kind: OK, User: "alice", To: "bob", Conv: "dDirect", ID: "d1", Seq: 1, Body: body("d1")})
		s.add(Op{Kind: OK, User: "alice", To: "bob", Conv: "dDirect", ID: "d2", Seq: 2, Body: body("d2")})
		s.add(Op{Kind: Head, User: "bob", Conv: "dDirect", Began: began, Seq: 2})
		s.add(Op{Kind: Invoke, User: "alice", To: "bob", Conv: "dDirect", ID: "d1", Body: body("another")})
		s.add(Op{Kind: Rejected, User: "alice", To: "bob", Conv: "dDirect", ID: "d1", Body: body("another")})
		for seq, id := range []string{"d1", "d2"} {
			s.add(Op{Kind: Entry, Conv: "dDirect", Seq: uint64(seq + 1), From: "alice", ID: id, Body: body(id)})
		}
		s.add(Op{Kind: History, Conv: "dDirect", Seq: 2})
		if !timed {
			for i := range s.ops {
				s.ops[i].At, s.ops[i].Began = 0, 0
			}
		}
		if r := s.check(t); !r.Findings.Clean() || r.Acked != 2 || r.Attempts != 3 {
			t.Errorf("timed %v: %v, %+v; %v", timed, r.Findings, r.Sums, r.Witnesses)
		}
		op := s.find(Op{Kind: Rejected})
		op.Kind, op.Seq = OK, 1
		if r := s.check(t); r.Findings[Altered] != 1 || r.Findings.Sum() != 1 {
			t.Errorf("timed %v, the other body is acked: %v, want one altered; %v", timed, r.Findings, r.Witnesses)
		}
	}
}

func TestReportsOfSeveralRunsAddUp(t *testing.T) {
	var sum Report
	s := newStory()
	s.find(Op{Kind: Entry, Seq: 3}).Body++
	for range MaxWitnesses + 1 {
		sum.Add(newStory().check(t))
		sum.Add(s.check(t))
	}
	one, n := newStory().check(t), uint64(MaxWitnesses+1)
	if sum.Ops != 2*n*one.Ops || sum.Acked != 2*n*one.Acked || sum.Due != 2*n*one.Due || sum.Findings.Sum() != n || sum.Findings[Altered] != n || len(sum.Witnesses) != MaxWitnesses {
		t.Errorf("%d runs, half of them with a fault: %+v, %v, %d witnesses", 2*n, sum.Sums, sum.Findings, len(sum.Witnesses))
	}
}
