package scenario

import (
	"encoding/hex"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func protoInt64(n int64) protoreflect.Value { return protoreflect.ValueOfInt64(n) }

// command runs a line of a session: "send g1 "hi"".
func (s *session) command(a args) {
	if s.accountCommand(a) || s.contactCommand(a) || s.groupCommand(a) || s.noteCommand(a) {
		return
	}
	if a.word(0) == "http" {
		s.callJSON(a, true)
		return
	}
	if s.conn == nil {
		s.w.fatalf("%s is not connected", s.name)
	}
	s.asked = true
	switch a.word(0) {
	case "send", "forward", "edit", "recall":
		s.post(s.compose(a))
	case "resend":
		for _, x := range s.again(a) {
			s.post(x)
		}
	case "burst":
		s.burst(a)
	case "history":
		s.history(a)
	case "sync":
		s.sync(a)
	case "cursor":
		conv, _ := s.w.resolve(s.user, a.word(1))
		s.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Cursor{Cursor: &petrelv1.MoveCursor{
			Conv: conv, Delivered: a.number(s.w, "delivered"), Read: a.number(s.w, "read"),
		}}})
	case "focus":
		s.focus(a.words[1:])
	case "signal":
		s.signal(a)
	case "watch":
		watch := &petrelv1.SetWatch{Users: a.words[1:]}
		if name, ok := a.values["in"]; ok {
			watch.Conv, _ = s.w.resolve(s.user, name)
		}
		s.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Watch{Watch: watch}})
	case "call":
		s.callJSON(a, false)
	case "hello":
		s.sayHello(a)
	case "ping":
		s.barrier()
	case "raw":
		_ = s.conn.WriteRaw([]byte(a.bodies[0])) // the server's reaction is a line
	default:
		s.w.fatalf("cannot %s", a.word(0))
	}
}

// signal tells those who are in a conversation something.
func (s *session) signal(a args) {
	s.w.t.Helper()
	f := &petrelv1.SendSignal{Kind: a.word(2), HoldMs: uint32(a.number(s.w, "hold"))}
	if f.Conv, f.User = s.w.resolve(s.user, a.word(1)); f.User != "" {
		f.Conv = ""
	}
	if len(a.bodies) > 0 {
		f.Data = []byte(a.bodies[0])
	}
	s.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Signal{Signal: f}})
}

// focus asks for some conversations whole, or for "all".
func (s *session) focus(names []string) {
	s.w.t.Helper()
	f := &petrelv1.SetFocus{}
	for _, n := range names {
		if n == "all" {
			f.All = true
			continue
		}
		conv, _ := s.w.resolve(s.user, n)
		f.Convs = append(f.Convs, conv)
	}
	s.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Focus{Focus: f}})
}

// compose makes a send: "send TARGET "text" k=… after=… type=… data=hex", or
// one about an earlier entry: "edit TARGET SEQ "text"".
func (s *session) compose(a args) *sent {
	s.render() // the heads it tells
	conv, peer := s.w.resolve(s.user, a.word(1))
	x := &sent{by: s.user, conv: conv, frame: &petrelv1.Send{Conv: conv, User: peer, ClientMsgId: a.values["k"]}}
	if peer != "" {
		x.frame.Conv = ""
	}
	if x.named = x.frame.ClientMsgId != ""; !x.named {
		x.frame.ClientMsgId = s.w.nextK()
	}
	head := s.heads[conv]
	x.frame.After = &head
	switch a.word(0) {
	case "send":
	case "forward":
		x.forward(s, a)
	default:
		x.aim(s, a)
	}
	x.change(s, a)
	s.user.sent = append(s.user.sent, x)
	return x
}

// aim makes x one about an earlier entry.
func (x *sent) aim(s *session, a args) {
	s.w.t.Helper()
	q, err := strconv.ParseUint(a.word(2), 10, 64)
	if err != nil {
		s.w.fatalf("want: %s TARGET SEQ …", a.word(0))
	}
	switch a.word(0) {
	case "edit":
		x.frame.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: q}}
	default:
		x.frame.Body = &petrelv1.Send_Recall{Recall: &petrelv1.Recall{Target: q}}
	}
}

