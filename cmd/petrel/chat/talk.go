package chat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// talk is the client as the views need it: snapshots in their words, and what a
// person can do. Only view and plain use it, from one goroutine; what waits for
// the server is a function to be run elsewhere.
type talk struct {
	c     *petrel.Client
	about map[string]*group // by conversation id

	watched []string // whose presence is asked for
}

func newTalk(c *petrel.Client) *talk { return &talk{c: c, about: map[string]*group{}} }

// toUser begins the id of a direct conversation that nobody has written in yet.
const toUser = "@"

func (t *talk) link() (l link, synced bool) {
	s := t.c.Status()
	l = link{live: s.State == petrel.Live, user: s.User, next: s.Retry}
	if s.Err != nil {
		l.why = s.Err.Error()
	}
	return l, s.Synced
}

// list are the conversations: pinned ones first, then those with the newest messages. Of
// the users of direct ones it asks whether they are online.
func (t *talk) list() []conversation {
	var list []conversation
	var peers []string
	for _, v := range t.c.Conversations() {
		if v.Known && !hidden(&v) {
			list = append(list, t.conversation(&v))
			if v.Peer != "" && len(peers) < maxWatched {
				peers = append(peers, v.Peer)
			}
		}
	}
	if slices.Sort(peers); !slices.Equal(peers, t.watched) {
		t.watched = peers
		t.c.Watch(peers...)
	}
	return ordered(list)
}

// maxWatched is how many users a client may watch. Spec: P-13.5.
const maxWatched = 200

// typing tells the others that the person is writing.
func (t *talk) typing(id, text string) {
	if text != "" && !strings.HasPrefix(text, "/") && !strings.HasPrefix(id, toUser) {
		t.c.Typing(id)
	}
}

func (t *talk) conversation(v *petrel.Conversation) conversation {
	c := conversation{
		id: v.ID, name: v.Title, direct: v.Kind == petrelv1.ConvKind_CONV_KIND_DIRECT, left: v.Left,
		unread: uint64(max(v.Unread, 0)), read: v.Read, head: v.Head, typing: v.Typing, set: v.Personal,
		mentions: v.Mentions,
	}
	if c.direct {
		c.name = v.Peer
		p, _ := t.c.Presence(v.Peer)
		c.online, c.seen = p.Online, p.Last
	} else if c.name == "" {
		c.name = "group " + v.ID[1:5]
	}
	if m := v.Last; m != nil {
		c.at = when(m.TimeMs)
		c.preview = oneLine(bodyText(m))
		switch {
		case v.Personal.Hides(m.Seq):
			c.preview = ""
		case m.From == t.c.Status().User:
			c.preview = "you: " + c.preview
		case !c.direct:
			c.preview = m.From + ": " + c.preview
		}
	}
	return c
}

func when(ms uint64) time.Time { return time.UnixMilli(int64(ms)) }

// bodyText is what is to be read of a message.
func bodyText(m *petrel.Message) string {
	switch b := m.Body.(type) {
	case *petrelv1.Message_Text:
		return b.Text
	case *petrelv1.Message_Data:
		return fmt.Sprintf("(%d bytes of %s)", len(b.Data), m.Type)
	case nil:
		switch {
		case m.Withheld:
			return "(withheld)"
		case m.Lost:
			return "(lost)"
		case m.NeedsNewerVersion():
			return "(a newer version of petrel can show this)"
		case m.RecalledBy == 0:
			return "(edited after you left)"
		}
		return "recalled"
	}
	return ""
}

// quoteText is in one line what an entry answers; "": nothing.
func (t *talk) quoteText(conv string, seq uint64) string {
	if seq == 0 {
		return ""
	}
	q, known := t.c.Quote(conv, seq)
	text := "…"
	switch {
	case !known:
	case q == nil:
		text = "not available"
	case q.RecalledBy > 0:
		text = "recalled"
	case q.GetText() != "":
		text = q.GetText()
	case q.Cut || q.GetData() != nil:
		text = q.Type
	default:
		text = "an entry that is no message"
	}
	if q.GetFrom() != "" {
		text = q.From + ": " + text
	}
	return oneLine(fmt.Sprintf("#%d %s", seq, text))
}

// originText tells whose message a copy is; "": it is none.
func originText(f *petrelv1.Forwarded) string {
	switch {
	case f == nil:
		return ""
	case f.From == "":
		return "forwarded"
	}
	return oneLine("forwarded from " + f.From)
}

// entries are those of a conversation that the client holds, and behind them
// what is on its way.
func (t *talk) entries(id string) []entry {
	user := t.c.Status().User
	var list []entry
	v, _ := t.c.Conversation(id)
	g := t.about[id]
	for _, m := range t.c.Messages(id, v.Personal.ClearedTo, 0) {
		if e, ok := t.entry(&m, user); ok && !v.Personal.Hides(m.Seq) {
			if e.own && !e.notice {
				e.mark = t.markOf(&v, g, m.Seq)
			}
			list = append(list, e)
		}
	}
	for _, o := range t.pending(id) {
		if e, ok := outgoing(o, user); ok {
			d := o.Draft()
			e.quote = t.quoteText(id, cmp.Or(d.ReplyTo, d.Thread))
			list = append(list, e)
		}
	}
	return list
}

