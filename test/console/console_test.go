// Package console tries what operators see and do against three nodes on one database: the
// overview while a node dies, and traces of messages.
package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) {
	imtest.ServeChild()
	pgtest.Main(m)
}

type world struct {
	*testing.T
	nodes []*imtest.Server
	group string
	token map[string]string
	made  int // groups that groupsOf has made
}

func newWorld(t *testing.T) *world {
	nodes := imtest.Cluster(t, 3, imtest.Options{Postgres: pgtest.Shared(t).New(t), Process: true})
	imtest.WaitSettled(nodes)
	w := &world{T: t, nodes: nodes, token: map[string]string{}}
	for i, token := range nodes[0].Users("", "alice", "bob", "carol", "dave") {
		w.token[[]string{"alice", "bob", "carol", "dave"}[i]] = token
	}
	w.group = nodes[0].Group("", "boat", "alice", "bob", "carol")
	return w
}

func ask[Q, A any](w *world, f func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), q *Q) *A {
	w.Helper()
	r, err := f(eventually.Context(w), connect.NewRequest(q))
	if err != nil {
		w.Fatalf("%T: %v", q, err)
	}
	return r.Msg
}

// heard asks until all nodes have answered.
func heard[A interface{ GetSilent() []string }](w *world, f func() A) (r A) {
	w.Helper()
	w.until("all nodes answer", func() bool {
		r = f()
		return len(r.GetSilent()) == 0
	})
	return r
}

// until waits until ok returns true. It asks at every 50th look only, because all nodes answer
// most of the questions here.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	looks := 0
	eventually.True(w, what, func() bool {
		looks++
		return looks%50 == 1 && ok()
	})
}

func (w *world) overview() *petrelv1.Overview {
	w.Helper()
	return ask(w, w.nodes[0].Admin.GetOverview, &petrelv1.GetOverviewRequest{})
}

func (w *world) sendAs(from, id string) uint64 {
	w.Helper()
	return ask(w, w.nodes[0].Admin.SendAs, &petrelv1.SendAsRequest{From: from, Send: &petrelv1.Send{Conv: w.group, ClientMsgId: id, Body: &petrelv1.Send_Text{Text: "ahoy"}}}).Seq
}

func (w *world) trace(q *petrelv1.TraceMessageRequest) *petrelv1.TraceMessageResponse {
	w.Helper()
	return ask(w, w.nodes[0].Admin.TraceMessage, q)
}

func (w *world) write(c *wiretest.Conn, f *petrelv1.ClientFrame) {
	w.Helper()
	if _, err := c.Write(f); err != nil {
		w.Fatal(err)
	}
}

// state is how far a traced message has come to a user.
func state(r *petrelv1.TraceMessageResponse, user string) string {
	for _, x := range r.Recipients {
		if x.User == user {
			return strings.TrimPrefix(x.State.String(), "TRACE_STATE_")
		}
	}
	return "not there"
}

// A node that is killed is an incident, and when it is back there is none.
func TestOverviewSaysThatANodeIsGone(t *testing.T) {
	w := newWorld(t)
	well := func() bool { return w.overview().Verdict == petrelv1.Verdict_VERDICT_WELL }
	w.until("all is well", well)
	w.until("samples of three nodes", func() bool {
		o := w.overview()
		return len(o.Nodes) == 3 && len(o.Samples) > 2 && o.Samples[len(o.Samples)-1].Nodes == 3
	})
	whole, after := 0, w.overview().TimeMs // seconds in a row; a node that stands still for one has none
	w.until("samples of four seconds in a row are of all nodes", func() bool {
		o := ask(w, w.nodes[0].Admin.GetOverview, &petrelv1.GetOverviewRequest{AfterMs: after})
		for _, x := range o.Samples {
			if whole++; x.Nodes != 3 {
				whole = 0
			}
		}
		after = o.TimeMs
		return whole >= 4
	})
	w.nodes[1].Kill()
	w.until("the node is missed", func() bool {
		o := w.overview()
		return o.Verdict == petrelv1.Verdict_VERDICT_CRITICAL && slices.ContainsFunc(o.Incidents, func(x *petrelv1.Incident) bool {
			return x.Node == imtest.NodeName(1) && x.Code == "node_silent"
		})
	})
	if r := w.overview().Nodes[1]; r.Answered || r.Node != imtest.NodeName(1) {
		t.Errorf("the node: %v", r)
	}
	w.nodes[1].Start()
	w.until("all is well again", well)
}

