package session_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// promised is the time after a revocation in which its sessions end. After it
// nothing more reaches them.
const promised = 5 * time.Second

var laptopRef = user.DeviceRef{ID: "laptop", Kind: "desktop"}

// people has sessions at every node: three of alice (on a phone, on a laptop, and with
// a token that is bound to no device) and one of bob.
type people struct {
	phone, laptop, unbound, bob []*conn
	login                       *user.Login // of the phone
}

func (f *fleet) people(all []*site) *people {
	f.t.Helper()
	p := &people{login: all[0].logIn("alice", phoneRef(1))}
	laptop, unbound, bob := all[0].logIn("alice", laptopRef), all[0].unboundToken("alice"), all[0].logIn("bob", phoneRef(1))
	for _, s := range all {
		p.phone = append(p.phone, s.welcomed("alice", p.login.Access))
		p.laptop = append(p.laptop, s.welcomed("alice", laptop.Access))
		p.unbound = append(p.unbound, s.welcomed("alice", unbound))
		p.bob = append(p.bob, s.welcomed("bob", bob.Access))
	}
	return p
}

// want checks with which code the sessions of alice have ended; "" means that they are
// open. Those of bob must be open.
func (p *people) want(what string, phone, laptop, unbound im.Code) {
	for _, k := range []struct {
		conns []*conn
		code  im.Code
	}{{p.phone, phone}, {p.laptop, laptop}, {p.unbound, unbound}, {p.bob, ""}} {
		for _, c := range k.conns {
			if c.t.Helper(); k.code == "" {
				c.wantOpen(what)
			} else {
				c.wantEnded(what, k.code)
			}
		}
	}
}

// changes are the ways to revoke tokens of alice, and which of her sessions must end.
var changes = map[string]struct {
	do                     func(us *user.Users, p *people) error
	phone, laptop, unbound im.Code
}{
	"login of another phone": {func(us *user.Users, _ *people) error {
		_, err := us.Mint(context.Background(), "", "alice", phoneRef(2), 0)
		return err
	}, im.CodeReplaced, "", ""},
	"login of the phone": {func(us *user.Users, _ *people) error {
		_, err := us.Mint(context.Background(), "", "alice", phoneRef(1), 0)
		return err
	}, im.CodeReplaced, "", ""},
	"revoked phone": {func(us *user.Users, _ *people) error {
		return us.RevokeDevice(context.Background(), account("alice"), "phone-1")
	}, im.CodeRevoked, "", ""},
	"revoked user": {func(us *user.Users, _ *people) error { return us.Revoke(context.Background(), account("alice")) }, im.CodeRevoked, im.CodeRevoked, im.CodeRevoked},
	"disabled user": {func(us *user.Users, _ *people) error {
		_, err := us.Disable(context.Background(), account("alice"))
		return err
	}, im.CodeUserDisabled, im.CodeUserDisabled, im.CodeUserDisabled},
	"refresh token used twice": {func(us *user.Users, p *people) error {
		_, _ = us.Refresh(context.Background(), p.login.Refresh, "")
		if _, err := us.Refresh(context.Background(), p.login.Refresh, ""); im.CodeOf(err) != im.CodeRefreshReused {
			return fmt.Errorf("refresh twice: %v", err)
		}
		return nil
	}, im.CodeRevoked, "", ""},
}

// Tokens are revoked at one node, and their sessions end at all nodes. The test calls
// no CloseUser or CloseDevice: the node that revoked the tokens may have died before that.
// Spec: P-11.4, P-11.5.
func TestTokensThatEndAtOneNodeEndSessionsAtAll(t *testing.T) {
	for what, c := range changes {
		t.Run(what, func(t *testing.T) {
			fleetOf(t, 3, func(f *fleet, all []*site) {
				p := f.people(all)
				pass(time.Minute)
				p.want("before", "", "", "")
				f.must(c.do(all[1].users, p))
				pass(time.Second)
				p.want(what, c.phone, c.laptop, c.unbound)
			})
		})
	}
}

// Rechecks end the sessions before the caller that revoked the tokens does. The caller counts
// them all the same, and once.
func TestSessionsThatARecheckEndedAreCounted(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		ctx := context.Background()
		f.people(all)
		f.must(all[1].users.RevokeDevice(ctx, account("alice"), "phone-1"))
		pass(time.Second)
		for i, want := range []int{3, 0} {
			if n, err := all[1].hub.CloseDevice(ctx, account("alice"), "phone-1", im.CodeRevoked); n != want || err != nil {
				t.Errorf("end of the phone, time %d: %d, %v; want %d", i+1, n, err, want)
			}
		}
		f.must(all[1].users.Revoke(ctx, account("alice")))
		pass(time.Second)
		if n, err := all[2].hub.CloseUser(ctx, account("bob"), im.CodeRevoked); n != 3 || err != nil {
			t.Errorf("end of bob: %d, %v; want 3", n, err)
		}
		for i, want := range []int{6, 0} {
			if n, err := all[2].hub.CloseUser(ctx, account("alice"), im.CodeRevoked); n != want || err != nil {
				t.Errorf("end of alice, time %d: %d, %v; want %d", i+1, n, err, want)
			}
		}
	})
}

