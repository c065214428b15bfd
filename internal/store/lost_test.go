package store

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The package knows the numbers of some fields, since it does not import the schema.
func TestFieldsOfRowsAreThoseOfTheSchema(t *testing.T) {
	message, events := (&petrelv1.Message{}).ProtoReflect().Descriptor(), (&petrelv1.Events{}).ProtoReflect().Descriptor()
	for name, x := range map[protoreflect.Name]struct {
		of     protoreflect.MessageDescriptor
		number protowire.Number
	}{
		"conv": {message, fieldConv}, "seq": {message, fieldSeq}, "from": {message, fieldFrom}, "counted": {message, fieldCounted}, "lost": {message, fieldLost},
		"messages": {events, fieldMessages},
	} {
		if f := x.of.Fields().ByName(name); f == nil || f.Number() != x.number {
			t.Errorf("the field %s of %s is %v in the schema, and %d here", name, x.of.Name(), f, x.number)
		}
	}
}
