package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// wantWinner checks that the sessions of the login with the highest number are open,
// and those of the other logins have ended.
func wantWinner(t *testing.T, what string, conns map[*conn]*user.Login) {
	t.Helper()
	var last uint64
	for _, l := range conns {
		last = max(last, l.Number)
	}
	for c, l := range conns {
		if l.Number == last {
			c.wantOpen(what)
		} else if c.look(); c.end == nil || c.end.Code != im.CodeReplaced && c.end.Code != im.CodeUnauthenticated {
			t.Errorf("%s: the session of login %d of %d ends with %v", what, l.Number, last, c.end)
		}
	}
}

// F11: two devices of one kind, or one device twice, log in at two gateways. Each
// gateway has a session of an earlier login. In every order of their steps, with or
// without a bus between the gateways, and wherever the hellos are, only the sessions of
// the higher number are open in the end.
func TestF11TwoLoginsAtTwoGatewaysLeaveOne(t *testing.T) {
	orders := merge([]string{"log in 1", "end 1", "hello 1"}, []string{"log in 2", "end 2", "hello 2"})
	for _, sever := range []bool{false, true} {
		for _, crossed := range []bool{false, true} {
			for _, devices := range [][2]int{{1, 2}, {1, 1}} {
				for _, order := range orders {
					what := fmt.Sprintf("%q, phones %v, cut %v, hellos at the other gateway %v", order, devices, sever, crossed)
					fleetOf(t, 2, func(f *fleet, all []*site) {
						old := all[0].logIn("alice", phoneRef(3))
						conns := map[*conn]*user.Login{all[0].welcomed("alice", old.Access): old, all[1].welcomed("alice", old.Access): old}
						f.cutOff(all[0], sever)
						logins := [2]*user.Login{}
						for _, step := range order {
							n := int(step[len(step)-1] - '1')
							switch step[:len(step)-2] {
							case "log in":
								logins[n] = all[n].logIn("alice", phoneRef(devices[n]))
							case "end":
								all[n].replace(logins[n])
							case "hello":
								at := n
								if crossed {
									at = 1 - n
								}
								conns[all[at].connect(logins[n].Access)] = logins[n]
								pass(0)
							}
						}
						pass(promised)
						wantWinner(t, what, conns)
					})
				}
			}
		}
	}
}

// F11: a login comes between any two steps of another login at the other gateway, or of
// the hello that follows it. Nobody calls CloseDevice. The step may be so slow that the
// revocation by the other login has been handled before it ends.
func TestF11LoginBetweenTheStepsOfAnotherOne(t *testing.T) {
	steps := 0
	for _, way := range []struct{ sever, slow bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		sever := way.sever
		for at := 1; at < 50; at++ {
			fleetOf(t, 2, func(f *fleet, all []*site) {
				old := all[0].logIn("alice", phoneRef(3))
				conns := map[*conn]*user.Login{all[0].welcomed("alice", old.Access): old, all[1].welcomed("alice", old.Access): old}
				f.cutOff(all[0], sever)
				var reads atomic.Int32
				met := make(chan func(), 1)
				hook := func() {
					if int(reads.Add(1)) == at {
						l := all[1].logIn("alice", phoneRef(2))
						c := all[1].welcomed("alice", l.Access)
						met <- func() { conns[c] = l }
						if way.slow {
							<-time.After(2 * time.Second)
						}
					}
				}
				all[0].storeConn.hook.Store(&hook)
				one := all[0].logIn("alice", phoneRef(1))
				conns[all[0].connect(one.Access)] = one
				pass(promised)
				select {
				case enter := <-met:
					enter()
					pass(promised) // its read of the store may have been late
					if !sever {    // with the bus cut, rechecks of all sessions read the store as well
						steps = max(steps, at)
					}
				default:
				}
				wantWinner(t, fmt.Sprintf("at step %d, cut %v, slow %v", at, sever, way.slow), conns)
			})
		}
	}
	if steps < 16 {
		t.Errorf("a login and a hello have %d steps: they do not look again", steps)
	}
}

// The caller of CloseDevice learns how many sessions there were at all nodes, although
// these nodes were also told to recheck them.
func TestSessionsAreCountedWhereverTheyEnd(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		p := f.people(all)
		ctx := context.Background()
		for range 5 { // revocations of other users, at any time
			all[1].hub.Changed(account("bob"))
			pass(55 * time.Millisecond)
		}
		f.must(all[1].users.RevokeDevice(ctx, account("alice"), "phone-1"))
		pass(100 * time.Millisecond)
		for _, c := range p.phone {
			c.look()
		}
		if n, err := all[1].hub.CloseDevice(ctx, account("alice"), "phone-1", im.CodeRevoked); n != 3 || err != nil {
			t.Errorf("closed %d sessions, %v; want 3", n, err)
		}
		for _, c := range p.phone {
			c.wantEnded("closed", im.CodeRevoked)
		}
		f.must(all[1].users.Revoke(ctx, account("alice")))
		if n, err := all[1].hub.CloseUser(ctx, account("alice"), im.CodeRevoked); n != 6 || err != nil {
			t.Errorf("closed %d sessions, %v; want 6", n, err)
		}
		p.want("closed", im.CodeRevoked, im.CodeRevoked, im.CodeRevoked)
	})
}