// The node where tokens are revoked dies before it tells another node.
func TestTokensThatEndAtANodeThatDies(t *testing.T) {
	for _, row := range []time.Duration{0, time.Second, 5 * time.Second} {
		for what, c := range changes {
			t.Run(fmt.Sprintf("%s, its row lives for %s", what, row), func(t *testing.T) {
				fleetOf(t, 3, func(f *fleet, all []*site) {
					p := f.people(all[:2])
					all[2].tellsNobody.Store(true)
					f.must(c.do(all[2].users, p))
					all[2].kill(row)
					pass(promised)
					p.want(what, c.phone, c.laptop, c.unbound)
				})
			})
		}
	}
}

// F9: the frame with a revocation is lost, and silence follows.
func TestF9LostRevocationIsRepaired(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		p := f.people(all)
		lost := 0
		rules := func(s *site) {
			s.bus.SetRules(lossOf(func(to im.Node, sub bus.Subject) bool {
				if sub == stream.Subject && to == "b" && lost < 3 {
					lost++
					return true
				}
				return false
			}))
		}
		rules(all[0])
		f.must(all[0].users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		pass(3 * time.Second)
		if lost != 3 {
			t.Errorf("lost %d packets, want 3", lost)
		}
		p.want("revoked", im.CodeRevoked, "", "")
	})
}

// F9: more is lost than a stream keeps. So the receiver rechecks all sessions.
func TestF9ResetRechecksAllSessions(t *testing.T) {
	synctestFleet(t, func(f *fleet) { f.o = stream.Options{Ring: 100 * time.Millisecond, Hints: 1} }, 2, func(f *fleet, all []*site) {
		p := f.people(all)
		// So short that the streams do not end.
		cut(all[0], all[1], true)
		for _, u := range []im.User{"x", "y"} {
			f.must(all[0].users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
			all[0].hub.Changed(account(u))
		}
		pass(time.Second)
		cut(all[0], all[1], false)
		pass(2 * time.Second)
		if n := all[0].streams.Resets.Load(); n == 0 {
			t.Error("nothing was reset")
		}
		p.want("revoked", im.CodeRevoked, "", "")
	})
}

// F17: a gateway is cut off the bus, in one direction or both, and reaches the store.
// A session ends in the promised time after its tokens were revoked, also a minute
// later, and all other sessions get their events.
func TestF17GatewayCutFromTheBusAsksTheStore(t *testing.T) {
	for _, dir := range []string{"both ways", "hears nobody", "is not heard"} {
		for what, c := range changes {
			t.Run(dir+", "+what, func(t *testing.T) {
				fleetOf(t, 3, func(f *fleet, all []*site) {
					p := f.people(all)
					gateway := all[0]
					for _, o := range all[1:] {
						cut(o, gateway, dir != "is not heard")
						cut(gateway, o, dir != "hears nobody")
					}
					f.must(c.do(all[1].users, p))
					pass(promised)
					p.want(what, c.phone, c.laptop, c.unbound)
					eve := all[2].logIn("eve", phoneRef(1))
					conns := []*conn{gateway.welcomed("eve", eve.Access), all[2].welcomed("eve", eve.Access)}
					for range 60 {
						pass(time.Second)
						for _, x := range append(conns, p.bob...) {
							if !x.gets() {
								t.Fatalf("%s gets nothing at %s", x.user, x.at.id)
							}
						}
					}
					f.must(all[2].users.RevokeDevice(context.Background(), account("eve"), "phone-1"))
					pass(promised)
					for _, x := range conns {
						x.wantEnded("a minute later", im.CodeRevoked)
					}
				})
			})
		}
	}
}

// F17: a gateway that reaches neither the store nor the other nodes writes no more
// events, and keeps the connections. When it reaches them again, the valid sessions go
// on.
func TestF17GatewayWithoutStoreAndBusWritesNothing(t *testing.T) {
	for what, c := range changes {
		t.Run(what, func(t *testing.T) {
			fleetOf(t, 3, func(f *fleet, all []*site) {
				p := f.people(all)
				gateway := all[0]
				atGateway := []*conn{p.phone[0], p.laptop[0], p.unbound[0], p.bob[0]}
				f.cutOff(gateway, true)
				gateway.storeConn.cut.Store(true)
				f.must(c.do(all[1].users, p))
				pass(2 * time.Second)
				if !p.bob[0].gets() {
					t.Error("nothing is written after 2 s already")
				}
				pass(promised - 2*time.Second)
				for range 60 {
					for _, x := range atGateway {
						if x.gets() {
							t.Fatalf("%s gets events without anybody having said that the session is valid", x.user)
						}
						x.wantOpen("cut from everything")
					}
					pass(time.Second)
				}
				bob := p.bob[0]
				bob.frames = nil
				bob.send(ping(7), history(8, "x"))
				bob.want("pong of 7", "store_stalled of 8")
				f.cutOff(gateway, false)
				gateway.storeConn.cut.Store(false)
				for step := range 50 { // a void session gets nothing until it ends
					for _, x := range atGateway {
						if void := x.user == "alice" && slices.Contains(voids(p, c.phone, c.laptop, c.unbound), x); void && x.gets() {
							t.Fatalf("a session that is void gets an event %d ms after the cut", 100*step)
						}
					}
					pass(100 * time.Millisecond)
				}
				p.want(what, c.phone, c.laptop, c.unbound)
				if !bob.s.Out.Resume() { // as a sync does
					t.Error("bob was not told to sync")
				}
				if !bob.gets() {
					t.Error("bob gets nothing after the cut")
				}
			})
		})
	}
}

// voids returns the sessions at the first node that must end.
func voids(p *people, phone, laptop, unbound im.Code) (list []*conn) {
	for _, k := range []struct {
		conns []*conn
		code  im.Code
	}{{p.phone, phone}, {p.laptop, laptop}, {p.unbound, unbound}} {
		if k.code != "" {
			list = append(list, k.conns[0])
		}
	}
	return list
}

// F17: a request comes while the session is known to be valid, and takes so long that
// it is not known any more. Then the answer is an error.
func TestF17AnswerThatComesTooLate(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		bob := f.people(all).bob[0]
		bob.send(call(7, "3s"))
		bob.want("answer of 7")
		f.cutOff(all[0], true)
		all[0].storeConn.cut.Store(true)
		bob.send(call(8, "2s"), call(9, "6s"))
		bob.want("answer of 8", "store_stalled of 9")
	})
}

