package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
)

// jsonCodec is the JSON of requests and answers. Names of fields that are not
// known are passed over: they are of a newer client. Names of values that are
// not known are refused: a role that is misspelt is not no role. Spec: P-2.7.
type jsonCodec struct{ name string }

// Name is part of connect.Codec.
func (c jsonCodec) Name() string { return c.name }

// Marshal is part of connect.Codec.
func (jsonCodec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	im.Assert(ok, "answer %T is no message", message)
	return protojson.Marshal(m)
}

// MarshalAppend saves Connect a copy.
func (jsonCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	im.Assert(ok, "answer %T is no message", message)
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal is part of connect.Codec.
func (jsonCodec) Unmarshal(b []byte, message any) error {
	m, ok := message.(proto.Message)
	im.Assert(ok, "request %T is no message", message)
	if len(b) == 0 {
		return errors.New("an empty body is not JSON; for a request without content send {}")
	}
	if protojson.Unmarshal(b, m) == nil {
		return nil // everything in it is known
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return err
	}
	var all any
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	return checkNames("", all, m.ProtoReflect().Descriptor())
}

// checkNames refuses names of enum values that are not known. Other values fit
// m: protojson has read them.
func checkNames(at string, v any, m protoreflect.MessageDescriptor) error {
	object, ok := v.(map[string]any)
	if !ok {
		return nil // a type with a JSON form of its own
	}
	for name, v := range object {
		f := m.Fields().ByJSONName(name)
		if f == nil {
			f = m.Fields().ByTextName(name)
		}
		if f == nil {
			continue
		}
		if err := checkField(strings.TrimPrefix(at+"."+name, "."), v, f); err != nil {
			return err
		}
	}
	return nil
}

func checkField(at string, v any, f protoreflect.FieldDescriptor) error {
	if list, ok := v.([]any); ok {
		for i, v := range list {
			if err := checkField(fmt.Sprintf("%s[%d]", at, i), v, f); err != nil {
				return err
			}
		}
		return nil
	}
	if f.IsMap() {
		entries, _ := v.(map[string]any)
		for k, v := range entries {
			if err := checkField(fmt.Sprintf("%s[%.40q]", at, k), v, f.MapValue()); err != nil {
				return err
			}
		}
		return nil
	}
	if f.Message() != nil {
		return checkNames(at, v, f.Message())
	}
	name, ok := v.(string)
	if f.Enum() == nil || !ok || f.Enum().Values().ByName(protoreflect.Name(name)) != nil {
		return nil
	}
	var names []string
	values := f.Enum().Values()
	for i := range values.Len() {
		names = append(names, string(values.Get(i).Name()))
	}
	slices.Sort(names)
	return fmt.Errorf("%s: there is no %.40q; there are %s", at, name, strings.Join(names, ", "))
}
