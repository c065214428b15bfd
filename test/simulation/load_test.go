package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// load is what clients do.
var load = []step{
	{"send", 30, func(w *world, r *rand.Rand) string { return w.write(r, 1+r.IntN(3)) }},
	{"burst", 6, func(w *world, r *rand.Rand) string { return w.write(r, 10+r.IntN(30)) }},
	{"repeat", 8, (*world).repeat},
	{"conflict", 3, (*world).conflict},
	{"edit", 6, (*world).edit},
	{"recall", 5, (*world).recall},
	{"add", 5, (*world).addMember},
	{"kick", 5, (*world).kick},
	{"leave", 2, (*world).leave},
	{"role", 2, (*world).role},
	{"cursor", 8, (*world).cursor},
	{"page", 8, (*world).page},
	{"sync", 4, (*world).syncOnce},
	{"state", 5, (*world).state},
	{"receipts", 3, (*world).receipts},
	{"react", 4, (*world).react},
	{"reconnect", 6, (*world).reconnect},
	{"focus", 4, (*world).focus},
	{"away", 2, (*world).away},
}

func (w *world) device(r *rand.Rand) *device { return w.devices[r.IntN(len(w.devices))] }

// conversation draws one that a user is or may be in.
func (w *world) conversation(r *rand.Rand, u im.User) im.Key {
	if r.IntN(3) > 0 {
		return w.groups[r.IntN(len(w.groups))]
	}
	all := w.keysOf(u)
	return all[r.IntN(len(all))]
}

// name calls a conversation by something short.
func (w *world) name(key im.Key) string {
	for i, g := range w.groups {
		if g == key {
			return fmt.Sprint("g", i+1)
		}
	}
	for _, u := range w.o.users {
		if v := w.peerOf(key, u); v != "" {
			return string(u) + "+" + string(v)
		}
	}
	return key.Conv.String()
}

func (w *world) nextID(r *rand.Rand) string {
	return fmt.Sprintf("m%d-%04x", w.log.stamp(), r.IntN(1<<16))
}

func (w *world) write(r *rand.Rand, n int) string {
	d := w.device(r)
	key, keyed := w.conversation(r, d.account.User), r.IntN(5) == 0
	var all []*send
	for range n {
		id := w.nextID(r)
		all = append(all, d.compose(key, id, "text "+id+strings.Repeat(" and on", r.IntN(30)), keyed))
	}
	d.enqueue(all...)
	return words(d.name, "writes", n, "to", w.name(key), all[0].id)
}

// earlier draws a send of the past, mostly a late one, for which ok says yes.
func (w *world) earlier(r *rand.Rand, ok func(s *send) bool) *send {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 10 {
		if len(w.sends) == 0 {
			return nil
		}
		if s := w.sends[len(w.sends)-1-r.IntN(min(len(w.sends), 30))]; ok(s) {
			return s
		}
	}
	return nil
}

// deviceOf draws a device of a user.
func (w *world) deviceOf(r *rand.Rand, u im.User) *device {
	for {
		if d := w.device(r); d.account.User == u {
			return d
		}
	}
}

func (w *world) repeat(r *rand.Rand) string {
	s := w.earlier(r, func(s *send) bool { return true })
	if s == nil {
		return ""
	}
	d := w.deviceOf(r, s.user)
	d.enqueue(copyOf(s))
	return words(d.name, "sends", s.id, "again")
}

func (w *world) conflict(r *rand.Rand) string {
	s := w.earlier(r, func(s *send) bool { return s.change == nil && s.edits+s.recalls == 0 && !s.twin.Load() })
	if s == nil {
		return ""
	}
	d := w.deviceOf(r, s.user)
	c := copyOf(s)
	c.text = "another text for " + s.id
	s.twin.Store(true)
	d.enqueue(c)
	return words(d.name, "sends another text as", s.id)
}

// target draws a message of a device's user that is stored.
func (w *world) target(r *rand.Rand, d *device) (key im.Key, q im.Seq) {
	s := w.earlier(r, func(s *send) bool {
		return s.user == d.account.User && s.state == acked && s.change == nil && s.edits+s.recalls == 0
	})
	if s == nil {
		return im.Key{}, 0
	}
	return s.key, s.seq // settled
}