// entry is m as it is shown; entries that only change others are not.
func (t *talk) entry(m *petrel.Message, user string) (entry, bool) {
	e := entry{seq: m.Seq, from: m.From, own: m.From == user && user != "", at: when(m.TimeMs), key: fmt.Sprintf("#%d", m.Seq)}
	if e.own && m.ClientMsgId != "" {
		e.key = m.ClientMsgId // as while it was on its way
	}
	switch b := m.Body.(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		e.text, e.edited = bodyText(m), m.EditedBy > 0
		e.quote, e.origin = t.quoteText(m.Conv, cmp.Or(m.Rel.GetReplyTo(), m.Rel.GetThread())), originText(m.Rel.GetForwarded())
	case nil:
		e.text, e.recalled = bodyText(m), m.RecalledBy > 0
		e.notice = m.Withheld
	case *petrelv1.Message_Members:
		e.notice, e.text = true, membersText(m.From, b.Members)
	case *petrelv1.Message_Profile:
		e.notice, e.text = true, actor(m.From)+" named it “"+b.Profile.Title+"”"
	default:
		return entry{}, false
	}
	e.reactions = noteText(m)
	return e, true
}

// noteText is what members have made of m: the reactions with the user's own in brackets,
// and whether it is pinned.
func noteText(m *petrel.Message) string {
	var words []string
	if m.Pinned {
		words = append(words, "📌 pinned")
	}
	for _, r := range m.Reactions {
		word := fmt.Sprintf("%s %d", clean(r.Emoji), r.Count)
		if r.Mine {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, "  ")
}

func actor(user string) string {
	if user == "" {
		return "the operator"
	}
	return user
}

// membersText is a change of members in words.
func membersText(by string, ch *petrelv1.MemberChange) string {
	var words []string
	if len(ch.Added) > 0 {
		var users []string
		verb := " added "
		for _, m := range ch.Added {
			if m.User == by {
				verb = " made the group with "
				continue
			}
			users = append(users, m.User)
		}
		words = append(words, actor(by)+verb+listed(users))
	}
	if len(ch.Removed) > 0 {
		words = append(words, actor(by)+" removed "+listed(ch.Removed))
	}
	if len(ch.Left) > 0 {
		words = append(words, listed(ch.Left)+" left")
	}
	for _, m := range ch.Roles {
		words = append(words, m.User+" is "+roleText(m.Role)+" now")
	}
	if ch.Dissolved {
		words = append(words, actor(by)+" dissolved the group")
	}
	return strings.Join(words, ", ")
}

func roleText(r petrelv1.Role) string {
	return strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_"))
}

// listed are at most eight names in words.
func listed(users []string) string {
	more := ""
	if len(users) > 8 {
		more = fmt.Sprintf(" and %d more", len(users)-8)
		users = users[:8]
	}
	if n := len(users); more == "" && n > 1 {
		return strings.Join(users[:n-1], ", ") + " and " + users[n-1]
	}
	return strings.Join(users, ", ") + more
}

// outgoing is a message on its way, as it is shown. Of edits and recalls only
// their failure is.
func outgoing(o *petrel.Outgoing, user string) (entry, bool) {
	d := o.Draft()
	state, _, seq, err := o.State()
	e := entry{key: o.ID, seq: seq, from: user, own: true, at: o.Composed, text: d.Text}
	switch state {
	case petrel.Sending:
		e.mark = sending
	case petrel.Sent:
		e.mark = stored
	case petrel.Rejected:
		e.mark, e.why = rejected, "refused"
		if err != nil {
			e.why = err.Error()
		}
	case petrel.Unknowable:
		e.mark = unknown
	}
	switch {
	case d.Edit != nil:
		e.text = "edit: " + d.Edit.GetText()
	case d.Recall != nil:
		e.text = "recall"
	case d.Forward != nil:
		e.text = "(forward)"
		return e, true
	case d.Data != nil:
		e.text = "(" + o.ID + ")"
	default:
		return e, true
	}
	return e, e.mark == rejected || e.mark == unknown
}

// markOf tells how far all the others of v are, as far as is known.
func (t *talk) markOf(v *petrel.Conversation, g *group, seq uint64) mark {
	others := 1 // of a direct conversation
	if v.Kind != petrelv1.ConvKind_CONV_KIND_DIRECT {
		if g == nil || g.more || len(g.members) < 2 {
			return stored
		}
		others = len(g.members) - 1
	}
	gotIt, sawIt := 0, 0
	count := func(r *petrelv1.Receipt) {
		if r.GetDelivered() >= seq {
			gotIt++
		}
		if r.GetRead() >= seq {
			sawIt++
		}
	}
	for user, r := range v.Receipts {
		if g != nil && !g.has(user) {
			continue
		}
		count(r)
	}
	if g != nil {
		for user, r := range g.receipts {
			if v.Receipts[user] == nil && g.has(user) {
				count(r)
			}
		}
	}
	switch {
	case sawIt >= others:
		return read
	case gotIt >= others:
		return delivered
	}
	return stored
}

// find is the conversation whose id or beginning of its name is given.
func find(list []conversation, name string) (string, error) {
	want := strings.ToLower(strings.TrimPrefix(name, "@"))
	for _, c := range list {
		if c.id == name || strings.HasPrefix(strings.ToLower(c.name), want) {
			return c.id, nil
		}
	}
	return "", fmt.Errorf("no conversation begins with %s", name)
}

// resolve finds the id behind that of a direct conversation that may have begun
// meanwhile.
func (t *talk) resolve(id string) string {
	if peer, ok := strings.CutPrefix(id, toUser); ok {
		if conv := t.c.Direct(peer); conv != "" {
			return conv
		}
	}
	return id
}

func draftTo(id string) petrel.Draft {
	if peer, ok := strings.CutPrefix(id, toUser); ok {
		return petrel.Draft{User: peer}
	}
	return petrel.Draft{Conv: id}
}

// send takes a message for the conversation.
func (t *talk) send(id, text string) (*petrel.Outgoing, error) {
	d := draftTo(id)
	d.Text = text
	t.name(&d)
	return t.c.Send(d)
}

// reply answers an entry of the conversation.
func (t *talk) reply(id string, seq uint64, text string) (*petrel.Outgoing, error) {
	d := draftTo(id)
	d.ReplyTo, d.Text = seq, text
	t.name(&d)
	return t.c.Send(d)
}

// forward copies an entry of the conversation to the one that is named.
func (t *talk) forward(id string, seq uint64, name string) (*petrel.Outgoing, error) {
	to, err := find(t.list(), name)
	if peer, ok := strings.CutPrefix(name, toUser); err != nil && ok {
		to, err = toUser+peer, nil
	}
	if err != nil {
		return nil, err
	}
	d := draftTo(to)
	d.Forward = &petrelv1.Ref{Conv: id, Seq: seq}
	return t.c.Send(d)
}

// lastOwn is the user's newest message that can be changed; while it is on its
// way it has no seq yet.
func (t *talk) lastOwn(id string) (seq uint64, o *petrel.Outgoing) {
	pending := t.pending(id)
	for i := len(pending) - 1; i >= 0; i-- {
		d := pending[i].Draft()
		state, _, seq, _ := pending[i].State()
		if d.Edit == nil && d.Recall == nil && state <= petrel.Sent {
			return seq, pending[i]
		}
	}
	user := t.c.Status().User
	for _, m := range t.c.Messages(id, 0, 0) {
		switch m.Body.(type) {
		case *petrelv1.Message_Text, *petrelv1.Message_Data:
			if m.From == user {
				seq = m.Seq
			}
		}
	}
	return seq, nil
}

func (t *talk) pending(id string) []*petrel.Outgoing {
	if peer, ok := strings.CutPrefix(id, toUser); ok {
		return t.c.PendingTo(peer)
	}
	return t.c.Pending(id)
}

// act does what an order says about a message.
func (t *talk) act(id string, o order) (*petrel.Outgoing, error) {
	switch o.verb {
	case "/reply":
		return t.reply(id, o.seq, o.text)
	case "/forward":
		return t.forward(id, o.seq, o.text)
	}
	return t.change(id, o.seq, o.text)
}

// change edits (text) or recalls (no text) a message, the last own one if seq
// is 0.
func (t *talk) change(id string, seq uint64, text string) (*petrel.Outgoing, error) {
	if seq == 0 {
		var o *petrel.Outgoing
		switch seq, o = t.lastOwn(id); {
		case seq == 0 && o != nil:
			return nil, fmt.Errorf("your last message is still on its way")
		case seq == 0:
			return nil, fmt.Errorf("you have no message here that can be changed")
		}
	}
	d := draftTo(id)
	if text == "" {
		d.Recall = &petrelv1.Recall{Target: seq}
	} else {
		d.Edit = &petrelv1.Edit{Target: seq, Body: &petrelv1.Edit_Text{Text: text}}
	}
	return t.c.Send(d)
}

// refused takes away what was refused here, and with again sends it once more.
func (t *talk) refused(id string, again bool) (n int, err error) {
	for _, o := range t.pending(id) {
		if s, _, _, _ := o.State(); s != petrel.Rejected && s != petrel.Unknowable {
			continue
		}
		n++
		o.Discard()
		if again {
			if _, err := t.c.Send(o.Draft()); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// waiting counts the messages that are not stored yet, of all conversations.
func (t *talk) waiting(list []conversation, open string) (n int) {
	count := func(id string) {
		for _, o := range t.pending(id) {
			if s, _, _, _ := o.State(); s == petrel.Sending {
				n++
			}
		}
	}
	for _, c := range list {
		count(c.id)
	}
	if strings.HasPrefix(open, toUser) {
		count(open)
	}
	return n
}
