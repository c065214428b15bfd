package scenario

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func itoa[T ~int | ~uint64 | ~uint32](n T) string { return strconv.FormatUint(uint64(n), 10) }

// render turns what arrived into lines, and notes what it says.
func (s *session) render() {
	s.mu.Lock()
	frames, ended := s.frames, s.ended
	s.frames = nil
	s.mu.Unlock()
	for _, f := range frames {
		s.renderFrame(f)
	}
	if ended != nil && s.conn != nil {
		s.put("%s", endLine(ended))
		s.close()
	}
}

func (s *session) renderFrame(f *petrelv1.ServerFrame) {
	delete(s.requests, f.Id)
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Welcome:
		s.welcome(b.Welcome)
		l := fmt.Sprintf("welcome version=%d user=%s", b.Welcome.Version, b.Welcome.User)
		if len(s.w.offers) > 0 {
			l += " capabilities=" + strings.Join(slices.Sorted(slices.Values(b.Welcome.Capabilities)), ",")
		}
		s.put("%s", l)
	case *petrelv1.ServerFrame_Ack:
		x := s.pending[f.Id]
		delete(s.pending, f.Id)
		if x == nil {
			s.put("ack of frame %d, which asked for none", f.Id)
			return
		}
		s.acked(x, b.Ack)
		s.put("ack%s seq=%d", x.label(), b.Ack.Seq)
	case *petrelv1.ServerFrame_Error:
		s.put("error %s", s.failed(f.Id, b.Error))
	case *petrelv1.ServerFrame_Events:
		s.renderEvents(b.Events)
	case *petrelv1.ServerFrame_History:
		s.putAll(s.page(b.History))
	case *petrelv1.ServerFrame_Sync:
		s.syncToken = b.Sync.Token
		s.putAll(s.synced(b.Sync))
	case *petrelv1.ServerFrame_Cursor:
		s.put("cursor %s%s%s", s.w.nameOf(s.user, b.Cursor.Conv), cursorText(b.Cursor), mentionsText(b.Cursor.Mentions))
	case *petrelv1.ServerFrame_Focus:
		s.putAll(s.focused(b.Focus))
	case *petrelv1.ServerFrame_Signal, *petrelv1.ServerFrame_Watch: // no line: they say nothing
	case *petrelv1.ServerFrame_Pong:
		s.ponged = f.Id
	case *petrelv1.ServerFrame_Lagged:
		s.put("lagged")
	default:
		s.put("%T", f.Body)
	}
}

func (s *session) putAll(lines []string) {
	for _, l := range lines {
		s.put("%s", l)
	}
}

func (s *session) renderEvents(e *petrelv1.Events) {
	for _, m := range e.Messages {
		had, below := s.seen[m.Conv][m.Seq], m.Seq <= max(s.heads[m.Conv], s.stored[m.Conv])
		s.told(m)
		mark := ""
		if s.w.database != "" { // where a new owner of a conversation pushes what the last one may not have
			if had {
				continue // as every client does (P-6.1)
			}
			if below {
				mark = belowMark
			}
		}
		if i := m.GetInbox(); i != nil {
			s.put("inbox %s", s.w.inboxText(s.user, i))
			continue
		}
		s.put("%smessage %s %s", mark, s.w.nameOf(s.user, m.Conv), entryText(m))
	}
	for _, h := range e.Hints {
		s.heads[h.Conv] = max(s.heads[h.Conv], h.Head)
		l := fmt.Sprintf("hint %s head=%d counted=%d", s.w.nameOf(s.user, h.Conv), h.Head, h.Counted)
		if h.MentionSeq > 0 {
			l += " mention=" + itoa(h.MentionSeq)
		}
		s.put("%s", l)
	}
	for _, x := range e.Signals {
		s.put("%s", s.signalText(x))
	}
	slices.SortFunc(e.Presences, func(a, b *petrelv1.Presence) int { return strings.Compare(a.User, b.User) })
	for _, x := range e.Presences {
		l := "presence " + x.User + " offline"
		switch {
		case x.Online:
			l = "presence " + x.User + " online"
		case x.LastMs > 0:
			l += " seen"
		}
		if x.Profile != "" {
			l += " profile=" + s.w.nameOfVersion(x.Profile)
		}
		s.put("%s", l)
	}
	for _, r := range e.Receipts {
		s.put("receipt %s %s%s", s.w.nameOf(s.user, r.Conv), r.User, cursorText(r))
	}
	for _, n := range e.Notes {
		s.put("note %s %s", s.w.nameOf(s.user, n.Conv), noteText(n))
	}
}

