package conv

import (
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxClientMsgID is the longest client message id, in bytes. Spec: P-4.2.
const MaxClientMsgID = 64

// maxType is the longest type of a message, in bytes.
const maxType = 64

// Send asks for one entry. It belongs to Convs from Submit until its answer.
type Send struct {
	Conv im.Key
	// the other user of a direct conversation, or the user of an inbox. If Peer is set, the first entry creates
	// the conversation
	Peer  im.User
	After im.Seq
	Keyed bool // sent without after: looked up by a dedupe key

	// Entry is the message with From, ClientMsgId, Type, Body and Rel; the owner sets the rest. An empty From is
	// the server itself.
	Entry petrelv1.Message

	// Source is the message that a forward copies, Refusal the reason why its sender may not copy it. FetchSource
	// of package route sets one of them before Submit. A forward that is stored already is a repeat in either
	// case.
	Source  *convpb.Source
	Refusal *im.Error

	// Create makes a group, of which Entry is the first entry. If the group exists already, deduper.created
	// answers s.
	Create *storepb.Conversation

	// With a Block, s makes no entry, but changes a block: a user of the direct conversation with Peer blocks the
	// other one, or ends the block. A block is not pushed. Spec: P-5.4.
	Block *storepb.Block

	// With a Contact, s makes no entry, but changes what a user of the direct conversation is to Peer. Codes:
	// no_contact, forbidden. Spec: P-14.8.
	Contact *storepb.ContactChange

	BackEnd bool // the back end sends it for its sender

	// The sender may write nothing but recalls before this time, Unix milliseconds; 0: they may. Spec: P-14.24.
	MutedMs uint64

	// Asked says that an owner on another node got s before, and may still store it: a refusal here
	// settles nothing. Spec: P-4.8.
	Asked bool

	// Tried says that an owner may have decided s before, and its answer is lost. Then s may be
	// missing although later sends of the same user are stored. Spec: P-4.3.
	Tried bool

	Origin fanout.Origin // the connection that waits for the answer
	Done   func(Result)  // or the function to call; it must not block

	// the requested change of members, once Entry has only the part that takes effect; else nil
	asked    *petrelv1.MemberChange
	forward  *petrelv1.Relations // the requested rel, once Entry is the copy; else nil
	bytes    int                 // of s, that count against the bounds of queues
	ofMember bool                // the store has said that its sender is or was a member
}

// Result is the answer to a Send. Err nil: the entry is durable at Seq.
type Result struct {
	Seq     im.Seq
	TimeMs  uint64
	Counted uint64 // of the entry; 0 if the send has no rel: then its sender can compute it
	ThreadN uint64 // of the entry
	Message []byte // of a forward: the wire part of its row
	Repeat  bool   // the entry was stored before this send
	Err     *im.Error
}

// Ack returns r as the content of a frame. conv is the id of the conversation, which a sender who named a user
// needs; it may be empty for other senders. The error is that of a damaged Message.
func (r Result) Ack(conv string) (*petrelv1.Ack, error) {
	a := &petrelv1.Ack{Conv: conv, Seq: uint64(r.Seq), TimeMs: r.TimeMs, Counted: r.Counted, ThreadN: r.ThreadN}
	if r.Message == nil {
		return a, nil
	}
	a.Message = &petrelv1.Message{}
	return a, wire.ParseMessage(r.Message, a.Message)
}

// Prepare turns a client's send frame into a Send, whose texts share the frame's memory. ids are those of the
// store; maxBody is in bytes. The caller sets Origin or Done. Codes, all of them about the frame alone:
// invalid, too_large, no_conversation, unsupported. Spec: P-4.1, P-4.2.
func Prepare(ids *im.IDs, from im.Account, f *petrelv1.Send, maxBody int) (*Send, *im.Error) {
	s := &Send{Conv: im.Key{Tenant: from.Tenant}, Keyed: f.After == nil}
	if f.After != nil {
		s.After = im.Seq(*f.After)
	}
	switch {
	case (f.Conv == "") == (f.User == ""):
		return nil, im.Errorf(im.CodeInvalid, "a send names exactly one of conv and user")
	case f.User != "":
		s.Peer = im.User(f.User)
		if err := s.Peer.Check(); err != nil {
			return nil, asError(err)
		}
		s.Conv.Conv = ids.Direct(from.Tenant, from.User, s.Peer)
	default:
		id, err := im.ParseConvID(f.Conv)
		if err != nil {
			return nil, asError(err)
		}
		s.Conv.Conv = id
	}
	switch n := len(f.ClientMsgId); {
	case n == 0 || n > MaxClientMsgID:
		return nil, im.Errorf(im.CodeInvalid, "client_msg_id has 1 to %d bytes", MaxClientMsgID)
	case len(f.Type) > maxType:
		return nil, im.Errorf(im.CodeInvalid, "type has at most %d bytes", maxType)
	}
	s.Entry.From, s.Entry.ClientMsgId, s.Entry.Type = string(from.User), f.ClientMsgId, f.Type
	if f.Rel != nil || f.Needs != nil {
		rel, err := prepareRelations(f)
		if err != nil {
			return nil, err
		}
		s.Entry.Rel = rel
	}
	switch body := f.Body.(type) {
	case *petrelv1.Send_Text:
		if len(body.Text) > maxBody {
			return nil, &im.Error{Code: im.CodeTooLarge}
		}
		s.Entry.Body = &petrelv1.Message_Text{Text: body.Text}
	case *petrelv1.Send_Data:
		if len(body.Data) > maxBody {
			return nil, &im.Error{Code: im.CodeTooLarge}
		}
		s.Entry.Body = &petrelv1.Message_Data{Data: body.Data}
	case nil:
		if !s.Forwards() {
			return nil, im.Errorf(im.CodeInvalid, "a send needs a body: text or data")
		}
	default:
		if err := s.prepareTargeted(f, maxBody); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// prepareTargeted checks the body of f, an edit or a recall, and puts it into Entry. Codes: invalid, too_large;
// unsupported for any other body. Spec: P-5.3.
func (s *Send) prepareTargeted(f *petrelv1.Send, maxBody int) *im.Error {
	switch body := f.Body.(type) {
	case *petrelv1.Send_Edit:
		if len(body.Edit.GetType()) > maxType {
			return im.Errorf(im.CodeInvalid, "type has at most %d bytes", maxType)
		}
		if body.Edit.GetBody() == nil {
			return im.Errorf(im.CodeInvalid, "an edit needs a body: text or data")
		}
		if len(body.Edit.GetText())+len(body.Edit.GetData()) > maxBody {
			return &im.Error{Code: im.CodeTooLarge}
		}
		if err := prepareEditRelations(body.Edit); err != nil {
			return err
		}
		s.Entry.Body = &petrelv1.Message_Edit{Edit: body.Edit}
	case *petrelv1.Send_Recall:
		s.Entry.Body = &petrelv1.Message_Recall{Recall: body.Recall}
	default:
		return &im.Error{Code: im.CodeUnsupported}
	}
	if q, _ := targetOf(&s.Entry); q == 0 {
		return im.Errorf(im.CodeInvalid, "target must be the seq of an earlier entry")
	}
	return nil
}

// targetOf returns the target of m. ok: m is an edit or a recall.
func targetOf(m *petrelv1.Message) (q im.Seq, ok bool) {
	switch body := m.Body.(type) {
	case *petrelv1.Message_Edit:
		return im.Seq(body.Edit.GetTarget()), true
	case *petrelv1.Message_Recall:
		return im.Seq(body.Recall.GetTarget()), true
	}
	return 0, false
}

// cut replaces the change of members in s by done, the part that takes effect. It keeps the
// requested change for restore.
func (s *Send) cut(done *petrelv1.MemberChange) {
	if s.asked == nil {
		s.asked = s.Entry.GetMembers()
	}
	s.Entry.Body = &petrelv1.Message_Members{Members: done}
}

// Forwards tells whether s copies a message. Then Source or Refusal has to be set before the owner
// can take s.
func (s *Send) Forwards() bool { return s.Entry.Rel.GetForwardOf() != nil }

// stored returns the answer to s, which is stored as the entry m in this row. Without a rel it leaves out counted
// and threadN, so that ordinary acks stay short: the client computes counted from the entry before. Only the
// answer to a forward has the row. Spec: P-4.3.
func (s *Send) stored(m *petrelv1.Message, row []byte) Result {
	r := Result{Seq: im.Seq(m.Seq), TimeMs: m.TimeMs}
	if s.Entry.Rel == nil {
		return r
	}
	if r.Counted, r.ThreadN = m.Counted, m.ThreadN; s.Forwards() || s.forward != nil {
		r.Message = row
	}
	return r
}

// copySource fills a forward with the message that it copies. restore undoes it.
func (s *Send) copySource() {
	from := s.Source
	s.forward = s.Entry.Rel
	s.Entry.Rel = &petrelv1.Relations{
		ReplyTo: s.forward.ReplyTo, Silent: s.forward.Silent, Thread: s.forward.Thread, AlsoMain: s.forward.AlsoMain,
		Forwarded: from.Forwarded,
		Mentions:  s.forward.Mentions, MentionAll: s.forward.MentionAll,
	}
	s.Entry.Type = from.Type
	switch body := from.Body.(type) {
	case *convpb.Source_Text:
		s.Entry.Body = &petrelv1.Message_Text{Text: body.Text}
	case *convpb.Source_Data:
		s.Entry.Body = &petrelv1.Message_Data{Data: body.Data}
	}
}

// restore puts back the requested change of members, or the forward, and sets Tried. The next committer sets
// all other fields again.
func (s *Send) restore() {
	s.Tried = true
	if s.asked != nil {
		s.Entry.Body = &petrelv1.Message_Members{Members: s.asked}
	}
	if s.forward != nil {
		s.Entry.Type, s.Entry.Body, s.Entry.Rel, s.forward = "", nil, s.forward, nil
	}
}

// needsStanding tells whether the sender of s must be or have been a member, so that the answer does not tell
// outsiders of the conversation. A send to a user, and one that makes a group, need no such check: the id of
// the conversation follows from facts that the sender knows.
func (s *Send) needsStanding() bool { return s.Entry.From != "" && s.Peer == "" && s.Create == nil }

// Size returns how many bytes s counts against the bounds of queues.
func (s *Send) Size() int {
	const overhead = 256 // memory of a send beside its body
	n := overhead + bodySize(&s.Entry) + len(s.Contact.GetText())
	if s.Source != nil {
		n += len(s.Source.GetText()) + len(s.Source.GetData())
	}
	for _, u := range s.Entry.Rel.GetMentions() {
		n += 16 + len(u) // 16: the header of the string
	}
	return n
}

// bodySize returns the bytes of the text or data of m, also of an edit; 0 for every other body.
func bodySize(m *petrelv1.Message) int {
	switch body := m.Body.(type) {
	case *petrelv1.Message_Text:
		return len(body.Text)
	case *petrelv1.Message_Data:
		return len(body.Data)
	}
	return len(m.GetEdit().GetText()) + len(m.GetEdit().GetData())
}

// Answer answers a send that is in no batch. It is called once. publisher.deliver or publisher.refuse answers the
// sends of a batch.
func (s *Send) Answer(r Result, k *fanout.WakeUps) {
	r = s.outcome(r)
	switch {
	case s.Origin.Waits():
		s.Origin.Reply(s.ack(r), r.Err, k)
	case s.Done != nil:
		s.Done(r)
	}
}

// outcome returns r. If s may still be stored elsewhere (Asked), a settled refusal becomes store_stalled.
func (s *Send) outcome(r Result) Result {
	if s.Asked && r.Err != nil && r.Err.Code.Info().Settled {
		r.Err = Refusal(store.ErrStalled)
	}
	return r
}

// ack returns r as an ack. It names the conversation to a sender who named a user.
func (s *Send) ack(r Result) wire.Ack {
	a := wire.Ack{ID: s.Origin.ID, Seq: uint64(r.Seq), TimeMs: r.TimeMs,
		Counted: r.Counted, ThreadN: r.ThreadN, Message: r.Message}
	if s.Peer != "" {
		a.Conv = s.Entry.Conv
	}
	return a
}