func (w *world) edit(r *rand.Rand) string {
	d := w.device(r)
	key, q := w.target(r, d)
	if q == 0 {
		return ""
	}
	id := w.nextID(r)
	s := d.compose(key, id, "edited by "+id, r.IntN(5) == 0)
	s.peer, s.edits = "", q
	d.enqueue(s)
	return words(d.name, "edits", q, "of", w.name(key), id)
}

func (w *world) recall(r *rand.Rand) string {
	d := w.device(r)
	key, q := w.target(r, d)
	if q == 0 {
		return ""
	}
	s := d.compose(key, w.nextID(r), "", r.IntN(5) == 0)
	s.peer, s.recalls = "", q
	d.enqueue(s)
	return words(d.name, "recalls", q, "of", w.name(key), s.id)
}

// change has a device change the members of a group.
func (w *world) change(r *rand.Rand, d *device, key im.Key, c *petrelv1.MemberChange) string {
	s := d.compose(key, w.nextID(r), "", true)
	s.change = c
	d.enqueue(s)
	return words(d.name, "changes", w.name(key), "by", c, s.id)
}

func (w *world) group(r *rand.Rand) im.Key { return w.groups[r.IntN(len(w.groups))] }

func (w *world) user(r *rand.Rand) im.User { return w.o.users[r.IntN(len(w.o.users))] }

// admin draws a device, mostly of the user who owns the groups at first.
func (w *world) admin(r *rand.Rand) *device {
	if r.IntN(5) == 0 {
		return w.device(r)
	}
	return w.deviceOf(r, w.o.users[0])
}

func (w *world) addMember(r *rand.Rand) string {
	return w.change(r, w.admin(r), w.group(r), &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: string(w.user(r)), Role: petrelv1.Role_ROLE_MEMBER}}})
}

func (w *world) kick(r *rand.Rand) string {
	return w.change(r, w.admin(r), w.group(r), &petrelv1.MemberChange{Removed: []string{string(w.user(r))}})
}

func (w *world) leave(r *rand.Rand) string {
	d := w.device(r)
	return w.change(r, d, w.group(r), &petrelv1.MemberChange{Left: []string{string(d.account.User)}})
}

func (w *world) role(r *rand.Rand) string {
	role := petrelv1.Role_ROLE_ADMIN - petrelv1.Role(r.IntN(2))
	return w.change(r, w.admin(r), w.group(r), &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{{User: string(w.user(r)), Role: role}}})
}

// ask has the connection of a device ask something in the background.
func (w *world) ask(d *device, f func(c *conn)) {
	d.mu.Lock()
	c := d.conn
	d.mu.Unlock()
	if c != nil {
		w.wg.Go(func() { f(c) })
	}
}

func (w *world) cursor(r *rand.Rand) string {
	d := w.device(r)
	key := w.conversation(r, d.account.User)
	d.mu.Lock()
	v := d.views[key]
	q := &convpb.MoveCursor{Delivered: uint64(v.have)}
	d.mu.Unlock()
	switch r.IntN(4) {
	case 0:
		q.Read = q.Delivered
	case 1:
		q.Read = uint64(r.IntN(int(q.Delivered) + 10))
	case 2:
		q.Delivered = uint64(r.IntN(int(q.Delivered) + 10))
	}
	w.ask(d, func(c *conn) { c.move(key, q) })
	return words(d.name, "moves its cursors in", w.name(key), "to", q.Delivered, q.Read)
}

// move moves the cursors of the user.
func (c *conn) move(key im.Key, q *convpb.MoveCursor) {
	began := c.d.w.log.stamp()
	var m *petrelv1.CursorMoved
	err := c.call(func(ctx context.Context) (err error) {
		m, err = route.Ask(ctx, c.at.router, conv.Query{Conv: key, User: c.d.account.User}, (*conv.Owner).MoveCursor, q)
		return err
	})
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if err == nil && !c.over {
		c.noteLocked(checker.Op{Kind: checker.Receipt, Conv: key.Conv.String(), About: string(c.d.account.User), Seq: m.Delivered, ReadUpTo: m.Read, Began: began})
	}
}

func (w *world) page(r *rand.Rand) string {
	d := w.device(r)
	key := w.conversation(r, d.account.User)
	d.mu.Lock()
	head := int(d.views[key].head)
	d.mu.Unlock()
	q := &petrelv1.GetHistory{}
	switch at := uint64(r.IntN(head + 2)); r.IntN(3) {
	case 0:
		q.After = at
	case 1:
		q.Before = at + 1
	case 2:
		q.Around = at + 1
	}
	w.ask(d, func(c *conn) { c.page(key, q, 1+r.IntN(30), false) })
	return words(d.name, "reads", w.name(key), "after", q.After, "before", q.Before, "around", q.Around)
}

