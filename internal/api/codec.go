package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/internal/wire"
)

// jsonCodec is the JSON of requests and answers. It ignores unknown field names: the client may be newer. It
// refuses unknown enum values: a misspelt role must not mean no role. Spec: P-2.7.
type jsonCodec struct {
	name    string
	turns   coding // for large requests and answers
	bounded boundedRequests
}

// protoCodec is the protobuf of requests and answers.
type protoCodec struct {
	turns   coding // as in jsonCodec
	bounded boundedRequests
}

// Name is part of connect.Codec.
func (protoCodec) Name() string { return "proto" }

// Marshal is part of connect.Codec.
func (c protoCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend is an optional part of a codec. It saves Connect a copy.
func (c protoCodec) MarshalAppend(dst []byte, message any) (b []byte, err error) {
	m, ok := message.(proto.Message)
	im.Assert(ok, "answer %T is no message", message)
	c.turns.do(proto.Size(m), func() { b, err = proto.MarshalOptions{}.MarshalAppend(dst, m) })
	return b, err
}

// Unmarshal is part of connect.Codec.
func (c protoCodec) Unmarshal(b []byte, message any) (err error) {
	m, ok := message.(proto.Message)
	im.Assert(ok, "request %T is no message", message)
	c.turns.do(len(b), func() {
		if err = c.bounded.check(wire.Proto, b, m); err == nil {
			err = proto.Unmarshal(b, m)
		}
	})
	return err
}

// boundedRequests has the types of requests that may have at most wire.MaxValues values: those of users and of
// strangers. Requests with an admin key are bounded by their bytes only. The map never changes.
type boundedRequests map[protoreflect.FullName]bool

func newBoundedRequests() boundedRequests {
	all := boundedRequests{}
	for name, m := range table {
		if m.access != aKey {
			all[schemaOf(name).Input().FullName()] = true
		}
	}
	return all
}

// schemaOf returns the schema of a method of the table.
func schemaOf(name string) protoreflect.MethodDescriptor {
	service, method, _ := strings.Cut(name, "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
	m, ok := d.(protoreflect.MethodDescriptor)
	im.Assert(err == nil && ok, "method %s: %v", name, err)
	return m
}

// check refuses a request of too many values before it is decoded.
func (r boundedRequests) check(c wire.Codec, b []byte, m proto.Message) error {
	if d := m.ProtoReflect().Descriptor(); r[d.FullName()] && wire.ManyValues(c, b, d) {
		return fmt.Errorf("a request of this method has at most %d values", wire.MaxValues)
	}
	return nil
}

// large is the size, in bytes, above which a request or an answer waits for a turn. The size of an answer is that
// in protobuf.
const large = 2 << 10

// Name is part of connect.Codec.
func (c jsonCodec) Name() string { return c.name }

// Marshal is part of connect.Codec.
func (c jsonCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend is an optional part of a codec. It saves Connect a copy.
func (c jsonCodec) MarshalAppend(dst []byte, message any) (b []byte, err error) {
	m, ok := message.(proto.Message)
	im.Assert(ok, "answer %T is no message", message)
	c.turns.do(proto.Size(m), func() {
		if b, ok = wire.AppendPage(dst, m); !ok {
			b, err = protojson.MarshalOptions{}.MarshalAppend(dst, m)
		}
	})
	return b, err
}

// coding has the turns in which large requests are decoded and large answers encoded. They first wait in a line
// of their own, which lets no more of them through than there are turns. So a read of the store competes for a
// turn with only a few of them, however many calls there are.
type coding struct{ line, turns share.Turns }

func newCoding(turns share.Turns) coding { return coding{share.NewTurns(cap(turns)), turns} }

// do calls f, which works on so many bytes. If these are more than large, f waits for its turn.
func (c coding) do(bytes int, f func()) {
	if bytes <= large {
		f()
		return
	}
	c.line.Begin()
	defer c.line.End()
	c.turns.Do(f)
}

// Unmarshal is part of connect.Codec.
func (c jsonCodec) Unmarshal(b []byte, message any) (err error) {
	m, ok := message.(proto.Message)
	im.Assert(ok, "request %T is no message", message)
	if len(b) == 0 {
		return errors.New("an empty body is not JSON; for a request without content send {}")
	}
	c.turns.do(len(b), func() { err = c.decode(b, m) })
	return err
}

func (c jsonCodec) decode(b []byte, m proto.Message) error {
	if err := c.bounded.check(wire.JSON, b, m); err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return err
	}
	if bad := checkNames(gjson.ParseBytes(b), m.ProtoReflect().Descriptor()); bad != nil {
		return fmt.Errorf("%s: %s", strings.TrimPrefix(bad.at, "."), bad.what)
	}
	return nil
}

// misspelt describes an unknown enum value and where it is.
type misspelt struct{ at, what string }

// within prepends the place of the surrounding field or element.
func (m *misspelt) within(format string, a ...any) *misspelt {
	m.at = fmt.Sprintf(format, a...) + m.at
	return m
}

// checkNames refuses unknown enum values; protojson has checked all others. It searches the text and keeps
// nothing of it.
func checkNames(v gjson.Result, m protoreflect.MessageDescriptor) (bad *misspelt) {
	if !v.IsObject() {
		return nil // a type with a JSON form of its own
	}
	v.ForEach(func(key, v gjson.Result) bool {
		name := key.String()
		f := m.Fields().ByJSONName(name)
		if f == nil {
			f = m.Fields().ByTextName(name)
		}
		if f == nil || f.Enum() == nil && f.Message() == nil {
			return true
		}
		if bad = checkField(v, f); bad != nil {
			bad.within(".%s", name)
		}
		return bad == nil
	})
	return bad
}

func checkField(v gjson.Result, f protoreflect.FieldDescriptor) (bad *misspelt) {
	switch {
	case v.IsArray():
		i := 0
		v.ForEach(func(_, v gjson.Result) bool {
			if bad = checkField(v, f); bad != nil {
				bad.within("[%d]", i)
			}
			i++
			return bad == nil
		})
		return bad
	case f.IsMap():
		v.ForEach(func(k, v gjson.Result) bool {
			if bad = checkField(v, f.MapValue()); bad != nil {
				bad.within("[%.40q]", k.String())
			}
			return bad == nil
		})
		return bad
	case f.Message() != nil:
		return checkNames(v, f.Message())
	}
	name := v.String()
	if f.Enum() == nil || v.Type != gjson.String || f.Enum().Values().ByName(protoreflect.Name(name)) != nil {
		return nil
	}
	var names []string
	values := f.Enum().Values()
	for i := range values.Len() {
		names = append(names, string(values.Get(i).Name()))
	}
	slices.Sort(names)
	return &misspelt{what: fmt.Sprintf("there is no %.40q; there are %s", name, strings.Join(names, ", "))}
}