func call(id uint64, took string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{Method: took, Request: &petrelv1.Call_Proto{}}}}
}

// F17: a node revokes tokens, tells nobody, dies and starts again, while a gateway
// cannot reach the store. That the gateway hears all nodes again is not enough: it must
// ask the store first.
func TestF17DeathWhileThereIsNoStore(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		p := f.people(all[:1])
		all[0].storeConn.cut.Store(true)
		all[1].tellsNobody.Store(true)
		f.must(all[1].users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		all[1].kill(0)
		f.start("b")
		for range 20 {
			pass(promised)
			if p.phone[0].gets() {
				t.Fatal("a session that is void gets an event")
			}
		}
		all[0].storeConn.cut.Store(false)
		pass(promised)
		p.want("the store is back", im.CodeRevoked, "", "")
		p.bob[0].s.Out.Resume()
		if !p.bob[0].gets() {
			t.Error("bob gets nothing")
		}
	})
}

// F17: the same, with so many sessions that the gateway has not rechecked all of them
// in time.
func TestF17DeathWhileTheStoreIsSlow(t *testing.T) {
	synctestFleet(t, func(f *fleet) { f.rechecksPerSecond = 50 }, 2, func(f *fleet, all []*site) {
		var conns []*conn
		for n := range 50 {
			u := im.User(fmt.Sprint("user-", n))
			conns = append(conns, all[0].welcomed(u, all[0].unboundToken(u)))
		}
		all[0].storeConn.cut.Store(true)
		all[1].tellsNobody.Store(true)
		for _, c := range conns {
			f.must(all[1].users.Revoke(context.Background(), account(c.user)))
		}
		all[1].kill(0)
		f.start("b")
		pass(promised)
		for _, c := range conns {
			if c.gets() {
				t.Fatal("a session that is void gets an event")
			}
		}
	})
}

// F17: a gateway cannot read the heartbeats. It sees a node on the bus only, and gets
// no answer from it.
func TestF17NodeThatIsSeenOnTheBusOnly(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		p := f.people(all[:1])
		all[2].kill(0)
		pass(promised)
		all[0].storeConn.cut.Store(true)
		pass(10 * time.Second)
		if !p.bob[0].gets() {
			t.Error("bob gets nothing while the gateway hears all nodes")
		}
		c := f.start("c")
		f.cutOff(c, true)
		pass(time.Second)
		f.must(c.users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		pass(promised)
		if p.phone[0].gets() {
			t.Error("a session that is void gets an event")
		}
	})
}

// F17: a process that stood still knows no revocation of that time. It must notice
// before it writes its next event.
func TestF17ProcessThatStoodStillWritesNothing(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		p := f.people(all)
		all[0].stop() // the goroutines that send barriers and recheck
		pass(3 * time.Second)
		if !p.bob[0].gets() {
			t.Error("3 s are too long")
		}
		pass(2 * time.Second)
		if p.bob[0].gets() {
			t.Error("an event is written by a process that stood still")
		}
	})
}
