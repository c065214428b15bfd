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
		s.lines = append(s.lines, endLine(ended))
		s.close()
	}
}

func (s *session) renderFrame(f *petrelv1.ServerFrame) {
	delete(s.requests, f.Id)
	line := func(format string, a ...any) { s.lines = append(s.lines, fmt.Sprintf(format, a...)) }
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Welcome:
		s.welcome(b.Welcome)
		line("welcome version=%d user=%s", b.Welcome.Version, b.Welcome.User)
	case *petrelv1.ServerFrame_Ack:
		x := s.pending[f.Id]
		delete(s.pending, f.Id)
		if x == nil {
			line("ack of frame %d, which asked for none", f.Id)
			return
		}
		s.acked(x, b.Ack)
		line("ack%s seq=%d", x.label(), b.Ack.Seq)
	case *petrelv1.ServerFrame_Error:
		line("error %s", s.failed(f.Id, b.Error))
	case *petrelv1.ServerFrame_Events:
		for _, m := range b.Events.Messages {
			s.told(m)
			if e := m.GetInbox(); e != nil {
				s.inbox = append(s.inbox, "inbox "+s.w.inboxText(s.user, e))
				continue
			}
			line("message %s %s", s.w.nameOf(s.user, m.Conv), entryText(m))
		}
		if len(b.Events.Hints)+len(b.Events.Receipts) > 0 {
			line("hints or receipts that were not asked for")
		}
	case *petrelv1.ServerFrame_History:
		s.lines = append(s.lines, s.page(b.History)...)
	case *petrelv1.ServerFrame_Sync:
		s.token = b.Sync.Token
		s.lines = append(s.lines, s.synced(b.Sync)...)
	case *petrelv1.ServerFrame_Pong:
		s.ponged = f.Id
	case *petrelv1.ServerFrame_Lagged:
		line("lagged")
	default:
		line("%T", f.Body)
	}
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
		if want, _ := w.resolve(s.user, "d:"+x.frame.User); a.Conv != want {
			w.fatalf("%s sent to %s: the ack says conversation %s, want %s", s.name, x.frame.User, a.Conv, want)
		}
		x.conv = a.Conv
		s.user.list(change{x.conv, 1})
		w.tenant(s.user.tenant.name).users[x.frame.User].list(change{x.conv, 1})
	}
	x.answered = true
	s.heads[x.conv] = max(s.heads[x.conv], a.Seq)
	s.see(x.conv, a.Seq)
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
	return text
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
	if m.Type != "" && m.Type != "text" {
		l += " type=" + m.Type
	}
	switch b := m.Body.(type) {
	case *petrelv1.Message_Text:
		return l + " " + strconv.Quote(b.Text)
	case *petrelv1.Message_Data:
		return l + " data=" + hex.EncodeToString(b.Data)
	case *petrelv1.Message_Members:
		return l + " members" + membersText(b.Members)
	case *petrelv1.Message_Profile:
		return l + " title=" + strconv.Quote(b.Profile.Title)
	case *petrelv1.Message_Inbox:
		return l + " inbox"
	case nil:
		return l + " empty"
	}
	return l + fmt.Sprintf(" %T", m.Body)
}

func membersText(c *petrelv1.MemberChange) string {
	var l string
	for _, m := range c.Added {
		l += " +" + m.User
	}
	for _, u := range c.Removed {
		l += " -" + u
	}
	for _, u := range c.Left {
		l += " ~" + u
	}
	for _, m := range c.Roles {
		l += " " + m.User + "=" + strings.ToLower(strings.TrimPrefix(m.Role.String(), "ROLE_"))
	}
	return l
}

func (w *world) inboxText(u *user, e *petrelv1.InboxEntry) string {
	switch b := e.Entry.(type) {
	case *petrelv1.InboxEntry_Joined:
		return "joined " + w.nameOf(u, b.Joined.Conv)
	case *petrelv1.InboxEntry_Left:
		return "left " + w.nameOf(u, b.Left.Conv)
	case *petrelv1.InboxEntry_Role:
		return "role " + w.nameOf(u, b.Role.Conv)
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
	return lines
}

// synced is a page of a sync: a line for each conversation in the order of
// their names, and one for the end of the page.
func (s *session) synced(p *petrelv1.SyncPage) []string {
	var lines []string
	for _, c := range p.Convs {
		s.heads[c.Conv] = max(s.heads[c.Conv], c.Head)
		name := s.w.nameOf(s.user, c.Conv)
		if c.Kind == petrelv1.ConvKind_CONV_KIND_DIRECT && name != "d:"+c.Peer {
			name += " peer=" + c.Peer
		}
		l := fmt.Sprintf("changed %s head=%d", name, c.Head)
		if c.Joined != 1 {
			l += " joined=" + itoa(c.Joined)
		}
		if c.Left {
			l += " left"
		}
		lines = append(lines, l)
	}
	slices.Sort(lines)
	if p.More {
		return append(lines, "synced more")
	}
	return append(lines, "synced")
}
