package petrel

import (
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Typing is the kind of signals that show that a person writes.
const Typing = "typing"

const (
	typingEvery = 3 * time.Second // P-13.2
	typingShown = 6 * time.Second // P-13.2

	maxTyping      = 100         // users of one conversation
	maxSignals     = 64          // that Signals returns
	signalsAreKept = time.Minute // as long as the longest hold of P-13.4
)

// lossy is the momentary state. Nothing of it is stored. The end of the connection drops typing, told and
// presence.
type lossy struct {
	typing   map[*conv]map[string]time.Time // when a user stops being shown as typing
	told     map[string]time.Time           // time of the last typing signal of this user, by target
	signals  []heard                        // the oldest first
	watch    []string                       // users whose presence the application wants to know
	watchIn  string                         // a conversation in which they are; "": none
	presence map[string]Presence            // known presence of the watched users
}

type heard struct {
	*petrelv1.Signal
	at time.Time
}

// Presence tells whether a user is online. A user whom the caller may not see, or who does not exist, is
// offline. Spec: P-13.6.
type Presence struct {
	Online bool
	Last   time.Time // when an offline user was last online, rounded to 10 minutes; zero: not known
	// Profile is the version of the user's profile; "": not told. Spec: P-14.5.
	Profile string
}

// sayTyping sends that the user is writing, at most every 3 s for each target.
func (c *core) sayTyping(target string, s *petrelv1.SendSignal) {
	now := c.now
	if c.live == nil || !c.live.offers(capSignal) || now.Sub(c.lossy.told[target]) < typingEvery {
		return
	}
	if c.lossy.told == nil {
		c.lossy.told = map[string]time.Time{}
	}
	c.lossy.told[target] = now
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Signal{Signal: s}}, func(*petrelv1.ServerFrame) {})
	c.out.woken = true
}

// setWatch names the users whose presence the application wants to know, and a conversation in which they are.
func (c *core) setWatch(conv string, users []string) {
	c.lossy.watch, c.lossy.watchIn = slices.Clone(users), conv
	for u := range c.lossy.presence {
		if !slices.Contains(users, u) {
			delete(c.lossy.presence, u)
		}
	}
	if c.live != nil {
		c.live.watchDue = true
		c.sendWatch(c.now)
	}
	c.out.woken = true
}

// signals returns the kept signals, the oldest first.
func (c *core) signals() []*petrelv1.Signal {
	var all []*petrelv1.Signal
	for _, s := range c.lossy.signals {
		if c.now.Sub(s.at) < signalsAreKept {
			all = append(all, s.Signal)
		}
	}
	return all
}

// sendWatch sends the watched users to the server, if that is due.
func (c *core) sendWatch(now time.Time) {
	lv := c.live
	switch {
	case !lv.watchDue || !lv.offers(capPresence):
		return
	case now.Before(lv.watchAt):
		c.alarmAt(lv.watchAt)
		return
	}
	lv.watchDue = false
	q := &petrelv1.SetWatch{Users: c.lossy.watch}
	if lv.offers(capProfiles) {
		q.Conv = c.lossy.watchIn
	}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Watch{Watch: q}}, func(f *petrelv1.ServerFrame) {
		if e := f.GetError(); e != nil && e.Retryable {
			lv.watchDue, lv.watchAt = true, c.retryAt(e)
			c.alarmAt(lv.watchAt)
			c.out.woken = true
		}
	})
}

// takeLossy applies the momentary events of a push.
func (c *core) takeLossy(ev *petrelv1.Events) {
	for _, s := range ev.Signals {
		c.takeSignal(s, c.now)
	}
	for _, p := range ev.Presences {
		if !slices.Contains(c.lossy.watch, p.User) {
			continue // of an earlier watch
		}
		c.profileTold(p.User, p.Profile)
		got := Presence{Online: p.Online, Profile: p.Profile}
		if p.LastMs > 0 {
			got.Last = time.UnixMilli(int64(p.LastMs))
		}
		if was, known := c.lossy.presence[p.User]; !known || was != got {
			if c.lossy.presence == nil {
				c.lossy.presence = map[string]Presence{}
			}
			c.lossy.presence[p.User] = got
			c.changed.Presence = true
		}
	}
}