// signalText is one signal.
func (s *session) signalText(x *petrelv1.Signal) string {
	l := fmt.Sprintf("signal %s from=%s %s head=%d", s.w.nameOf(s.user, x.Conv), x.From, x.Kind, x.Head)
	if len(x.Data) > 0 {
		l += fmt.Sprintf(" %q", x.Data)
	}
	if x.HoldMs > 0 {
		l += fmt.Sprintf(" hold=%d", x.HoldMs)
	}
	return l
}

// cursorText is a pair of cursors, without those at 0.
func cursorText(c interface {
	GetDelivered() uint64
	GetRead() uint64
}) string {
	l := ""
	if q := c.GetDelivered(); q > 0 {
		l += " delivered=" + itoa(q)
	}
	if q := c.GetRead(); q > 0 {
		l += " read=" + itoa(q)
	}
	return l
}

// focused is the answer to a focus: a line for each head in the order of the
// names, and one for the end.
func (s *session) focused(f *petrelv1.Focused) []string {
	var lines []string
	for _, h := range f.Heads {
		s.heads[h.Conv] = max(s.heads[h.Conv], h.Head)
		lines = append(lines, fmt.Sprintf("focus %s head=%d counted=%d", s.w.nameOf(s.user, h.Conv), h.Head, h.Counted))
	}
	slices.Sort(lines)
	return append(lines, "focused")
}

func (x *sent) label() string {
	if x.named {
		return " k=" + x.frame.ClientMsgId
	}
	return ""
}

// acked notes where a send stands.
func (s *session) acked(x *sent, a *petrelv1.Ack) {
	w := s.w
	if x.frame.User != "" {
		w.learn(s.user.tenant, s.user.name, x.frame.User, a.Conv)
		x.conv = a.Conv
		s.user.list(change{x.conv, 1})
		s.user.tenant.users[x.frame.User].list(change{x.conv, 1})
	}
	x.answered = true
	s.heads[x.conv] = max(s.heads[x.conv], a.Seq)
	s.see(x.conv, a.Seq)
	if _, repeat := w.ledger.stored[x.key()]; !repeat {
		if err := w.ledger.toldOwn(x, a); err != nil {
			w.fatalf("%s: the sender's own copy is another one: %v", s.name, err)
		}
	}
	if err := w.ledger.acked(x, a.Seq); err != nil {
		w.fatalf("%s: %v", s.name, err)
	}
}

// failed notes what an error decides, and writes it.
func (s *session) failed(id uint64, e *petrelv1.Error) string {
	x := s.pending[id]
	delete(s.pending, id)
	text := e.Code
	if x != nil {
		if e.Settled {
			x.answered = true
			s.w.ledger.refused(x)
			text += " settled"
		} else {
			text += " unsettled"
		}
		text += x.label()
	}
	if e.Head > 0 {
		text += " head=" + itoa(e.Head)
	}
	return text + about(e.User)
}

// about names the user whom a refusal is about.
func about(user string) string {
	if user == "" {
		return ""
	}
	return " about=" + user
}

// told notes an entry that the session was shown.
func (s *session) told(m *petrelv1.Message) {
	s.heads[m.Conv] = max(s.heads[m.Conv], m.Seq)
	s.see(m.Conv, m.Seq)
	if err := s.w.ledger.told(s.user, m); err != nil {
		s.w.fatalf("%s: %v", s.name, err)
	}
}

