package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire/petrelv1"
)

// Decode reads one frame. With Proto, strings and bytes of f share b, which
// must not change any more. Errors: bad_frame, bad_utf8. Spec: P-2.3, P-2.4.
func Decode(c Codec, b []byte, f *petrelv1.ClientFrame) *im.Error {
	if c == JSON {
		if !utf8.Valid(b) {
			return &im.Error{Code: im.CodeBadUTF8}
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 16}).Unmarshal(b, f); err != nil {
			return im.Errorf(im.CodeBadFrame, "the frame is not the JSON of a ClientFrame: %.120s", err.Error())
		}
	} else if err := f.UnmarshalVTUnsafe(b); err != nil {
		return im.Errorf(im.CodeBadFrame, "the frame is not a protobuf ClientFrame: %.120s", err.Error())
	} else if !validTexts(f) {
		return &im.Error{Code: im.CodeBadUTF8}
	}
	if f.Body == nil {
		return im.Errorf(im.CodeBadFrame, "the frame has no body that this version knows")
	}
	return nil
}

// validTexts checks the strings of the frames that the server keeps, forwards
// or prints; the generated decoder leaves that to its caller.
func validTexts(f *petrelv1.ClientFrame) bool {
	switch b := f.Body.(type) {
	case *petrelv1.ClientFrame_Send:
		s := b.Send
		return s == nil || utf8.ValidString(s.ClientMsgId) && utf8.ValidString(s.Type) && utf8.ValidString(s.GetText()) &&
			utf8.ValidString(s.Conv) && utf8.ValidString(s.User)
	case *petrelv1.ClientFrame_Hello:
		h := b.Hello
		return h == nil || utf8.ValidString(h.Device) && utf8.ValidString(h.DeviceKind) && utf8.ValidString(h.Client) &&
			utf8.ValidString(h.Token) && utf8.ValidString(h.HistoryId)
	case *petrelv1.ClientFrame_History:
		return b.History == nil || utf8.ValidString(b.History.Conv)
	case *petrelv1.ClientFrame_Call:
		return b.Call == nil || utf8.ValidString(b.Call.Method) && utf8.ValidString(b.Call.GetJson())
	}
	return true
}
