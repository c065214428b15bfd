package conv

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// maxType is the longest type of a message, maxEmoji the longest emoji of a
// reaction, in bytes.
const (
	maxType  = 64
	maxEmoji = 32
)

// Prepare turns a client's send frame into a Send, whose texts share the
// frame's. maxBody is in bytes. The caller sets who waits for the answer.
// Codes, all of them about the frame alone: invalid, too_large,
// no_conversation, unsupported. Spec: P-4.1, P-4.2.
func Prepare(from im.Account, f *petrelv1.Send, maxBody int) (*Send, *im.Error) {
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
		s.Conv.Conv = im.DirectID(from.Tenant, from.User, s.Peer)
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
		return nil, im.Errorf(im.CodeInvalid, "a send needs a body: text or data")
	default:
		if err := s.prepareAimed(f, maxBody); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// prepareAimed takes the bodies that are about an earlier entry. Spec: P-5.3.
func (s *Send) prepareAimed(f *petrelv1.Send, maxBody int) *im.Error {
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
		s.Entry.Body = &petrelv1.Message_Edit{Edit: body.Edit}
	case *petrelv1.Send_Recall:
		s.Entry.Body = &petrelv1.Message_Recall{Recall: body.Recall}
	case *petrelv1.Send_Reaction:
		if n := len(body.Reaction.GetEmoji()); n == 0 || n > maxEmoji {
			return im.Errorf(im.CodeInvalid, "an emoji has 1 to %d bytes", maxEmoji)
		}
		s.Entry.Body = &petrelv1.Message_Reaction{Reaction: body.Reaction}
	case *petrelv1.Send_Pin:
		s.Entry.Body = &petrelv1.Message_Pin{Pin: body.Pin}
	default:
		return &im.Error{Code: im.CodeUnsupported}
	}
	if q, _, _ := aim(&s.Entry); q == 0 {
		return im.Errorf(im.CodeInvalid, "target must be the seq of an earlier entry")
	}
	return nil
}

func asError(err error) *im.Error {
	return &im.Error{Code: im.CodeOf(err), Message: err.Error()}
}
