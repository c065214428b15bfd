package console

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// Bounds of the kept refusals. A user with many refusals must not push out those of others: of each user (or
// address) and code, only the first eight in a second are kept; each further one raises the Count of the last one
// kept.
const (
	keptRefusals = 4096
	keptTime     = time.Hour
	apart        = 8
	maxText      = 200 // bytes of each text
	maxLoud      = 1024
	loudTime     = 60 // seconds
)

// Refusal is a refused frame or call.
type Refusal struct {
	At          time.Time
	What        string // send, hello, another frame, or a method
	Code        im.Code
	Text        string
	Account     im.Account // the zero value: nobody was logged in
	Named       bool       // it is of a login: Account is the user whom it named, who may know nothing of it
	Device      string
	Address     netip.Addr
	Conv        string    // of a refused send
	ClientMsgID string    // of a refused send
	Count       uint64    // 0: once
	First       time.Time // of a group: when its oldest refusal happened
}

// loud returns the key under which Loudest counts a refusal: the user; the address if nobody was logged in, or if
// it is of a login.
func (x *Refusal) loud() who {
	if x.Account.User == "" || x.Named {
		return who{host: x.Address, code: x.Code}
	}
	return who{account: im.Account{Tenant: x.Account.Tenant, User: im.User(strings.Clone(string(x.Account.User)))},
		code: x.Code}
}

// Refusals has the newest refusals of a node. The zero value is empty; any goroutine may use it.
type Refusals struct {
	mu    sync.Mutex // tier 0; guards the fields below
	ring  []Refusal  // at most keptRefusals
	next  int        // index of the oldest refusal, when ring is full
	burst map[who]*burst
	loud  map[who]*[2]uint64 // refusals of the present minute and of the one before
	turn  int64              // the present minute
}

// who is a user or address, with the code of its refusals.
type who struct {
	account im.Account
	host    netip.Addr // if there is no user
	code    im.Code
}

// burst counts the refusals of one user or address with one code within one second.
type burst struct {
	second int64
	n      int
	last   int // index in ring of the newest one that was kept
}

// Note keeps a refusal. If it is the ninth or a later one of its user (or address) with this code in this second,
// Note only counts it with the last one kept, unless others have replaced that. It does not block. It copies the first
// maxText bytes of each text, so that it holds no frame in memory.
func (r *Refusals) Note(x *Refusal) {
	k := who{account: x.Account, code: x.Code}
	if x.Account.User == "" {
		k.host = x.Address
	} else {
		k.account.User = im.User(strings.Clone(string(x.Account.User)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.burst == nil {
		r.burst, r.loud = map[who]*burst{}, map[who]*[2]uint64{}
	}
	r.countLocked(x.loud(), x.At)
	b := r.burst[k]
	if b != nil && b.second == x.At.Unix() {
		if b.n++; b.n > apart {
			// if no other refusal has replaced it in the ring
			if last := &r.ring[b.last]; last.Code == x.Code && last.Account == x.Account &&
				(x.Account.User != "" || last.Address == x.Address) && last.At.Unix() == b.second {
				last.Count = max(last.Count, 1) + 1
				return
			}
		}
	} else {
		if len(r.burst) >= maxLoud {
			clear(r.burst)
		}
		b = &burst{second: x.At.Unix(), n: 1}
		r.burst[k] = b
	}
	kept := *x
	for _, s := range []*string{&kept.What, &kept.Text, &kept.Device, &kept.Conv, &kept.ClientMsgID} {
		*s = strings.Clone((*s)[:min(len(*s), maxText)])
	}
	kept.Account = k.account
	if len(r.ring) < keptRefusals {
		b.last = len(r.ring)
		r.ring = append(r.ring, kept)
		return
	}
	b.last = r.next
	r.ring[r.next] = kept
	r.next = (r.next + 1) % keptRefusals
}

// countLocked counts a refusal for Loudest, unless too many others are counted.
func (r *Refusals) countLocked(k who, at time.Time) {
	if turn := at.Unix() / loudTime; turn != r.turn {
		for k, n := range r.loud {
			if n[1], n[0] = n[0], 0; turn != r.turn+1 || n[1] == 0 {
				delete(r.loud, k)
			}
		}
		r.turn = turn
	}
	n := r.loud[k]
	if n == nil {
		if len(r.loud) >= maxLoud {
			return
		}
		n = &[2]uint64{}
		r.loud[k] = n
	}
	n[0]++
}

// List returns the refusals of the last hour that fit, newest first, at most limit.
func (r *Refusals) List(now time.Time, limit int, fits func(*Refusal) bool) (list []Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ring {
		x := &r.ring[(r.next+len(r.ring)-1-i)%len(r.ring)]
		if now.Sub(x.At) > keptTime {
			continue
		}
		if fits(x) {
			if list = append(list, *x); len(list) == limit {
				break
			}
		}
	}
	return list
}

// Groups groups refusals by code and user, or by code and address if there is no user. list is newest first. A
// group is its newest refusal with the number of all its refusals. The largest group comes first.
func Groups(list []Refusal) []Refusal {
	at := map[who]int{}
	var all []Refusal
	for i := range list {
		x := &list[i]
		k := x.group()
		n, known := at[k]
		if !known {
			n = len(all)
			at[k] = n
			all = append(all, *x)
			all[n].Count = 0
		}
		all[n].Count += max(x.Count, 1)
		all[n].First = x.At
	}
	slices.SortStableFunc(all, func(a, b Refusal) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

func (x *Refusal) group() who {
	if x.Account.User == "" {
		return who{host: x.Address, code: x.Code}
	}
	return who{account: x.Account, code: x.Code}
}

// Loud is how many refusals a user or an address had, with one code, in about a minute.
type Loud struct {
	Account im.Account
	Address netip.Addr
	Code    im.Code
	Count   uint64
}

// Loudest returns the users and addresses with the most refusals of a code, at most n.
func (r *Refusals) Loudest(now time.Time, n int) []Loud {
	r.mu.Lock()
	var all []Loud
	old := now.Unix()/loudTime - r.turn
	for k, c := range r.loud {
		count := max(c[0], c[1])
		if old == 1 {
			count = c[0]
		}
		if old <= 1 && count > 0 {
			all = append(all, Loud{k.account, k.host, k.code, count})
		}
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b Loud) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Account.User, b.Account.User),
			cmp.Compare(a.Code, b.Code), a.Address.Compare(b.Address))
	})
	return all[:min(n, len(all))]
}