// change sets what the words of a line say of a send, or of an edit.
func (x *sent) change(s *session, a args) {
	s.w.t.Helper()
	switch after := a.values["after"]; after {
	case "":
	case "none":
		x.frame.After = nil
	default:
		n, err := strconv.ParseUint(after, 10, 64)
		if err != nil {
			s.w.fatalf("after=%s is no number", after)
		}
		x.frame.After = &n
	}
	x.relate(s, a)
	edit := x.frame.GetEdit()
	if kind, ok := a.values["type"]; ok && edit != nil {
		edit.Type = kind
	} else if ok {
		x.frame.Type = kind
	}
	if d, ok := a.values["data"]; ok {
		b, err := hex.DecodeString(d)
		if err != nil {
			s.w.fatalf("data=%s is not hex", d)
		}
		x.frame.Body = &petrelv1.Send_Data{Data: b}
		if edit != nil {
			edit.Body, x.frame.Body = &petrelv1.Edit_Data{Data: b}, &petrelv1.Send_Edit{Edit: edit}
		}
	}
	if len(a.bodies) > 0 && edit != nil {
		edit.Body = &petrelv1.Edit_Text{Text: a.bodies[0]}
	} else if len(a.bodies) > 0 {
		x.frame.Body = &petrelv1.Send_Text{Text: a.bodies[0]}
	}
}

// again finds what to send once more: the user's last send, the last one with
// k=…, to TARGET if there is one, or all that are unanswered. The same k, after and body go out unless the line
// says otherwise.
func (s *session) again(a args) []*sent {
	s.w.t.Helper()
	s.render()
	var list []*sent
	conv := ""
	if a.word(1) != "" && a.word(1) != "unanswered" {
		conv, _ = s.w.resolve(s.user, a.word(1))
	}
	for _, x := range slices.Backward(s.user.sent) {
		switch k := a.values["k"]; {
		case conv != "" && x.conv != conv:
			continue
		case a.word(1) == "unanswered":
			if !x.answered {
				list = append(list, x)
			}
			continue
		case k == "" || x.frame.ClientMsgId == k:
			list = append(list, x)
		default:
			continue
		}
		break
	}
	if len(list) == 0 && a.word(1) != "unanswered" {
		s.w.fatalf("%s has sent nothing like that", s.name)
	}
	slices.Reverse(list)
	for i, x := range list {
		y := &sent{by: x.by, frame: proto.CloneOf(x.frame), named: x.named, conv: x.conv}
		y.change(s, a)
		if sentText(y.frame) == sentText(x.frame) { // the same message: its fate is x's
			s.user.sent[slices.Index(s.user.sent, x)] = y
		}
		list[i] = y
	}
	return list
}

// burst writes many sends at once, whatever the window says: "burst 100 g1
// "m#"", where # is its counter.
func (s *session) burst(a args) {
	s.w.t.Helper()
	n, err := strconv.Atoi(a.word(1))
	if err != nil || len(a.bodies) == 0 {
		s.w.fatalf("want: burst COUNT TARGET \"text with #\"")
	}
	var frames []*petrelv1.ClientFrame
	for i := 1; i <= n; i++ {
		one := args{words: []string{"send", a.word(2)}, bodies: []string{strings.ReplaceAll(a.bodies[0], "#", strconv.Itoa(i))}, values: maps.Clone(a.values)}
		frames = append(frames, s.frame(s.compose(one)))
	}
	s.mu.Lock()
	for _, f := range frames {
		s.window.add(f.Id, f.SizeVT())
	}
	s.mu.Unlock()
	_ = s.conn.WriteAll(frames) // its end is a line
}

