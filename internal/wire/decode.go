package wire

import (
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var clientFrame = (&petrelv1.ClientFrame{}).ProtoReflect().Descriptor()

// Decode reads one frame of a client into f, which must be empty. The strings and bytes of f share the memory of
// b, so the caller must not change b afterwards. Errors: bad_frame, bad_utf8. Spec: P-2.3, P-2.4.
func Decode(c Codec, b []byte, f *petrelv1.ClientFrame) *im.Error {
	if ManyValues(c, b, clientFrame) {
		return im.Errorf(im.CodeBadFrame, "the frame has more than %d values", MaxValues)
	}
	if c == JSON {
		if !utf8.Valid(b) {
			return &im.Error{Code: im.CodeBadUTF8}
		}
		if readJSON(unsafe.String(unsafe.SliceData(b), len(b)), f) {
			// Usual frames are read without reflection.
		} else if err := (protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 16}).Unmarshal(b,
			f); err != nil {
			if field := halfPair(b); field != "" {
				return im.Errorf(im.CodeBadFrame,
					"the text in %.60s has half of a surrogate pair, which is no character", field)
			}
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

// validTexts reports whether every text of f is UTF-8. The generated decoder does
// not check this. A send is checked without reflection, since most frames are
// sends and reflection is slow.
func validTexts(f *petrelv1.ClientFrame) bool {
	if s := f.GetSend(); s != nil && s.Rel == nil && s.Needs == nil {
		switch s.Body.(type) {
		case nil, *petrelv1.Send_Text, *petrelv1.Send_Data:
			return utf8.ValidString(s.Conv) && utf8.ValidString(s.User) && utf8.ValidString(s.ClientMsgId) &&
				utf8.ValidString(s.Type) &&
				utf8.ValidString(s.GetText())
		}
	}
	return validMessage(f.ProtoReflect())
}

// validMessage checks the texts of m and of the messages in it. It does not look
// into maps: no frame of a client has one.
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