func (w *world) syncOnce(r *rand.Rand) string {
	d := w.device(r)
	var asks []*convpb.Ask
	for _, key := range w.keysOf(d.account.User) {
		asks = append(asks, &convpb.Ask{Conv: key.Conv[:], Kind: kindOf(key), Peer: string(w.peerOf(key, d.account.User)), Always: true})
	}
	w.ask(d, func(c *conn) { c.changes(asks, false) })
	return words(d.name, "syncs")
}

func (w *world) state(r *rand.Rand) string {
	d := w.device(r)
	key := w.conversation(r, d.account.User)
	w.ask(d, func(c *conn) {
		began := w.log.stamp()
		var st *convpb.State
		err := c.call(func(ctx context.Context) (err error) {
			st, err = route.Ask(ctx, c.at.router, conv.Query{Conv: key, User: d.account.User}, (*conv.Owner).State, &convpb.GetState{})
			return err
		})
		d.mu.Lock()
		defer d.mu.Unlock()
		if err == nil && !c.over && st.Role != 0 {
			c.noteLocked(checker.Op{Kind: checker.Head, Conv: key.Conv.String(), Seq: st.Head, Began: began})
		}
	})
	return words(d.name, "asks for the head of", w.name(key))
}

func (w *world) receipts(r *rand.Rand) string {
	d := w.device(r)
	key := w.conversation(r, d.account.User)
	w.ask(d, func(c *conn) { c.receipts(key) })
	return words(d.name, "asks for the cursors of", w.name(key))
}

func (c *conn) receipts(key im.Key) {
	began := c.d.w.log.stamp()
	var all *convpb.Receipts
	err := c.call(func(ctx context.Context) (err error) {
		all, err = route.Ask(ctx, c.at.router, conv.Query{Conv: key, User: c.d.account.User}, (*conv.Owner).Receipts, &convpb.ListReceipts{})
		return err
	})
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if err != nil || c.over {
		return
	}
	for _, x := range all.Receipts {
		c.noteLocked(checker.Op{Kind: checker.Receipt, Conv: key.Conv.String(), About: x.User, Seq: x.Delivered, ReadUpTo: x.Read, Began: began})
	}
}

func (w *world) react(r *rand.Rand) string {
	d := w.device(r)
	key := w.conversation(r, d.account.User)
	d.mu.Lock()
	q := &convpb.React{Seq: uint64(1 + r.IntN(int(d.views[key].head)+1)), Emoji: []string{"👍", "🐦"}[r.IntN(2)], Removed: r.IntN(3) == 0}
	d.mu.Unlock()
	w.ask(d, func(c *conn) {
		_ = c.call(func(ctx context.Context) error {
			_, err := route.Ask(ctx, c.at.router, conv.Query{Conv: key, User: d.account.User}, (*conv.Owner).React, q)
			return err
		})
	})
	return words(d.name, "reacts to", q.Seq, "of", w.name(key))
}

func (w *world) reconnect(r *rand.Rand) string {
	d := w.device(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		d.conn.abandonLocked("it wants to")
	}
	return words(d.name, "connects again")
}

// away has a device be away for a while.
func (w *world) away(r *rand.Rand) string {
	d := w.device(r)
	t := seconds(r, 1, 10)
	set := func(quit bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.quit = quit; quit && d.conn != nil {
			d.conn.abandonLocked("it goes away")
		}
	}
	set(true)
	w.during(t, func() { set(false) })
	return words(d.name, "is away for", t)
}

func (w *world) focus(r *rand.Rand) string {
	d := w.device(r)
	if !d.hints {
		return ""
	}
	var convs map[im.ConvID]bool
	if r.IntN(3) > 0 {
		convs = map[im.ConvID]bool{w.conversation(r, d.account.User).Conv: true}
	}
	w.ask(d, func(c *conn) {
		d.mu.Lock()
		c.focus++
		n := c.focus
		d.mu.Unlock()
		_ = c.call(func(context.Context) error {
			c.out.Focus(n, convs)
			return nil
		})
		d.mu.Lock()
		c.syncLocked() // the heads after the focus
		d.mu.Unlock()
		c.sync()
	})
	return words(d.name, "looks at", len(convs), "conversations")
}