// takeSignal keeps the newest signal of each conversation, sender and kind. The server may send a held signal a
// second time; the client ignores the copy. Spec: P-13.1.
func (c *core) takeSignal(s *petrelv1.Signal, now time.Time) {
	if s.Kind == Typing {
		c.takeTyping(s, now)
		return
	}
	l := &c.lossy
	l.signals = slices.DeleteFunc(l.signals, func(x heard) bool { return now.Sub(x.at) >= signalsAreKept })
	if i := slices.IndexFunc(l.signals, func(x heard) bool {
		return x.Conv == s.Conv && x.From == s.From &&
			x.Kind == s.Kind
	}); i >= 0 {
		if l.signals[i].Id == s.Id || l.signals[i].TimeMs > s.TimeMs {
			return
		}
		l.signals = slices.Delete(l.signals, i, i+1)
	}
	if len(l.signals) >= maxSignals {
		l.signals = slices.Delete(l.signals, 0, 1)
	}
	l.signals = append(l.signals, heard{s, now})
	c.changed.Signals = true
}

// takeTyping shows that a user is typing. It ignores a signal that arrives after the message for which the user
// typed. Spec: P-13.3.
func (c *core) takeTyping(s *petrelv1.Signal, now time.Time) {
	v := c.convs[s.Conv]
	if v == nil || s.From == c.meta.User || v.wrote(s.From, s.Head) {
		return
	}
	if c.lossy.typing == nil {
		c.lossy.typing = map[*conv]map[string]time.Time{}
	}
	of := c.lossy.typing[v]
	if of == nil {
		of = map[string]time.Time{}
		c.lossy.typing[v] = of
	}
	if _, known := of[s.From]; !known {
		if len(of) >= maxTyping {
			return
		}
		c.changed.touch(v.id)
	}
	of[s.From] = now.Add(typingShown)
	c.out.woken = true // step has to set the alarm for its end
}

// wrote tells whether the client has an entry of a user above a seq.
func (v *conv) wrote(user string, seq uint64) bool {
	for i := len(v.entries) - 1; i >= 0 && v.entries[i].m.Seq > seq; i-- {
		if v.entries[i].m.From == user {
			return true
		}
	}
	for q, m := range v.held {
		if q > seq && m.From == user {
			return true
		}
	}
	return false
}

// stopTyping stops showing user as typing, because an entry of theirs has arrived. Spec: P-13.3.
func (c *core) stopTyping(v *conv, user string) {
	if _, typing := c.lossy.typing[v][user]; typing {
		delete(c.lossy.typing[v], user)
		c.changed.touch(v.id)
	}
}

// typingEnds drops users of whom no typing signal has come for typingShown.
func (c *core) typingEnds(now time.Time) {
	for v, of := range c.lossy.typing {
		for u, until := range of {
			if now.Before(until) {
				c.alarmAt(until)
				continue
			}
			delete(of, u)
			c.changed.touch(v.id)
			c.out.woken = true // the subscriptions are told with the next turn
		}
		if len(of) == 0 {
			delete(c.lossy.typing, v)
		}
	}
}

// typists returns the users who are typing in v, sorted.
func (c *core) typists(v *conv) []string {
	var all []string
	for u := range c.lossy.typing[v] {
		all = append(all, u)
	}
	slices.SortFunc(all, strings.Compare)
	return all
}

// endLossy drops the typing users and the presences: the connection has ended. The signals and the list of
// watched users stay.
func (c *core) endLossy() {
	for v := range c.lossy.typing {
		c.changed.touch(v.id)
	}
	c.changed.Presence = c.changed.Presence || len(c.lossy.presence) > 0
	c.lossy.typing, c.lossy.presence, c.lossy.told = nil, nil, nil
}
