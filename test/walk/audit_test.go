package walk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// settle ends all disturbances, and waits until nothing is on its way.
func (w *walk) settle() {
	w.lossy.stop()
	for _, d := range w.devices {
		d.net.heal()
		d.disk.fail(diskWorks)
		if d.c == nil {
			d.start()
		}
		d.closely = true
		d.c.FocusAll()
		d.net.cut() // the content of a lost push comes with the next sync
		d.c.WakeUp()
	}
	for _, d := range w.devices {
		sent := func() bool {
			for id, m := range d.open { // of a group that is gone, or of which carol may read nothing more
				if !m.sure && d.sending(m.to) == 0 {
					m.maybe = true
					delete(d.open, id)
				}
			}
			if !d.live() || !d.c.Status().Synced {
				d.c.WakeUp()
			}
			return d.c.Status().Synced && d.unsent() == 0 && len(d.open) == 0
		}
		if !d.wait(patience, sent) {
			w.fail("%s: %d messages are still on their way, %d are not shown as stored: %+v", d.name, d.unsent(), len(d.open), d.c.Status())
		}
	}
}

// unsent is how many messages of all conversations are on their way.
func (d *device) unsent() (n int) {
	for _, to := range append([]string{d.w.stay, "@" + d.w.alice, "@" + d.w.bob, "@" + d.w.carol}, d.w.groups...) {
		n += d.sending(to)
	}
	return n
}

// truth is what the server says to one user.
type truth struct {
	states map[string]*petrelv1.ConvState
	logs   map[string]*serverLog
}

// serverLog is what a user may read of a conversation.
type serverLog struct {
	entries []*petrelv1.Message
	notes   map[uint64]*petrelv1.Note
}

// has tells whether the user may read an entry of those from first to last.
func (l *serverLog) has(first, last uint64) bool {
	return slices.ContainsFunc(l.entries, func(m *petrelv1.Message) bool { return m.Seq >= first && m.Seq <= last })
}

// ask reads everything that the server has for a user.
func (w *walk) ask(user string) (*truth, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := wiretest.Open(ctx, wiretest.Options{URL: w.world.server.URL(wire.TCP), Codec: wire.Proto})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // it has said everything
	token := w.world.mint(user, "auditor").Access
	if err := c.Hello(ctx, &petrelv1.Hello{VersionMin: 1, VersionMax: 1, Token: token, Device: "auditor", Capabilities: []string{"rel", "notes", "mentions", "cursor", "edit"}}); err != nil {
		return nil, err
	}
	t := &truth{states: map[string]*petrelv1.ConvState{}, logs: map[string]*serverLog{}}
	for token := []byte(nil); ; {
		p, err := c.Sync(ctx, token)
		if err != nil {
			return nil, err
		}
		for _, s := range p.Convs {
			t.states[s.Conv] = s
		}
		if token = p.Token; !p.More {
			break
		}
	}
	for conv := range t.states {
		l := &serverLog{notes: map[uint64]*petrelv1.Note{}}
		t.logs[conv] = l
		for after, more := uint64(0), true; more; {
			p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, After: after})
			if err != nil {
				return nil, fmt.Errorf("history of %s: %w", conv, err)
			}
			for _, n := range p.Notes {
				l.notes[n.Seq] = n
			}
			l.entries = append(l.entries, p.Messages...)
			if more = p.More && len(p.Messages) > 0; more {
				after = p.Messages[len(p.Messages)-1].Seq
			}
		}
	}
	return t, nil
}

// audit compares everything that the applications know with the server.
func (w *walk) audit() {
	truths := map[string]*truth{}
	for _, user := range []string{w.alice, w.bob, w.carol} {
		t, err := w.ask(user)
		if err != nil {
			w.fail("ask the server: %v", err)
			return
		}
		truths[user] = t
	}
	for _, d := range w.devices {
		t := truths[d.user]
		var last string
		asked := time.Now()
		equal := d.wait(patience, func() bool {
			last = d.differs(t)
			if last != "" && time.Since(asked) > time.Second { // cursors are told once a second
				if again, err := w.ask(d.user); err == nil {
					t, asked = again, time.Now()
				}
			}
			return last == ""
		})
		if !equal || last != "" {
			w.fail("%s: %s", d.name, last)
			return
		}
		w.entries(d, t)
		w.ledger(d, truths)
	}
	w.incoming(truths[w.bob])
}