func TestTraceOfAMessage(t *testing.T) {
	w := newWorld(t)
	// Bob is connected to another node than the one that is asked.
	bob := w.nodes[2].Dial(wire.TCP, wire.JSON, w.token["bob"], "")
	defer func() { _ = bob.Close() }()
	seq := w.sendAs("alice", "m1")
	w.until("it is written", func() bool {
		return state(w.trace(&petrelv1.TraceMessageRequest{Conv: w.group, Seq: seq}), "bob") == "WRITTEN"
	})
	r := heard(w, func() *petrelv1.TraceMessageResponse { // in whichever conversation
		return w.trace(&petrelv1.TraceMessageRequest{User: "alice", ClientMsgId: "m1"})
	})
	if r.Outcome != petrelv1.TraceOutcome_TRACE_OUTCOME_STORED || r.Entry.Conv != w.group || r.Entry.Seq != seq || r.Entry.Owner == "" || len(r.Silent) > 0 {
		t.Errorf("by its id: %v", r)
	}
	if a, b, c := state(r, "alice"), state(r, "bob"), state(r, "carol"); a != "SENDER" || b != "WRITTEN" || c != "OFFLINE" || state(r, "dave") != "not there" {
		t.Errorf("alice %s, bob %s, carol %s", a, b, c)
	}
	for _, x := range r.Recipients {
		if x.User == "bob" && (!x.Inferred || len(x.Sessions) != 1 || x.Sessions[0].Session.Node != imtest.NodeName(2) || x.Sessions[0].Session.Address == "") {
			t.Errorf("bob: %v", x)
		}
	}
	w.write(bob, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Cursor{Cursor: &petrelv1.MoveCursor{Conv: w.group, Delivered: seq}}})
	w.until("it is delivered", func() bool {
		return state(w.trace(&petrelv1.TraceMessageRequest{Conv: w.group, Seq: seq, Recipient: "bob"}), "bob") == "DELIVERED"
	})
	if r := w.trace(&petrelv1.TraceMessageRequest{Conv: w.group, Seq: seq, Recipient: "dave"}); len(r.Recipients) > 0 && state(r, "dave") != "MAY_NOT" {
		t.Errorf("dave: %v", r.Recipients)
	}
	// One that was refused: dave is no member.
	dave := w.nodes[1].Dial(wire.TCP, wire.JSON, w.token["dave"], "")
	defer func() { _ = dave.Close() }()
	w.write(dave, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{Conv: w.group, ClientMsgId: "d1", Body: &petrelv1.Send_Text{Text: "ahoy"}}}})
	w.until("the refusal is known", func() bool {
		r := w.trace(&petrelv1.TraceMessageRequest{User: "dave", ClientMsgId: "d1"})
		return r.Outcome == petrelv1.TraceOutcome_TRACE_OUTCOME_REFUSED && r.Refusals[0].Code == "no_conversation" && r.Refusals[0].Conv == w.group
	})
	if r := w.trace(&petrelv1.TraceMessageRequest{User: "alice", ClientMsgId: "never"}); r.Outcome != petrelv1.TraceOutcome_TRACE_OUTCOME_UNKNOWN {
		t.Errorf("one that was never sent: %v", r)
	}
	if u := ask(w, w.nodes[0].Admin.TraceUser, &petrelv1.TraceUserRequest{User: "bob"}); u.Outcome != petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_CONNECTED || len(u.Sessions) != 1 {
		t.Errorf("bob: %v", u)
	}
	ask(w, w.nodes[0].Admin.DisableUser, &petrelv1.DisableUserRequest{User: "carol"})
	if u := ask(w, w.nodes[0].Admin.TraceUser, &petrelv1.TraceUserRequest{User: "carol"}); u.Outcome != petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_DISABLED {
		t.Errorf("carol: %v", u)
	}
	if u := ask(w, w.nodes[0].Admin.TraceUser, &petrelv1.TraceUserRequest{User: "nobody"}); u.Outcome != petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_NO_USER {
		t.Errorf("nobody: %v", u)
	}
}