// history asks for a page, or with "all" for one page behind the other.
func (s *session) history(a args) {
	s.w.t.Helper()
	conv, _ := s.w.resolve(s.user, a.word(1))
	q := &petrelv1.GetHistory{
		Conv: conv, After: a.number(s.w, "after"), Before: a.number(s.w, "before"), Around: a.number(s.w, "around"), Limit: uint32(a.number(s.w, "limit")),
		OnlyNotes: a.values["only"] == "notes",
	}
	if a.word(2) != "all" {
		s.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_History{History: q}})
		return
	}
	s.barrier()
	whole := &petrelv1.HistoryPage{Conv: conv}
	for more := true; more; {
		p, err := s.conn.History(s.w.deadline(), q)
		if err != nil {
			s.w.fatalf("%s reads %s after %d: %v", s.name, a.word(1), q.After, err)
		}
		whole.Head, whole.FirstSeq, more = p.Head, p.FirstSeq, p.More
		whole.Messages = append(whole.Messages, p.Messages...)
		if more && len(p.Messages) == 0 {
			s.w.fatalf("page of %s after %d is empty and there is more", a.word(1), q.After)
		}
		if more {
			q.After = p.Messages[len(p.Messages)-1].Seq
		}
	}
	s.putAll(s.page(whole))
}

func (a args) number(w *world, key string) uint64 {
	v := a.values[key]
	switch v {
	case "":
		return 0
	case "end":
		return math.MaxUint64
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		w.fatalf("%s=%s is no number", key, v)
	}
	return n
}

// sync asks what changed: since the last sync, with "fresh" since ever, or
// with a token=… of its own.
func (s *session) sync(a args) {
	s.w.t.Helper()
	s.waitListed()
	token := s.syncToken
	switch a.word(1) {
	case "fresh":
		token = nil
	case "earlier":
		token = s.earlier
	}
	if t, ok := a.values["token"]; ok {
		token = []byte(t)
	}
	if a.word(1) == "all" {
		s.syncAll()
		return
	}
	s.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Token: token, Newest: uint32(a.number(s.w, "newest"))}}})
}

// syncAll asks page by page and puts them as one.
func (s *session) syncAll() {
	s.w.t.Helper()
	s.barrier()
	whole := &petrelv1.SyncPage{}
	for more := true; more; {
		p, err := s.conn.Sync(s.w.deadline(), s.syncToken)
		if err != nil {
			s.w.fatalf("%s syncs: %v", s.name, err)
		}
		whole.Convs = append(whole.Convs, p.Convs...)
		s.syncToken, more = p.Token, p.More
	}
	s.putAll(s.synced(whole))
}

// sayHello says hello with something of its own: token=…, versions=2..9.
func (s *session) sayHello(a args) {
	s.w.t.Helper()
	h := s.hello()
	if t, ok := a.values["token"]; ok {
		h.Token = t
	}
	if v, ok := a.values["versions"]; ok {
		first, last, _ := strings.Cut(v, "..")
		from, err1 := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil {
			s.w.fatalf("versions=%s is no range", v)
		}
		h.VersionMin, h.VersionMax = uint32(from), uint32(to)
	}
	s.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Hello{Hello: h}})
}