func (s *session) see(conv string, seq uint64) {
	if s.seen[conv] == nil {
		s.seen[conv] = map[uint64]bool{}
	}
	s.seen[conv][seq] = true
}

// entryText is one entry, without its conversation.
func entryText(m *petrelv1.Message) string {
	l := "seq=" + itoa(m.Seq)
	if m.From != "" {
		l += " from=" + m.From
	}
	if m.EditedBy > 0 {
		l += " edited=" + itoa(m.EditedBy)
	}
	if m.RecalledBy > 0 {
		l += " recalled=" + itoa(m.RecalledBy)
	}
	if m.Withheld {
		l += " withheld"
	}
	switch b := m.Body.(type) {
	case *petrelv1.Message_Members:
		return l + " members" + membersText(b.Members)
	case *petrelv1.Message_Group:
		if b.Group.Frozen != nil {
			return l + map[bool]string{true: " frozen", false: " thawed"}[*b.Group.Frozen]
		}
		return l + " title=" + strconv.Quote(b.Group.Title)
	case *petrelv1.Message_Inbox:
		return l + " inbox"
	case *petrelv1.Message_Edit:
		return l + " edit " + itoa(b.Edit.Target) + bodyText(b.Edit) + editRelText(b.Edit)
	case *petrelv1.Message_Recall:
		return l + " recall " + itoa(b.Recall.Target)
	}
	l += relText(m.Rel)
	if m.ThreadN > 0 {
		l += " n=" + itoa(m.ThreadN)
	}
	return l + bodyText(m)
}

// bodied is what has the body of a message: a message, a send, an edit.
type bodied interface {
	GetType() string
	GetText() string
	GetData() []byte
}

// bodyText is a text or data, or that there is none.
func bodyText(m bodied) string {
	l := ""
	if k := m.GetType(); k != "" && k != "text" {
		l = " type=" + k
	}
	text, data := "", false
	switch m := m.(type) {
	case *petrelv1.Message:
		if m.Body == nil {
			return l + " empty"
		}
		_, data = m.Body.(*petrelv1.Message_Data)
	case *petrelv1.Edit:
		if m.Body == nil {
			return l + " empty"
		}
		_, data = m.Body.(*petrelv1.Edit_Data)
	}
	if text = m.GetText(); data {
		return l + " data=" + hex.EncodeToString(m.GetData())
	}
	return l + " " + strconv.Quote(text)
}

func membersText(c *petrelv1.MemberChange) string {
	var l string
	for _, m := range c.Added {
		l += " +" + m.User
		if m.Role == petrelv1.Role_ROLE_ADMIN {
			l += "=admin"
		}
	}
	for _, u := range c.Removed {
		l += " -" + u
	}
	for _, u := range c.Left {
		l += " ~" + u
	}
	for _, m := range c.Roles {
		l += " " + m.User + "=" + roleText(m.Role)
	}
	if c.Dissolved {
		l += " dissolved"
	}
	return l
}

func roleText(r petrelv1.Role) string {
	return strings.ToLower(strings.TrimPrefix(r.String(), "ROLE_"))
}

func (w *world) inboxText(u *user, e *petrelv1.InboxEntry) string {
	switch b := e.Entry.(type) {
	case *petrelv1.InboxEntry_Joined:
		return "joined " + w.nameOf(u, b.Joined.Conv)
	case *petrelv1.InboxEntry_Left:
		return "left " + w.nameOf(u, b.Left.Conv)
	case *petrelv1.InboxEntry_Role:
		return "role " + w.nameOf(u, b.Role.Conv) + " " + roleText(b.Role.Role)
	case *petrelv1.InboxEntry_Settings:
		if b.Settings.User != "" {
			return "settings @" + b.Settings.User + valuesText(b.Settings.Values)
		}
		if b.Settings.Conv == "" {
			return "settings" + valuesText(b.Settings.Values)
		}
		return "settings " + w.nameOf(u, b.Settings.Conv) + valuesText(b.Settings.Values)
	case *petrelv1.InboxEntry_Session:
		if b.Session.Revoked {
			return "session " + b.Session.Device + " revoked"
		}
		return "session " + b.Session.Device
	}
	return fmt.Sprintf("%T", e.Entry)
}