// differs is the first difference between the server and what Changes have told.
func (d *device) differs(t *truth) string {
	if want := slices.Sorted(keysOf(t.states)); !slices.Equal(d.shown.list, want) {
		return fmt.Sprintf("conversations: %v, want %v", d.shown.list, want)
	}
	if now := d.c.Unread(); d.shown.unread != now {
		return fmt.Sprintf("unread: a Change told %+v, and now it is %+v", d.shown.unread, now)
	}
	if now := d.c.Status(); d.shown.status != now {
		return fmt.Sprintf("status: a Change told %+v, and now it is %+v", d.shown.status, now)
	}
	for id, s := range t.states {
		v, l := d.shown.convs[id], t.logs[id]
		if v == nil {
			return fmt.Sprintf("%s: no Change has named it", id)
		}
		if now, _ := d.c.Conversation(id); fmt.Sprintf("%+v", outline(now)) != fmt.Sprintf("%+v", outline(v.Conversation)) {
			return fmt.Sprintf("%s: a Change told %+v, and now it is %+v", id, outline(v.Conversation), outline(now))
		}
		want := petrel.Conversation{
			ID: id, Kind: s.Kind, Title: s.Title, Peer: s.Peer, Role: s.Role, Left: s.Left, Known: true, Head: s.Head, Have: s.Head,
			Read: s.Read, Mentions: s.Mentions, Unread: v.Unread,
		}
		if v.Read > s.Read && !l.has(s.Read+1, v.Read) { // the server keeps the last seq that the user may read (P-8.3)
			want.Read = v.Read
		}
		least, most := unread(s, l, d.user, d.first(id))
		if v.Unread < least || v.Unread > most {
			want.Unread = least
		}
		if got := outline(v.Conversation); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", outline(want)) {
			return fmt.Sprintf("%s: read of the Changes: %+v, want %+v", id, got, outline(want))
		}
		if p := s.PeerReceipt; p != nil && v.Receipts[s.Peer].GetRead() != p.Read {
			return fmt.Sprintf("%s: the peer has read up to %d, want %d", id, v.Receipts[s.Peer].GetRead(), p.Read)
		}
	}
	return ""
}

// outline is what is compared of a conversation. The server tells versions of profiles to capable clients only, which the
// audit is not.
func outline(v petrel.Conversation) petrel.Conversation {
	v.Last, v.Typing, v.Receipts, v.Personal, v.PeerProfile = nil, nil, nil, petrel.Personal{}, ""
	if len(v.Mentions) == 0 {
		v.Mentions = nil
	}
	if v.Left {
		v.Mentions, v.Unread = nil, 0
	}
	return v
}

// unread is the number of P-8.7, and the most that a client may show which holds the entries
// from first on (S-14.5): it may take for unread the user's own messages that it has never held.
func unread(s *petrelv1.ConvState, l *serverLog, user string, first uint64) (least, most int) {
	n, unknown, before := int(s.Counted)-int(s.ReadCounted), 0, uint64(0)
	for _, m := range l.entries {
		if m.From == user && m.Counted > max(before, s.ReadCounted) {
			n--
			if m.Seq < first {
				unknown++
			}
		}
		before = m.Counted
	}
	return max(0, n), max(0, n+unknown)
}

// first is the seq of the oldest entry that the client holds.
func (d *device) first(id string) uint64 {
	for _, m := range d.c.Messages(id, 0, 1) {
		return m.Seq
	}
	return 0
}

// entries compares what the application holds with the log, byte for byte.
func (w *walk) entries(d *device, t *truth) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	for id, l := range t.logs {
		if t.states[id].Left {
			continue
		}
		if err := d.c.LoadNotes(ctx, id); err != nil {
			w.fail("%s: load notes: %v", d.name, err)
		}
		all := d.c.Messages(id, 0, 0)
		v := d.shown.convs[id]
		if v == nil || len(all) == 0 || len(v.told) == 0 {
			w.fail("%s: %s shows nothing", d.name, id)
			continue
		}
		var told []uint64
		for _, m := range all {
			told = append(told, m.Seq)
		}
		if d.keep == 0 {
			// Older entries that were loaded when the application asked are put in front, and those
			// of before the newest stay, of which nobody may have told.
			since, _ := slices.BinarySearch(told, v.told[0])
			for i, m := range all {
				if slices.ContainsFunc(m.GetMembers().GetAdded(), func(r *petrelv1.MemberRef) bool { return r.User == d.user }) {
					since = max(since, i)
				}
			}
			if from, _ := slices.BinarySearch(v.told, told[min(since, len(told)-1)]); !slices.Equal(v.told[from:], told[since:]) {
				w.fail("%s: %s: was told of %v, holds %v", d.name, id, v.told[from:], told[since:])
			}
		}
		from, _ := slices.BinarySearchFunc(l.entries, all[0].Seq, func(m *petrelv1.Message, seq uint64) int { return cmp.Compare(m.Seq, seq) })
		want := l.entries[from:]
		for i := range max(len(all), len(want)) {
			if i >= len(all) || i >= len(want) {
				w.fail("%s: %s: holds %d entries from %d on, want %d", d.name, id, len(all), all[0].Seq, len(want))
				break
			}
			if got := all[i]; !proto.Equal(plain(got.Message), plain(want[i])) {
				w.fail("%s: %s: holds %v, want %v", d.name, id, got.Message, want[i])
				break
			} else if note := reactions(l.notes[got.Seq], want[i]); fmt.Sprint(got.Reactions) != fmt.Sprint(note) {
				w.fail("%s: %s seq %d: reactions %v, want %v", d.name, id, got.Seq, got.Reactions, note)
				break
			}
		}
	}
}