func TestGroupsAreFoundByTitleAndFrozen(t *testing.T) {
	w := newWorld(t)
	ask(w, w.nodes[0].Admin.RenameGroup, &petrelv1.AdminRenameGroupRequest{Conv: w.group, Title: "Heron Pier"})
	find := func(prefix string) []*petrelv1.ConversationInfo {
		return ask(w, w.nodes[2].Admin.ListConversations, &petrelv1.ListConversationsRequest{TitlePrefix: prefix}).Conversations
	}
	w.until("it is found", func() bool { l := find("heron"); return len(l) == 1 && l[0].Conv == w.group && l[0].Members == 3 })
	if l := find("boat"); len(l) != 0 {
		t.Errorf("by its old title: %v", l)
	}
	ask(w, w.nodes[0].Admin.FreezeConversation, &petrelv1.FreezeConversationRequest{Conv: w.group, Frozen: true})
	info := ask(w, w.nodes[1].Admin.GetConversation, &petrelv1.AdminGetConversationRequest{Conv: w.group})
	if !info.Frozen || info.Title != "Heron Pier" || info.PerMinute == 0 {
		t.Errorf("frozen: %v", info)
	}
	_, err := w.nodes[0].Admin.SendAs(t.Context(), connect.NewRequest(&petrelv1.SendAsRequest{From: "alice", Send: &petrelv1.Send{Conv: w.group, ClientMsgId: "x", Body: &petrelv1.Send_Text{Text: "x"}}}))
	if e := imtest.Refusal(err); im.CodeOf(e) != im.CodeFrozen {
		t.Errorf("a send into a frozen group: %v", err)
	}
	ask(w, w.nodes[0].Admin.FreezeConversation, &petrelv1.FreezeConversationRequest{Conv: w.group})
	w.sendAs("alice", "y")
	log := ask(w, w.nodes[1].Admin.ListAudit, &petrelv1.ListAuditRequest{Event: "Freeze", About: w.group}).Records
	if len(log) != 2 || !slices.ContainsFunc(log[0].Details, func(d *petrelv1.AuditDetail) bool { return d.Name == "after.frozen" && d.Value == "yes" }) {
		t.Errorf("the audit log: %v", log)
	}
	read := func() *petrelv1.ReadLogResponse { return ask(w, w.nodes[0].Admin.ReadLog, &petrelv1.ReadLogRequest{}) }
	if l := heard(w, read); len(l.Silent) > 0 {
		t.Errorf("the log: silent %v", l.Silent)
	}
}