// page is a page of history: a line for the page and one for each entry.
func (s *session) page(p *petrelv1.HistoryPage) []string {
	l := fmt.Sprintf("page %s head=%d", s.w.nameOf(s.user, p.Conv), p.Head)
	if p.FirstSeq != 1 {
		l += " first=" + itoa(p.FirstSeq)
	}
	if p.More {
		l += " more"
	}
	lines := []string{l}
	s.heads[p.Conv] = max(s.heads[p.Conv], p.Head)
	for _, m := range p.Messages {
		if s.user != nil {
			s.told(m)
		}
		lines = append(lines, "entry "+entryText(m))
	}
	return append(append(lines, s.quotes(p.Conv, p.Refs)...), noteTexts(p.Notes)...)
}

// synced is a page of a sync: a line for each conversation in the order of
// their names, and one for the end of the page.
func (s *session) synced(p *petrelv1.SyncPage) []string {
	var groups [][]string // a changed line and its newest ones
	for _, c := range p.Convs {
		if c.Peer != "" {
			s.w.learn(s.user.tenant, s.user.name, c.Peer, c.Conv)
		}
		s.heads[c.Conv] = max(s.heads[c.Conv], c.Head)
		g := []string{"changed " + s.stateText(c)}
		for _, m := range c.Newest {
			s.told(m)
			g = append(g, "newest "+entryText(m))
		}
		groups = append(groups, append(append(g, s.quotes(c.Conv, c.Refs)...), noteTexts(c.Notes)...))
	}
	slices.SortFunc(groups, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	lines := append(s.personalLines(p), slices.Concat(groups...)...)
	if p.More {
		return append(lines, "synced more")
	}
	return append(lines, "synced")
}

// stateText is how a user stands in a conversation. A client with capabilities
// sees more of it.
func (s *session) stateText(c *petrelv1.ConvState) string {
	name := s.w.nameOf(s.user, c.Conv)
	if c.Kind == petrelv1.ConvKind_CONV_KIND_DIRECT && name != "d:"+c.Peer {
		name += " peer=" + c.Peer
	}
	l := fmt.Sprintf("%s head=%d", name, c.Head)
	if c.Joined != 1 {
		l += " joined=" + itoa(c.Joined)
	}
	if c.Left {
		l += " left"
	}
	l += cursorText(c)
	if r := c.PeerReceipt; r != nil && cursorText(r) != "" {
		l += " peer:" + cursorText(r)
	}
	if len(s.w.offers) == 0 {
		return l
	}
	if c.Kind == petrelv1.ConvKind_CONV_KIND_GROUP {
		if c.Title != name {
			l += " title=" + strconv.Quote(c.Title)
		}
		if c.Role > petrelv1.Role_ROLE_MEMBER {
			l += " role=" + roleText(c.Role)
		}
	}
	l += fmt.Sprintf(" unread=%d", s.unread(c)) + mentionsText(c.Mentions)
	if c.MentionsMissing {
		l += " mentions missing"
	}
	if c.PeerProfile != "" {
		l += " profile=" + s.w.nameOfVersion(c.PeerProfile)
	}
	return l
}

// unread is what a client makes of a state (P-8.7).
func (s *session) unread(c *petrelv1.ConvState) int64 {
	n := int64(c.Counted) - int64(c.ReadCounted)
	for key, x := range s.w.ledger.stored {
		m := s.w.ledger.entries[c.Conv][x.seq]
		if key.conv == c.Conv && key.by == s.user && x.counts && x.seq > c.Read && x.seq <= c.Head && (m == nil || m.Counted > c.ReadCounted) {
			n--
		}
	}
	return n
}
