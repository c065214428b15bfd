package petrel

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	maxProfiles    = 10_000                // users that the client remembers
	maxProfilesAsk = 100                   // users of one request, P-14.2
	gatherProfiles = 20 * time.Millisecond // wishes of this time go into one request
	profileIsFresh = 10 * time.Second      // a profile that was just confirmed is not asked for again
	profilesRetry  = 5 * time.Second       // after an answer or a refusal that names no time
)

// wish is the state of the client's question for a profile.
type wish uint8

const (
	noWish    wish = iota
	wishWaits      // until profile.due
	wishAsked      // the request is under way
)

// profile is the client's knowledge of the profile of one user.
type profile struct {
	user    string
	wanted  uint64            // number of the newest wish
	conv    string            // of the newest wish that named one
	account *petrelv1.Account // shared with the application: replaced, never changed
	known   bool              // the server has answered. Without an account there is no such user
	at      time.Time         // when the server confirmed it last
	wish    wish
	due     time.Time // of a wish that waits
	told    string    // the version that was told last; "": none
	late    bool      // it was told while the request was under way
	alone   bool      // the server refused a request with this user and others
}

// profiles are the profiles that the client remembers. Nothing of them is stored. Spec: S-20.
type profiles struct {
	of     map[string]*profile // by user
	wishes uint64              // number of the newest wish
	busy   bool                // a request is under way
	due    time.Time           // when the first wish may be sent; zero: there is none
}

func newProfiles() *profiles { return &profiles{of: map[string]*profile{}} }

// want finds the profile of a user, or adds one. One more than maxProfiles drops an eighth: the least recently wanted.
func (ps *profiles) want(user string) *profile {
	p := ps.of[user]
	if p == nil {
		p = &profile{user: user}
		ps.of[user] = p
	}
	ps.wishes++
	p.wanted = ps.wishes
	if n := len(ps.of); n > maxProfiles {
		for _, old := range ps.byWish(func(*profile) bool { return true })[:n-maxProfiles+maxProfiles/8] {
			delete(ps.of, old.user)
		}
	}
	return p
}

// byWish returns the profiles that is chooses, the least recently wanted first.
func (ps *profiles) byWish(is func(*profile) bool) []*profile {
	var all []*profile
	for p := range maps.Values(ps.of) {
		if is(p) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *profile) int { return cmp.Compare(a.wanted, b.wanted) })
	return all
}

func (c *core) profile(user string) (*petrelv1.Account, bool) {
	p := c.profiles.of[user]
	if p == nil {
		return nil, false
	}
	return p.account, p.known
}

func (c *core) wantProfiles(conv string, users []string) {
	for _, u := range users {
		p := c.profiles.want(u)
		if conv != "" {
			p.conv = conv
		}
		if p.wish == noWish && !c.isFresh(p) {
			c.askProfileAt(p, c.now.Add(gatherProfiles))
		}
	}
}

// isFresh reports whether p needs no question. A user who does not exist is asked for again only when a version is
// told.
func (c *core) isFresh(p *profile) bool {
	return p.known && (p.account == nil || c.now.Sub(p.at) < profileIsFresh ||
		c.lossy.presence[p.user].Profile == p.account.Version)
}

// askProfileAt makes the client ask for p at a time, or as soon after it as it is live.
func (c *core) askProfileAt(p *profile, at time.Time) {
	p.wish, p.due = wishWaits, at
	if ps := c.profiles; ps.due.IsZero() || at.Before(ps.due) {
		ps.due = at
	}
	c.out.woken = true
}

// profileTold takes a version that the server has told. It is another one than the client has, or it is not:
// versions have no order, because a server that was put back has older ones again. Spec: P-14.2, P-14.5.
func (c *core) profileTold(user, version string) {
	if version == "" {
		return
	}
	if v := c.convs[c.direct[user]]; v != nil && v.peerProfile != version {
		v.peerProfile = version
		c.touch(v)
	}
	p := c.profiles.of[user]
	if p == nil { // nobody wants it
		return
	}
	isNew := version != p.told
	p.told = version
	switch {
	case p.wish == wishAsked:
		p.late = p.late || isNew // the answer may have been read before the change
	case p.account.GetVersion() == version:
		c.confirm(p)
	case p.wish == noWish && isNew:
		c.askProfileAt(p, c.now.Add(gatherProfiles))
	}
}

func (c *core) confirm(p *profile) { p.known, p.at, p.alone = true, c.now, false }

