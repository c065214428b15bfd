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

// promised is the time after which nothing more reaches a session whose tokens
// have ended.
const promised = 5 * time.Second

var laptopRef = user.DeviceRef{ID: "laptop", Kind: "desktop"}

// people are the sessions of alice, of each kind, and one of bob, at every node.
type people struct {
	phone, laptop, bare, bob []*seat
	login                    *user.Login // of the phone
}

func (f *fleet) people(all []*site) *people {
	f.t.Helper()
	p := &people{login: all[0].logIn("alice", phoneRef(1))}
	laptop, bare, bob := all[0].logIn("alice", laptopRef), all[0].bare("alice"), all[0].logIn("bob", phoneRef(1))
	for _, s := range all {
		p.phone = append(p.phone, s.sit("alice", p.login.Access))
		p.laptop = append(p.laptop, s.sit("alice", laptop.Access))
		p.bare = append(p.bare, s.sit("alice", bare))
		p.bob = append(p.bob, s.sit("bob", bob.Access))
	}
	return p
}

// want checks how the sessions of each kind are, "" being open.
func (p *people) want(what string, phone, laptop, bare im.Code) {
	for _, k := range []struct {
		seats []*seat
		code  im.Code
	}{{p.phone, phone}, {p.laptop, laptop}, {p.bare, bare}, {p.bob, ""}} {
		for _, c := range k.seats {
			if c.t.Helper(); k.code == "" {
				c.wantOpen(what)
			} else {
				c.wantEnded(what, k.code)
			}
		}
	}
}

// changes are what ends tokens of alice, and whose.
var changes = map[string]struct {
	do                  func(us *user.Users, p *people) error
	phone, laptop, bare im.Code
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
	}, im.CodeRevoked, im.CodeRevoked, im.CodeRevoked},
	"refresh token used twice": {func(us *user.Users, p *people) error {
		_, _ = us.Refresh(context.Background(), p.login.Refresh, "")
		if _, err := us.Refresh(context.Background(), p.login.Refresh, ""); im.CodeOf(err) != im.CodeRefreshReused {
			return fmt.Errorf("refresh twice: %v", err)
		}
		return nil
	}, im.CodeRevoked, "", ""},
}

// What ends tokens at one node ends their sessions at all nodes, though nobody
// closes them: who changed the account may be gone. Spec: P-11.4, P-11.5.
func TestTokensThatEndAtOneNodeEndSessionsAtAll(t *testing.T) {
	for what, c := range changes {
		t.Run(what, func(t *testing.T) {
			fleetOf(t, 3, func(f *fleet, all []*site) {
				p := f.people(all)
				pass(time.Minute)
				p.want("before", "", "", "")
				f.must(c.do(all[1].users, p))
				pass(time.Second)
				p.want(what, c.phone, c.laptop, c.bare)
			})
		})
	}
}

// The node where tokens end dies before it tells anybody.
func TestTokensThatEndAtANodeThatDies(t *testing.T) {
	for _, row := range []time.Duration{0, time.Second, 5 * time.Second} {
		for what, c := range changes {
			t.Run(fmt.Sprintf("%s, its row lives for %s", what, row), func(t *testing.T) {
				fleetOf(t, 3, func(f *fleet, all []*site) {
					p := f.people(all[:2])
					all[2].mute.Store(true)
					f.must(c.do(all[2].users, p))
					all[2].kill(row)
					pass(promised)
					p.want(what, c.phone, c.laptop, c.bare)
				})
			})
		}
	}
}

// F9: the word of a change is lost, and silence follows.
func TestF9LostWordOfARevocationIsMadeUpFor(t *testing.T) {
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

// F9: more is lost than a stream keeps, so the receiver looks for itself.
func TestF9ResetLooksAtAllSessions(t *testing.T) {
	synctestFleet(t, func(f *fleet) { f.o = stream.Options{Ring: 100 * time.Millisecond, Hints: 1} }, 2, func(f *fleet, all []*site) {
		p := f.people(all)
		// Short enough to be no cut.
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

// F17: a gateway is cut from the bus, or hears only, or is only heard, and has
// the store. Nothing reaches a session for longer than promised after its tokens
// have ended, also a minute later, and no other session suffers.
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
					p.want(what, c.phone, c.laptop, c.bare)
					eve := all[2].logIn("eve", phoneRef(1))
					seats := []*seat{gateway.sit("eve", eve.Access), all[2].sit("eve", eve.Access)}
					for range 60 {
						pass(time.Second)
						for _, x := range append(seats, p.bob...) {
							if !x.gets() {
								t.Fatalf("%s gets nothing at %s", x.user, x.at.id)
							}
						}
					}
					f.must(all[2].users.RevokeDevice(context.Background(), account("eve"), "phone-1"))
					pass(promised)
					for _, x := range seats {
						x.wantEnded("a minute later", im.CodeRevoked)
					}
				})
			})
		}
	}
}