// A list that the store keeps in order can be read from both ends, page by page.
func TestListsGoBothWays(t *testing.T) {
	const tooMany = 20 // rows: the pages do not end
	for name, o := range map[string]func(*testing.T) imtest.Options{
		"embedded": func(*testing.T) imtest.Options { return imtest.Options{} },
		"postgres": func(t *testing.T) imtest.Options { return imtest.Options{Postgres: pgtest.Shared(t).New(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			srv := imtest.Start(t, o(t))
			w := &world{T: t, nodes: []*imtest.Server{srv}}
			users := []string{"ann", "bea", "cid", "dan", "eve"}
			for i, token := range srv.Users("", users...) {
				srv.Group("", "boat of "+users[i], users[i])
				if users[i] == "cid" {
					continue // has no display name
				}
				if _, err := srv.Call(t.Context(), imtest.ByJSON, "petrel.v1.AccountService/UpdateAccount", token, &petrelv1.UpdateAccountRequest{DisplayName: proto.String(fmt.Sprint("Captain ", 9-i)), RequestId: "r1"}); err != nil {
					t.Fatal(err)
				}
			}
			both := func(what string, read func(down bool) []string, want ...string) {
				t.Helper()
				if got := read(false); !slices.Equal(got, want) {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
				want = slices.Clone(want)
				slices.Reverse(want)
				if got := read(true); !slices.Equal(got, want) {
					t.Errorf("%s, backwards: %q, want %q", what, got, want)
				}
			}
			list := func(q *petrelv1.ListUsersRequest) func(down bool) []string {
				return func(down bool) (got []string) {
					q.Limit, q.Descending, q.After, q.Token = 2, down, "", nil
					for len(got) < tooMany {
						r := ask(w, srv.Admin.ListUsers, q)
						for _, u := range r.Users {
							got = append(got, u.User)
							q.After = u.User
						}
						if q.Token = r.Token; !r.More {
							break
						}
					}
					return got
				}
			}
			both("users", list(&petrelv1.ListUsersRequest{}), users...)
			both("users by name", list(&petrelv1.ListUsersRequest{ByName: true}), "eve", "dan", "bea", "ann")
			both("users by the beginning of the name", list(&petrelv1.ListUsersRequest{NamePrefix: "captain"}), "eve", "dan", "bea", "ann")
			groups := func(down bool) (got []string) {
				for q := (&petrelv1.ListConversationsRequest{Limit: 2, Descending: down}); len(got) < tooMany; {
					r := ask(w, srv.Admin.ListConversations, q)
					for _, c := range r.Conversations {
						got = append(got, strings.TrimPrefix(c.Title, "boat of "))
					}
					if q.Token = r.Token; len(q.Token) == 0 {
						break
					}
				}
				return got
			}
			w.until("the groups are listed", func() bool { return len(groups(false)) == len(users) })
			both("groups", groups, users...)
			both("the audit log", func(down bool) (got []string) {
				for q := (&petrelv1.ListAuditRequest{Event: "CreateGroup", Limit: 2, Descending: down}); len(got) < tooMany; {
					r := ask(w, srv.Admin.ListAudit, q)
					for _, x := range r.Records {
						for _, d := range x.Details {
							if d.Name == "members" {
								user, _, _ := strings.Cut(d.Value, ":")
								got = append(got, user)
							}
						}
					}
					if q.Token = r.Token; len(q.Token) == 0 {
						break
					}
				}
				return got
			}, users...)
		})
	}
}

// One change of the limits is a change on all nodes. The console names the nodes where it
// does not hold: one that has started anew, and one that does not answer.
func TestLimitsAreThoseOfAllNodes(t *testing.T) {
	w := newWorld(t)
	sends := func(l *petrelv1.ClusterLimits) (all []int64) {
		for _, n := range l.Nodes {
			all = append(all, n.Limits.SendsPerS)
		}
		return all
	}
	limits := func() *petrelv1.ClusterLimits {
		return heard(w, func() *petrelv1.ClusterLimits {
			return ask(w, w.nodes[0].Admin.GetLimits, &petrelv1.GetLimitsRequest{})
		})
	}
	preview := func(node int, q *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
		return heard(w, func() *petrelv1.PreviewLimitsResponse { return ask(w, w.nodes[node].Admin.PreviewLimits, q) })
	}
	was := limits().Nodes[0].Limits.SendsPerS
	seven := &petrelv1.ServerLimits{SendsPerS: 7}
	if p := preview(0, seven); len(p.Changes) != 1 || p.Changes[0].From != was || p.Changes[0].To != 7 || len(p.Changes[0].Nodes)+len(p.Silent) > 0 {
		t.Errorf("what it would change: %v", p)
	}
	if l := limits(); !slices.Equal(sends(l), []int64{was, was, was}) {
		t.Errorf("a preview has changed the limits: %v", l)
	}
	if l := ask(w, w.nodes[0].Admin.SetLimits, seven); !slices.Equal(sends(l), []int64{7, 7, 7}) || len(l.Silent) > 0 {
		t.Errorf("after the change: %v", l)
	}
	w.nodes[1].Kill()
	w.nodes[1].Start()
	w.until("the node is back", func() bool { l := limits(); return len(l.Nodes) == 3 && len(l.Silent) == 0 })
	if l := limits(); !slices.Equal(sends(l), []int64{7, was, 7}) {
		t.Errorf("after a restart: %v", l)
	}
	if p := preview(2, seven); len(p.Changes) != 1 || !slices.Equal(p.Changes[0].Nodes, []string{imtest.NodeName(1)}) {
		t.Errorf("what it would change on one node: %v", p)
	}
	defer w.nodes[2].Freeze()()
	frozen := imtest.NodeName(2)
	l := ask(w, w.nodes[0].Admin.SetLimits, &petrelv1.ServerLimits{SendsPerS: 8})
	if !slices.Equal(sends(l), []int64{8, 8}) || !slices.Equal(l.Silent, []string{frozen}) {
		t.Errorf("beside a node that does not answer: %v", l)
	}
	log := ask(w, w.nodes[0].Admin.ListAudit, &petrelv1.ListAuditRequest{Event: "SetLimits"}).Records
	var said []string
	for _, d := range log[len(log)-1].Details {
		said = append(said, d.Name+"="+d.Value)
	}
	for _, want := range []string{"before.sends_per_s on " + imtest.NodeName(0) + "=7", "before.sends_per_s on " + imtest.NodeName(1) + "=" + fmt.Sprint(was), "after.answer of " + frozen + "=none"} {
		if !slices.Contains(said, want) {
			t.Errorf("the audit log says %q, and not %q", said, want)
		}
	}
}

// A node is stopped with its process in memory: it neither answers nor ends its connections.
func TestTraceInAFrozenNode(t *testing.T) {
	w := newWorld(t)
	frozen, other := imtest.NodeName(1), imtest.NodeName(0)
	// After some seconds another node owns what the frozen one did. If the machine stands still
	// so long, it is done once more.
	w.until("the frozen node is asked before another one owns its groups", func() bool {
		imtest.WaitSettled(w.nodes)
		owned := w.groupsOf(frozen, other)
		bob := w.nodes[1].Dial(wire.TCP, wire.JSON, w.token["bob"], "")
		defer func() { _ = bob.Close() }()
		w.until("bob is seen", func() bool {
			return state(w.trace(&petrelv1.TraceMessageRequest{Conv: owned[other], Seq: 1, Recipient: "bob"}), "bob") == "WRITTEN"
		})
		defer w.nodes[1].Freeze()()
		atFrozen := make(chan *petrelv1.TraceMessageResponse, 1) // both are asked at once
		go func() {
			defer close(atFrozen)
			r, err := w.nodes[0].Admin.TraceMessage(t.Context(), connect.NewRequest(&petrelv1.TraceMessageRequest{Conv: owned[frozen], Seq: 1}))
			if err == nil {
				atFrozen <- r.Msg
			}
		}()
		bobs := w.trace(&petrelv1.TraceMessageRequest{Conv: owned[other], Seq: 1, Recipient: "bob"})
		r := <-atFrozen
		if r == nil {
			t.Fatal("a message in the frozen node: no answer")
		}
		if r.Outcome == petrelv1.TraceOutcome_TRACE_OUTCOME_STORED && r.Entry.Owner != frozen {
			return false
		}
		if r.Outcome != petrelv1.TraceOutcome_TRACE_OUTCOME_NO_ANSWER || !strings.Contains(r.Text, frozen) {
			t.Errorf("a message in the frozen node: %v", r)
		}
		if s := state(bobs, "bob"); s != "SILENT_NODE" || bobs.Recipients[0].Silent != frozen || !slices.Contains(bobs.Silent, frozen) {
			t.Errorf("bob at the frozen node: %s, %v", s, bobs)
		}
		return true
	})
}

// groupsOf makes groups of alice and bob until each of some nodes owns one, and returns them by
// the names of their nodes.
func (w *world) groupsOf(nodes ...string) map[string]string {
	w.Helper()
	owned := map[string]string{}
	for missing := true; missing; missing = slices.ContainsFunc(nodes, func(n string) bool { return owned[n] == "" }) {
		w.made++
		id := w.nodes[0].Group("", fmt.Sprint("g", w.made), "alice", "bob")
		owned[ask(w, w.nodes[0].Admin.GetConversation, &petrelv1.AdminGetConversationRequest{Conv: id}).Owner] = id
	}
	return owned
}