// A node that does not answer delays a call, and does not make it fail.
func TestNodeThatDoesNotAnswerDelaysACloseOnly(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		p := f.people(all)
		ctx := context.Background()
		cut(all[1], all[0], true)
		f.must(all[1].users.Revoke(ctx, account("alice")))
		began := time.Now()
		n, err := all[1].hub.CloseUser(ctx, account("alice"), im.CodeRevoked)
		if took := time.Since(began); n != 6 || err != nil || took != 2*time.Second {
			t.Errorf("closed %d sessions, %v, after %s; want the 6 of two nodes after 2 s", n, err, took)
		}
		if list, err := all[1].hub.SessionsOf(ctx, account("bob")); err != nil || list["phone-1"] != 2 {
			t.Errorf("bob has sessions %v, %v; want the 2 of two nodes", list, err)
		}
		pass(promised - 2*time.Second)
		p.want("closed", im.CodeRevoked, im.CodeRevoked, im.CodeRevoked)
	})
}

// A call does not wait for a store that hangs.
func TestCloseDoesNotWaitForAStoreThatHangs(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		f.people(all)
		all[0].storeConn.cut.Store(true)
		began := time.Now()
		n, err := all[0].hub.CloseDevice(context.Background(), account("alice"), "phone-1", im.CodeRevoked)
		if took := time.Since(began); n != 0 || !errors.Is(err, errUnreachable) || took != 2*time.Second {
			t.Errorf("closed %d sessions, %v, after %s; want none, %v, after 2 s", n, err, took, errUnreachable)
		}
	})
}

// F17: the streams between two processes end and begin again, and tokens are revoked in
// between. The sessions are rechecked before they get another event, even if the store
// did not answer meanwhile and answers late.
func TestF17SessionsAreInDoubtAfterALongCut(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		p := f.people(all)
		f.cutOff(all[0], true)
		all[0].storeConn.cut.Store(true)
		pass(time.Minute)
		f.must(all[1].users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		pass(time.Minute)
		f.cutOff(all[0], false)
		for range 100 { // the bus is back, the store is not
			pass(100 * time.Millisecond)
			if p.phone[0].gets() {
				t.Fatal("a session that is void gets an event")
			}
		}
		all[0].storeConn.cut.Store(false)
		pass(promised)
		p.want("after the cut", im.CodeRevoked, "", "")
	})
}

// A restarted node has told nobody what its former process did just before its death.
func TestNodeThatStartsAgainIsNew(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		p := f.people(all[:1])
		all[1].kill(0)
		pass(10 * time.Second)
		b := f.start("b")
		f.must(b.users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		pass(promised)
		p.want("started again", im.CodeRevoked, "", "")
		for range 20 {
			pass(time.Second)
			if !p.bob[0].gets() {
				t.Fatal("bob gets nothing")
			}
		}
	})
}

// While a node is cut off, the store is asked as often as Options.RechecksPerSecond says, and not
// more often. A session whose turn does not come in time gets no events until it does.
func TestRechecksAreBounded(t *testing.T) {
	const sessions, rate = 1000, 100
	synctestFleet(t, func(f *fleet) { f.rechecksPerSecond = rate; f.o = stream.Options{} }, 2, func(f *fleet, all []*site) {
		l := all[0].logIn("alice", phoneRef(1))
		var conns []*conn
		for range sessions {
			conns = append(conns, all[0].welcomed("alice", l.Access))
		}
		f.cutOff(all[0], true)
		pass(promised)
		f.db.mu.Lock()
		before := f.db.reads
		f.db.mu.Unlock()
		served := map[*conn]bool{}
		for range 10 {
			pass(time.Second)
			n := 0
			for i, c := range conns { // all of them get the event for the first one
				got := i == 0 && c.gets()
				c.take()
				if got = got || slices.ContainsFunc(c.frames, func(f *petrelv1.ServerFrame) bool { return f.GetEvents() != nil }); got {
					n++
					served[c] = true
				}
				c.frames = nil
				c.s.Out.Resume()
			}
			if most := 5 * rate; n > most || n < rate {
				t.Errorf("%d sessions get events, at most %d were looked at lately", n, most)
			}
		}
		f.db.mu.Lock()
		looks := f.db.reads - before
		f.db.mu.Unlock()
		if looks > 11*rate || looks < 9*rate {
			t.Errorf("the store was asked %d times in 10 s, want about %d", looks, 10*rate)
		}
		if len(served) < sessions*9/10 {
			t.Errorf("the turn of only %d sessions came", len(served))
		}
		pass(30 * time.Second) // the streams end, and lose their frames
		f.must(all[1].users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		pass(promised)
		f.cutOff(all[0], false)
		for range 20 {
			for _, c := range conns[:10] {
				if c.s.Out.Resume(); c.gets() {
					t.Fatal("a session that is void gets an event")
				}
			}
			pass(100 * time.Millisecond)
		}
	})
}