// F17: a gateway that has neither the store nor the other nodes writes nothing
// more to anybody, and keeps the sockets; whoever is valid goes on behind it.
func TestF17GatewayWithoutStoreAndBusWritesNothing(t *testing.T) {
	for what, c := range changes {
		t.Run(what, func(t *testing.T) {
			fleetOf(t, 3, func(f *fleet, all []*site) {
				p := f.people(all)
				gateway := all[0]
				mine := []*seat{p.phone[0], p.laptop[0], p.bare[0], p.bob[0]}
				f.part(gateway, true)
				gateway.line.cut.Store(true)
				f.must(c.do(all[1].users, p))
				pass(2 * time.Second)
				if !p.bob[0].gets() {
					t.Error("nothing is written after 2 s already")
				}
				pass(promised - 2*time.Second)
				for range 60 {
					for _, x := range mine {
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
				f.part(gateway, false)
				gateway.line.cut.Store(false)
				for step := range 50 { // who is void gets nothing before the end
					for _, x := range mine {
						if void := x.user == "alice" && slices.Contains(voids(p, c.phone, c.laptop, c.bare), x); void && x.gets() {
							t.Fatalf("a session that is void gets an event %d ms after the cut", 100*step)
						}
					}
					pass(100 * time.Millisecond)
				}
				p.want(what, c.phone, c.laptop, c.bare)
				if !bob.s.Out.Resume() { // as a sync does
					t.Error("bob was not told to sync")
				}
				if !bob.gets() {
					t.Error("bob gets nothing behind the cut")
				}
			})
		})
	}
}

// voids are the sessions at the first node that end.
func voids(p *people, phone, laptop, bare im.Code) (list []*seat) {
	for _, k := range []struct {
		seats []*seat
		code  im.Code
	}{{p.phone, phone}, {p.laptop, laptop}, {p.bare, bare}} {
		if k.code != "" {
			list = append(list, k.seats[0])
		}
	}
	return list
}

// F17: a request that was taken in time is not answered with what the user wants
// to read when that is over.
func TestF17AnswerThatComesTooLate(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		bob := f.people(all).bob[0]
		bob.send(call(7, "3s"))
		bob.want("answer of 7")
		f.part(all[0], true)
		all[0].line.cut.Store(true)
		bob.send(call(8, "2s"), call(9, "6s"))
		bob.want("answer of 8", "store_stalled of 9")
	})
}

func call(id uint64, took string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{Method: took, Request: &petrelv1.Call_Proto{}}}}
}

// F17: a node that told nobody of what it did dies and starts again while a
// gateway has no store: that it hears all nodes is not enough.
func TestF17DeathWhileThereIsNoStore(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		p := f.people(all[:1])
		all[0].line.cut.Store(true)
		all[1].mute.Store(true)
		f.must(all[1].users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		all[1].kill(0)
		f.start("b")
		for range 20 {
			pass(promised)
			if p.phone[0].gets() {
				t.Fatal("a session that is void gets an event")
			}
		}
		all[0].line.cut.Store(false)
		pass(promised)
		p.want("the store is back", im.CodeRevoked, "", "")
		p.bob[0].s.Out.Resume()
		if !p.bob[0].gets() {
			t.Error("bob gets nothing")
		}
	})
}

// F17: as before, with more sessions than the store was asked about yet.
func TestF17DeathWhileTheStoreIsSlow(t *testing.T) {
	synctestFleet(t, func(f *fleet) { f.checks = 50 }, 2, func(f *fleet, all []*site) {
		var seats []*seat
		for n := range 50 {
			u := im.User(fmt.Sprint("user-", n))
			seats = append(seats, all[0].sit(u, all[0].bare(u)))
		}
		all[0].line.cut.Store(true)
		all[1].mute.Store(true)
		for _, c := range seats {
			f.must(all[1].users.Revoke(context.Background(), account(c.user)))
		}
		all[1].kill(0)
		f.start("b")
		pass(promised)
		for _, c := range seats {
			if c.gets() {
				t.Fatal("a session that is void gets an event")
			}
		}
	})
}

// F17: a gateway that cannot read the heartbeats sees a node on the bus only, and
// hears nothing of it.
func TestF17NodeThatIsSeenOnTheBusOnly(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		p := f.people(all[:1])
		all[2].kill(0)
		pass(promised)
		all[0].line.cut.Store(true)
		pass(10 * time.Second)
		if !p.bob[0].gets() {
			t.Error("bob gets nothing while the gateway hears all nodes")
		}
		c := f.start("c")
		f.part(c, true)
		pass(time.Second)
		f.must(c.users.RevokeDevice(context.Background(), account("alice"), "phone-1"))
		pass(promised)
		if p.phone[0].gets() {
			t.Error("a session that is void gets an event")
		}
	})
}

// F17: a process that stands still has been told of nothing. It must not need a
// moment to notice.
func TestF17ProcessThatStoodStillWritesNothing(t *testing.T) {
	fleetOf(t, 2, func(f *fleet, all []*site) {
		p := f.people(all)
		all[0].stop() // what would notice
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