// askProfiles sends one request for wanted profiles, if none is under way: the newest wishes first, of one conversation
// and of those that name none. Spec: S-20.1.
func (c *core) askProfiles() {
	ps, lv := c.profiles, c.live
	switch {
	case ps.busy || ps.due.IsZero() || !lv.offers(capProfiles) || !lv.offers(capCall):
		return
	case c.now.Before(ps.due):
		c.alarmAt(ps.due)
		return
	}
	var batch []*profile
	conv := ""
	ps.due = time.Time{}
	for _, p := range slices.Backward(ps.byWish(func(p *profile) bool { return p.wish == wishWaits })) {
		switch {
		case !c.now.Before(p.due) && joins(batch, conv, p):
			batch, conv = append(batch, p), cmp.Or(conv, p.conv)
		case ps.due.IsZero() || p.due.Before(ps.due):
			ps.due = p.due
		}
	}
	if len(batch) > 0 {
		c.askBatch(conv, batch)
	} else if !ps.due.IsZero() {
		c.alarmAt(ps.due)
	}
}

// joins reports whether the request for a batch, which names conv or "", may have p too.
func joins(batch []*profile, conv string, p *profile) bool {
	return len(batch) == 0 || len(batch) < maxProfilesAsk && !batch[0].alone && !p.alone &&
		(conv == "" || p.conv == "" || conv == p.conv)
}

func (c *core) askBatch(conv string, batch []*profile) {
	ps := c.profiles
	q := &petrelv1.GetUsersRequest{Conv: conv}
	for _, p := range batch {
		q.Users = append(q.Users, &petrelv1.UserVersion{User: p.user, Version: p.account.GetVersion()})
		p.wish, p.late = wishAsked, false
	}
	b, err := proto.Marshal(q)
	if err != nil { // the id of a user is no UTF-8
		c.refuseProfiles(batch, CodeInvalid)
		c.out.woken = true
		return
	}
	ps.busy = true
	call := &petrelv1.Call{Method: accountService + "GetUsers", Request: &petrelv1.Call_Proto{Proto: b}}
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Call{Call: call}}, func(f *petrelv1.ServerFrame) {
		ps.busy = false
		r := new(petrelv1.GetUsersResponse)
		switch e := f.GetError(); {
		case f == nil: // on the next connection
			c.waitForProfiles(batch, c.now)
		case e.GetRetryable():
			c.waitForProfiles(batch, c.profilesAgain(e.RetryAfterMs))
		case e != nil:
			c.refuseProfiles(batch, e.Code)
		case proto.Unmarshal(f.GetAnswer().GetProto(), r) != nil:
			c.refuseProfiles(batch, CodeInternal)
		default:
			c.takeProfiles(batch, r)
		}
		c.out.woken = true
	})
}

// profilesAgain returns the time of the next request after a wait that the server names; 0: it names none.
func (c *core) profilesAgain(waitMs uint32) time.Time {
	return c.now.Add(cmp.Or(time.Duration(waitMs)*time.Millisecond, profilesRetry))
}

func (c *core) waitForProfiles(batch []*profile, until time.Time) {
	for _, p := range batch {
		c.askProfileAt(p, until)
	}
}

// refuseProfiles applies a refusal that a repeat does not change. One user may be the reason: each is asked for alone.
func (c *core) refuseProfiles(batch []*profile, code string) {
	for _, p := range batch {
		p.wish = noWish
		switch {
		case code != CodeInvalid: // the next wish asks again
		case len(batch) > 1:
			p.alone = true
			c.askProfileAt(p, c.now)
		default: // no user has such an id
			c.setProfile(p, nil)
		}
	}
}

// takeProfiles applies an answer. It has nothing of the users whose profiles have the version of the request.
func (c *core) takeProfiles(batch []*profile, r *petrelv1.GetUsersResponse) {
	later, unknown, accounts := map[string]bool{}, map[string]bool{}, map[string]*petrelv1.Account{}
	for _, u := range r.Later {
		later[u] = true
	}
	for _, u := range r.Unknown {
		unknown[u] = true
	}
	for _, a := range r.Users {
		accounts[a.User] = a
	}
	until := c.profilesAgain(r.RetryAfterMs)
	for _, p := range batch {
		if later[p.user] {
			c.askProfileAt(p, until)
			continue
		}
		p.wish = noWish
		if a := accounts[p.user]; a != nil || unknown[p.user] {
			c.setProfile(p, a)
		} else {
			c.confirm(p)
		}
		if p.late && p.told != p.account.GetVersion() { // once: it may be that no answer has this version
			c.askProfileAt(p, c.now)
		}
	}
}

// setProfile sets the profile of a user; nil: there is no such user.
func (c *core) setProfile(p *profile, a *petrelv1.Account) {
	if !p.known || a.GetVersion() != p.account.GetVersion() {
		p.account = a
		c.changed.Profiles = true
	}
	c.confirm(p)
}

// forgetProfiles drops what belongs to the former history. It keeps wishes without an answer. An answer that still
// comes reaches only the dropped ones. Spec: P-14.2.
func (c *core) forgetProfiles() {
	old := c.profiles
	c.profiles = newProfiles()
	for _, p := range old.byWish(func(*profile) bool { return true }) {
		c.changed.Profiles = c.changed.Profiles || p.known
		if p.wish != noWish {
			c.wantProfiles(p.conv, []string{p.user})
		}
	}
}
