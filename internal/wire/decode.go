package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
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

// validTexts checks every text of f; the generated decoder leaves that to its
// caller. The frame of which there are many goes without reflection.
func validTexts(f *petrelv1.ClientFrame) bool {
	if s := f.GetSend(); s != nil {
		switch s.Body.(type) {
		case nil, *petrelv1.Send_Text, *petrelv1.Send_Data:
			return utf8.ValidString(s.Conv) && utf8.ValidString(s.User) && utf8.ValidString(s.ClientMsgId) && utf8.ValidString(s.Type) &&
				utf8.ValidString(s.GetText())
		}
	}
	return validMessage(f.ProtoReflect())
}

// validMessage checks the texts of m and below it. Client frames have no maps.
func validMessage(m protoreflect.Message) bool {
	valid := true
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !fd.IsList() {
			valid = validValue(fd, v)
			return valid
		}
		for l, i := v.List(), 0; i < l.Len() && valid; i++ {
			valid = validValue(fd, l.Get(i))
		}
		return valid
	})
	return valid
}

func validValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return utf8.ValidString(v.String())
	case protoreflect.MessageKind:
		return validMessage(v.Message())
	}
	return true
}
