package walk

import (
	"context"
	"fmt"
	"slices"
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

// use is what a person does besides writing.
func (w *walk) use(d *device) {
	to, _ := w.conv(d)
	id := d.convOf(to)
	switch w.random(10) {
	case 0, 1, 2:
		if v, known := d.c.Conversation(id); known && v.Have > 0 && !d.bot { // its loop does
			d.c.MarkRead(id, v.Have-uint64(w.random(3))%v.Have)
		}
	case 3, 4:
		if m := w.entry(d, to, false); m != nil {
			emoji, removed := []string{"+1", "heart"}[w.random(2)], w.random(3) == 0
			d.call("react", func(ctx context.Context, c *petrel.Client) error { return c.React(ctx, m.Conv, m.Seq, emoji, removed) })
		}
	case 5:
		d.call("older", func(ctx context.Context, c *petrel.Client) error {
			_, err := c.Older(ctx, id, 10)
			return err
		})
	case 6:
		if w.random(2) == 0 || d.bot { // Incoming waits for the focus
			d.c.FocusAll()
		} else {
			d.c.Focus(id)
		}
	case 7:
		d.c.Typing(id)
	case 8:
		value := fmt.Sprint(w.random(5))
		d.call("settings", func(ctx context.Context, c *petrel.Client) error {
			return c.ChangeSettings(ctx, w.stay, "", map[string]string{"walk." + value: value})
		})
	case 9:
		if m := w.entry(d, to, false); m != nil {
			d.c.Quote(m.Conv, m.Rel.GetReplyTo())
		}
	}
}

// whole waits until a device that is connected holds what it has heard of: it asks for what
// is missing by itself.
func (w *walk) whole(d *device) {
	if d.net.isFrozen() {
		return
	}
	d.c.FocusAll()
	var missing string
	if !d.wait(patience, func() bool {
		missing = ""
		for _, v := range d.c.Conversations() {
			if v.Have < v.Head && !v.Left {
				missing = fmt.Sprintf("%s has %d of %d", v.ID, v.Have, v.Head)
			}
		}
		return missing == "" || !d.live() || !d.c.Status().Synced
	}) {
		w.fail("%s does not ask for what is missing: %s", d.name, missing)
	}
}

// govern makes groups, and changes who is in them.
func (w *walk) govern(d *device) {
	if d.user != w.alice { // she owns all of them
		d = w.devices[0]
	}
	if d.c == nil || !d.live() || len(w.groups) == 0 {
		return
	}
	id, n := w.groups[w.random(len(w.groups))], w.texts
	switch w.random(6) {
	case 0:
		if len(w.groups) < 4 && w.random(8) == 0 {
			ctx, stop := context.WithTimeout(d.ctx, 2*time.Second)
			defer stop()
			if made, err := d.c.CreateGroup(ctx, fmt.Sprint("group ", n), w.bob, w.carol); err == nil {
				w.groups = append(slices.Clone(w.groups), made)
			}
		}
	case 1:
		d.call("rename", func(ctx context.Context, c *petrel.Client) error {
			return c.RenameGroup(ctx, id, fmt.Sprint("title ", n))
		})
	case 2, 3:
		d.call("add", func(ctx context.Context, c *petrel.Client) error { return c.AddMembers(ctx, id, w.carol) })
	default:
		d.call("remove", func(ctx context.Context, c *petrel.Client) error { return c.RemoveMembers(ctx, id, w.carol) })
	}
}

// disturb has something happen to the frames that come next, or to the connection.
func (w *walk) disturb(d *device) {
	switch k := w.random(20); {
	case k < 4:
		d.net.arm(dropEvents, 1+w.random(3))
	case k < 8:
		d.net.arm(doubleFrame, 1+w.random(3))
	case k < 12:
		d.net.arm(holdFrame, 1+w.random(2))
	case k < 13:
		d.net.arm(dropAnswer, 1)
	case k < 14:
		d.net.arm([]fault{cutBeforeWrite, cutAfterWrite}[w.random(2)], 1)
	case k < 15 && w.random(3) == 0:
		w.count["cut"]++
		d.net.cut()
	case k < 18:
		if d.net.isLeft() || w.random(30) == 0 { // else the client would never give up what is frozen
			d.net.thaw()
			w.count["thawed"]++
		}
	default:
		w.count["woken"]++
		d.c.WakeUp() // in a pause it begins a round
	}
}

// trouble is what happens seldom: to a process, its disk, its tokens.
func (w *walk) trouble(d *device) {
	k := w.random(80)
	w.log("%s: trouble %d", d.name, k)
	switch {
	case k < 4:
		w.count["restart"]++
		d.end(d.mayEnd)
		d.reopen()
		if !w.failed() {
			d.start()
		}
	case k < 7:
		w.count["crash"]++
		d.crash(false)
	case k < 9 && !d.bot: // messages that the loop has finished would come again
		w.count["loss of power"]++
		if w.random(2) == 0 {
			w.sendBeforeSync(d)
		}
		d.crash(true)
	case k < 13:
		w.count["disk"]++
		d.disk.fail(diskFault(1 + w.random(5)))
	case k < 18:
		w.count["token expired"]++
		d.login.expires()
		d.net.cut()
		d.c.WakeUp()
	case k < 23:
		w.lossy.loseOne()
	case k < 27:
		w.count["frozen"]++
		d.net.freeze()
		d.c.WakeUp()
	case k < 28 && w.devices[0].c != nil && w.devices[0].live() && w.tablet.c != nil:
		w.logOut()
	}
}

// sendBeforeSync composes messages, and gives them time to go out, while the disk makes nothing
// durable. None may go out: a loss of power follows, and then nobody sends them again.
func (w *walk) sendBeforeSync(d *device) {
	if !d.net.isFrozen() {
		d.wait(time.Second, func() bool { return d.c.Status().Synced && d.sending(w.stay) == 0 }) // else they would wait for others
	}
	if d.c == nil || w.failed() {
		return
	}
	d.disk.hold()
	for range 3 {
		w.texts++
		d.compose(w.stay, true, petrel.Draft{Text: fmt.Sprintf("%s %d", d.name, w.texts)})
	}
	d.wait(10*time.Millisecond, func() bool { return false })
}

// readTogether has the two devices of alice read different messages of a conversation at the
// same time. The server sends no receipt to who moved the cursor within the same second: the
// answer tells the one that is behind.
func (w *walk) readTogether() {
	phone, tablet := w.devices[0], w.tablet
	for _, d := range []*device{phone, tablet} {
		if d.c == nil || !d.live() || d.loggedOut {
			return
		}
		d.net.heal()
	}
	ahead, _ := phone.c.Conversation(w.stay)
	behind, _ := tablet.c.Conversation(w.stay)
	to := min(ahead.Have, behind.Have)
	if to < max(ahead.Read, behind.Read)+2 {
		return
	}
	w.count["read together"]++
	phone.c.MarkRead(w.stay, to)
	tablet.c.MarkRead(w.stay, to-1)
	read := func() bool {
		v, _ := tablet.c.Conversation(w.stay)
		return v.Read >= to || !tablet.live() || !phone.live()
	}
	if !tablet.wait(patience, read) {
		w.fail("%s does not learn that another device has read up to %d", tablet.name, to)
	}
}

// logOut has alice void the tokens of her tablet from her phone.
func (w *walk) logOut() {
	phone := w.devices[0]
	id := fmt.Sprintf("%s-%d", w.tablet.name, w.tablet.logins)
	w.tablet.loggedOut = true
	ctx, stop := context.WithTimeout(phone.ctx, 5*time.Second)
	defer stop()
	if err := phone.c.RevokeDevice(ctx, id); err != nil {
		w.tablet.loggedOut = false // or nobody knows: then its tokens are gone
		if petrel.CodeOf(err) == "" {
			w.tablet.loggedOut = true
		}
		return
	}
	w.count["logged out"]++
	w.tablet.net.thaw()
	w.tablet.wait(patience, func() bool { return w.tablet.logins > 0 && !w.tablet.loggedOut })
}
