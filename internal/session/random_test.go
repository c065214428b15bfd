package session_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

var (
	seed  = flag.Uint64("seed", 0, "replay one random schedule")
	seeds = flag.Int("seeds", 15, "how many random schedules")
)

// Three nodes lose each other and the store, die and start again, at random. No
// session gets an event later than promised after its tokens were revoked, and no
// valid session is ended. When all nodes have reached the store for that time, no void
// session is open and every valid one gets events, even if the bus is still cut.
func TestRandomRevocations(t *testing.T) {
	first, n := uint64(1), *seeds
	if *seed != 0 {
		first, n = *seed, 1
	}
	for s := first; s < first+uint64(n); s++ {
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			fleetOf(t, 3, func(f *fleet, _ []*site) {
				judge, err := user.New(context.Background(), user.Options{}, f.db)
				f.must(err)
				x := &unrest{fleet: f, judge: judge, dice: rand.New(rand.NewPCG(s, s))}
				x.run()
			})
		})
	}
}

// unrest is a fleet to which faults happen at random.
type unrest struct {
	*fleet
	judge *user.Users
	dice  *rand.Rand
	conns []*claim
	story []string
	ended int
}

// claim is a connection with the token of its hello.
type claim struct {
	*conn
	token    string
	welcomed bool
	void     time.Time // since when the token is void; zero: it is valid
}

func (x *unrest) note(format string, args ...any) {
	x.story = append(x.story, fmt.Sprintf(format, args...))
}

func (x *unrest) fail(format string, args ...any) {
	x.t.Helper()
	x.t.Fatalf("%s\n%q", fmt.Sprintf(format, args...), x.story)
}

func (x *unrest) pick() *site {
	var all []im.Node
	for n := range x.nodes {
		all = append(all, n)
	}
	slices.Sort(all)
	return x.nodes[all[x.dice.IntN(len(all))]]
}

func (x *unrest) run() {
	for range 60 {
		x.act()
		for wait := x.dice.IntN(3000); wait > 0; wait -= 250 {
			pass(time.Duration(min(wait, 250)) * time.Millisecond)
			x.check(false)
		}
	}
	for _, s := range x.nodes {
		s.storeConn.cut.Store(false)
	}
	pass(promised)
	if len(x.nodes) == 3 && x.dice.IntN(2) == 0 { // or the cuts of the bus stay
		for _, s := range x.nodes {
			s.bus.SetRules(bustest.Rules{})
			x.cutOff(s, false)
		}
		pass(promised)
	}
	x.check(true)
}

// act does one thing at random.
func (x *unrest) act() {
	s, u := x.pick(), im.User("user-"+strconv.Itoa(x.dice.IntN(3)))
	a, device := account(u), phoneRef(x.dice.IntN(3))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	close := x.dice.IntN(2) == 0 // the caller also ends the sessions, as the API does
	var err error
	switch n := x.dice.IntN(24); {
	case n < 8: // logs in
		if n < 2 {
			device.Kind = ""
		}
		l, e := s.users.Mint(ctx, "", u, device, 0)
		x.note("%s: login of %s by %s: %v", s.id, u, device.ID, e)
		if e != nil {
			return
		}
		x.judgeAll()
		for _, d := range l.Ended {
			if close {
				_, _ = s.hub.CloseDevice(ctx, a, d, im.CodeReplaced)
			}
		}
		x.hello(u, l.Access)
	case n < 11:
		issued, e := s.users.Create(ctx, "", []im.User{u})
		x.note("%s: token of %s: %v", s.id, u, e)
		if e == nil {
			x.hello(u, issued[0].Token)
		}
	case n < 14:
		err = s.users.RevokeDevice(ctx, a, device.ID)
		x.note("%s: %s of %s revoked: %v", s.id, device.ID, u, err)
		x.judgeAll()
		if close && err == nil {
			_, _ = s.hub.CloseDevice(ctx, a, device.ID, im.CodeRevoked)
		}
	case n < 16:
		change, what := s.users.Disable, "disabled"
		if x.dice.IntN(2) == 0 {
			change, what = s.users.Enable, "enabled"
		}
		_, err = change(ctx, a)
		x.note("%s: %s %s: %v", s.id, u, what, err)
		x.judgeAll()
	case n < 17:
		err = s.users.Revoke(ctx, a)
		x.note("%s: %s revoked: %v", s.id, u, err)
		x.judgeAll()
		if close && err == nil {
			_, _ = s.hub.CloseUser(ctx, a, im.CodeRevoked)
		}
	default:
		x.fault(s, a)
	}
}