// plain is an entry without the parts that nobody sees: the effects of a later edit or recall of
// the same target on the entry of an edit, and the editor of a message that is recalled.
func plain(m *petrelv1.Message) *petrelv1.Message {
	if m.GetEdit() == nil && m.RecalledBy == 0 {
		return m
	}
	m = proto.CloneOf(m)
	m.EditedBy = 0
	if m.GetEdit() != nil {
		m.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: m.GetEdit().Target}}
	}
	return m
}

func reactions(n *petrelv1.Note, m *petrelv1.Message) (all []petrel.Reaction) {
	if m.RecalledBy != 0 {
		return nil
	}
	for _, r := range n.GetReactions() {
		all = append(all, petrel.Reaction{Emoji: r.Emoji, Count: r.Count, Mine: r.Mine})
	}
	return all
}

// ledger looks for each message that the application has composed in the log: exactly once,
// in the order of composition, and nothing else.
func (w *walk) ledger(d *device, truths map[string]*truth) {
	type place struct {
		conv string
		*petrelv1.Message
	}
	stored := map[string][]place{}
	for _, t := range []*truth{truths[d.user], truths[w.alice]} { // alice sees what carol may read no more
		for conv, l := range t.logs {
			for _, m := range l.entries {
				at := stored[m.ClientMsgId]
				if m.From == d.user && !slices.ContainsFunc(at, func(p place) bool { return p.conv == conv && p.Seq == m.Seq }) {
					stored[m.ClientMsgId] = append(at, place{conv, m})
				}
			}
		}
	}
	type entry struct {
		*composed
		seq uint64
	}
	last := map[string]entry{} // by login and conversation
	texts := map[string]bool{}
	for _, other := range w.devices {
		for _, m := range other.composed {
			texts[m.text] = true
		}
	}
	for _, m := range d.composed {
		if m.id == "" {
			continue
		}
		at := stored[m.id]
		delete(stored, m.id)
		switch n := len(at); {
		case n > 1:
			w.fail("%s: message %s is stored %d times: %v", d.name, m.id, n, at)
		case n == 1 && (m.gone || m.lost):
			w.fail("%s: message %s is stored; rejected %v, lost before it was sent %v", d.name, m.id, m.gone, m.lost)
		case n == 0 && (m.sure || m.seen) && !m.maybe && !m.lost && !m.gone:
			w.fail("%s: message %s, %q to %s, is not stored; shown as stored: %v", d.name, m.id, m.text, m.to, m.seen)
		}
		if len(at) != 1 {
			continue
		}
		key := fmt.Sprint(m.login, " ", m.to)
		if p := last[key]; at[0].Seq < p.seq {
			w.fail("%s: %s: message %+v is at %d, and an earlier one, %+v, at %d", d.name, at[0].conv, m, at[0].Seq, p.composed, p.seq)
		}
		last[key] = entry{m, at[0].Seq}
	}
	for _, at := range stored {
		for _, p := range at {
			if text := p.GetText(); text != "" && !texts[text] {
				w.fail("%s: nobody has composed %q", p.conv, text)
			}
		}
	}
}

// incoming looks at what the loop of the bot got: each message of others once, in order.
func (w *walk) incoming(t *truth) {
	bot := w.devices[2]
	var missing string
	bot.wait(patience, func() bool {
		bot.mu.Lock()
		defer bot.mu.Unlock()
		told := map[string]bool{}
		for _, m := range bot.got {
			told[m.conv+" "+m.id] = true
		}
		missing = ""
		for conv, l := range t.logs {
			for _, m := range l.entries {
				if m.From != bot.user && m.GetText() != "" && m.ClientMsgId != "" && !told[conv+" "+m.From+"/"+m.ClientMsgId] {
					missing = fmt.Sprintf("%s seq %d", conv, m.Seq)
				}
			}
		}
		return missing == ""
	})
	if missing != "" {
		w.fail("%s: the loop did not get %s", bot.name, missing)
	}
	bot.mu.Lock()
	defer bot.mu.Unlock()
	last := map[string]incoming{}
	for _, m := range bot.got {
		p, told := last[m.conv]
		last[m.conv] = m
		switch {
		case !told, p.history != m.history: // the server went back in between
		case m.life == p.life && m.seq <= p.seq, m.seq < p.seq:
			w.fail("%s: the loop got %s seq %d after %d, lives %d and %d", bot.name, m.conv, m.seq, p.seq, m.life, p.life)
		}
	}
}

func keysOf[V any](of map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range of {
			if !yield(k) {
				return
			}
		}
	}
}