// admin runs a line of the operator; its answer is there when it returns.
func (w *world) admin(a args) {
	w.t.Helper()
	s := w.session("admin")
	_, tenantName, _ := strings.Cut(a.word(1), "@")
	t := w.tenant(tenantName)
	var err error
	switch a.word(0) {
	case "add", "remove":
		err = w.changeMembers(s, t, a)
	case "send": // send g1 as alice "text"
		err = w.sendAs(s, t, a)
	case "freeze", "thaw":
		conv, _ := w.resolve(nil, a.word(1))
		var r *connect.Response[petrelv1.ChangeResponse]
		r, err = w.node().Admin.FreezeConversation(w.deadline(), connect.NewRequest(&petrelv1.FreezeConversationRequest{Tenant: t.id, Conv: conv, Frozen: a.word(0) == "freeze", RequestId: w.nextK()}))
		if err == nil {
			w.noteChange(conv, r.Msg.Seq)
			s.put("ok seq=%d", r.Msg.Seq)
		}
	case "history":
		conv, _ := w.resolve(nil, a.word(1))
		var r *connect.Response[petrelv1.HistoryPage]
		r, err = w.node().Admin.GetHistory(w.deadline(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{Tenant: t.id, History: &petrelv1.GetHistory{
			Conv: conv, After: a.number(w, "after"), Before: a.number(w, "before"), Limit: uint32(a.number(w, "limit")),
		}}))
		if err == nil {
			s.putAll(s.page(r.Msg))
		}
	case "contacts":
		err = w.setContacts(s, a)
	case "first":
		err = w.setFirstMessages(s, a)
	case "disable", "enable", "passwd", "mint", "mute":
		err = w.operate(s, a)
	case "http":
		s.callJSON(a, true)
	case "revoke":
		u := w.user(a.word(1))
		var r *connect.Response[petrelv1.RevokeTokensResponse]
		r, err = w.node().Admin.RevokeTokens(w.deadline(), connect.NewRequest(&petrelv1.RevokeTokensRequest{Tenant: u.tenant.id, User: u.name}))
		if err == nil {
			s.put("ok sessions=%d", r.Msg.Sessions)
		}
	default:
		w.fatalf("admin cannot %s", a.word(0))
	}
	if err != nil {
		s.put("error %s", codeOf(err))
	}
}

func (w *world) changeMembers(s *session, t *tenant, a args) error {
	w.t.Helper()
	conv, _ := w.resolve(nil, a.word(1))
	q := &petrelv1.ChangeMembersRequest{Tenant: t.id, Conv: conv, Change: &petrelv1.MemberChange{}, RequestId: w.nextK()}
	for _, u := range a.words[2:] {
		if a.word(0) == "remove" {
			q.Change.Removed = append(q.Change.Removed, u)
		} else {
			q.Change.Added = append(q.Change.Added, &petrelv1.MemberRef{User: u, Role: petrelv1.Role_ROLE_MEMBER})
		}
	}
	r, err := w.node().Admin.ChangeMembers(w.deadline(), connect.NewRequest(q))
	if err != nil {
		return err
	}
	w.noteChange(conv, r.Msg.Seq)
	s.put("ok seq=%d", r.Msg.Seq)
	return nil
}

func (w *world) sendAs(s *session, t *tenant, a args) error {
	w.t.Helper()
	if a.word(2) != "as" || len(a.bodies) == 0 {
		w.fatalf("want: send GROUP as USER \"text\" k=…")
	}
	u := t.users[a.word(3)]
	conv, peer := w.resolve(u, a.word(1))
	x := &sent{by: u, conv: conv, named: true, frame: &petrelv1.Send{Conv: conv, User: peer, ClientMsgId: a.values["k"], Body: &petrelv1.Send_Text{Text: a.bodies[0]}}}
	if peer != "" {
		x.frame.Conv = ""
	}
	r, err := w.node().Admin.SendAs(w.deadline(), connect.NewRequest(&petrelv1.SendAsRequest{Tenant: t.id, From: u.name, Send: x.frame}))
	if err != nil {
		return err
	}
	if peer != "" {
		x.conv = r.Msg.Conv
		w.learn(u.tenant, u.name, peer, x.conv)
		u.list(change{x.conv, 1})
		u.tenant.users[peer].list(change{x.conv, 1})
	}
	if err := w.ledger.acked(x, r.Msg.Seq); err != nil {
		w.fatalf("admin: %v", err)
	}
	s.put("ack seq=%d", r.Msg.Seq)
	return nil
}

// codeOf is the Petrel code of an error of an API call, with the user whom it is about.
func codeOf(err error) string {
	if refused, ok := errors.AsType[*im.Error](err); ok { // of a call over the connection
		return string(refused.Code) + about(string(refused.User))
	}
	var e *connect.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	for _, d := range e.Details() {
		if v, err := d.Value(); err == nil {
			if p, ok := v.(*petrelv1.Error); ok {
				return p.Code + about(p.User)
			}
		}
	}
	return e.Error()
}