// hello begins a session somewhere.
func (x *unrest) hello(u im.User, token string) {
	s := x.pick()
	x.note("%s: hello of %s", s.id, u)
	c := s.connect(token)
	c.user = u
	x.conns = append(x.conns, &claim{conn: c, token: token})
}

func (x *unrest) fault(s *site, a im.Account) {
	to := x.pick()
	switch x.dice.IntN(8) {
	case 0, 1:
		x.note("%s to %s cut", s.id, to.id)
		cut(s, to, true)
	case 2:
		x.note("%s is alone", s.id)
		x.cutOff(s, true)
	case 3:
		x.note("%s is not alone", s.id)
		x.cutOff(s, false)
	case 4:
		lose := x.dice.Float64() / 2
		x.note("%s loses %.2f", s.id, lose)
		s.bus.SetRules(bustest.Rules{Seed: x.dice.Uint64(), Lose: lose, Duplicate: lose, Delay: lose, MaxDelay: 300 * time.Millisecond})
	case 5, 6:
		off := !s.storeConn.cut.Load()
		x.note("%s is cut from the store: %v", s.id, off)
		s.storeConn.cut.Store(off)
	case 7:
		if len(x.nodes) < 3 {
			for _, id := range []im.Node{"a", "b", "c"} {
				if x.nodes[id] == nil {
					x.note("%s starts", id)
					x.start(id)
				}
			}
			return
		}
		s.tellsNobody.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err := s.users.Revoke(ctx, a)
		x.note("%s revokes %s (%v) and dies", s.id, a.User, err)
		for _, c := range x.conns {
			if c.at == s {
				c.close()
			}
		}
		s.kill(time.Duration(x.dice.IntN(6)) * time.Second)
		x.judgeAll()
	}
}

// judgeAll notes which tokens are void from now on.
func (x *unrest) judgeAll() {
	for _, c := range x.conns {
		if _, err := x.judge.AuthenticateSession(context.Background(), c.token); err != nil && c.void.IsZero() {
			c.void = time.Now()
		}
	}
}

// check checks all sessions. With quiet, after a time without faults, the valid ones
// must get events and the others must have ended.
func (x *unrest) check(quiet bool) {
	x.t.Helper()
	for i, c := range x.conns {
		if c.gone {
			continue
		}
		c.look()
		for _, f := range c.frames {
			c.welcomed = c.welcomed || f.GetWelcome() != nil
		}
		name := fmt.Sprintf("session %d, of %s at %s", i, c.user, c.at.id)
		switch {
		case c.end != nil && c.void.IsZero() && c.welcomed:
			x.fail("%s is valid and ends with %v", name, c.end)
		case c.end != nil:
			if c.welcomed {
				x.ended++
				if !slices.Contains([]im.Code{im.CodeReplaced, im.CodeRevoked, im.CodeUserDisabled}, c.end.Code) {
					x.fail("%s ends with %v", name, c.end)
				}
			}
			continue
		case !c.welcomed:
			if c.gets() {
				x.fail("%s gets an event before its welcome", name)
			}
			continue
		case quiet && !c.void.IsZero():
			x.fail("%s is open %s after its tokens ended", name, time.Since(c.void))
		}
		c.s.Out.Resume()
		gets := c.gets()
		if gets && !c.void.IsZero() && time.Since(c.void) > promised {
			x.fail("%s gets an event %s after its tokens ended", name, time.Since(c.void))
		}
		if quiet && !gets {
			x.fail("%s is valid and gets nothing", name)
		}
	}
	if quiet {
		x.t.Logf("%d sessions, %d ended", len(x.conns), x.ended)
	}
}
