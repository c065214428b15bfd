package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// tracing is the way in which a finished call gets into the audit log.
type tracing uint8

const (
	byKind  tracing = iota // the zero value: durably, if the call needs an admin key and changes something; else never
	never                  // not at all
	lazily                 // within a second
	durably                // before it is answered
	summed                 // as one record a minute for each caller
)

// traced returns the tracing of calls of m.
func (m *method) traced() tracing {
	switch {
	case m.trace != byKind:
		return m.trace
	case m.access == aKey && m.repeat != reads:
		return durably
	}
	return never
}

// trace records a call that has succeeded. A call that is traced durably is answered when its record is durable. If
// the record cannot be written, the call fails, and a repeat runs it again. Spec: P-10.9.
func (s *Server) trace(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		m := table[procedure(req.Spec())]
		how := m.traced()
		if copies(req.Any()) {
			how = durably
		}
		if s.o.Audit == nil || how == never {
			return next(ctx, req)
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, err
		}
		r := s.record(ctx, req)
		switch how {
		case lazily:
			s.o.Audit.Note(r)
		case summed:
			s.o.Audit.Summed(r)
		default:
			r.Details = append(append(r.Details, made(res.Any())...), callOf(ctx).changes...)
			if err := s.o.Audit.Append(ctx, r); err != nil {
				return nil, err
			}
		}
		return res, nil
	}
}

// traceRefusal records a refused call. If calls of the method are never traced, it records only refusals for lack
// of a right.
func (s *Server) traceRefusal(ctx context.Context, spec connect.Spec, req connect.AnyRequest, e *im.Error) {
	m := table[procedure(spec)]
	if s.o.Audit == nil || m.traced() == never && !audit.WantsRight(e.Code) {
		return
	}
	c := callOf(ctx)
	r := &audit.Record{Event: procedure(spec), Address: c.remote}
	if req != nil {
		r = s.record(ctx, req)
	} else if c.refused != nil {
		s.recordCaller(ctx, r, c.refused)
	}
	r.Code = e.Code
	if m.access == anybody && req != nil {
		r.Details = s.withoutUnknown(ctx, r.Details, req)
	}
	s.o.Audit.Summed(r)
}

// withoutUnknown removes the names from the details of a request if the user does not exist, because people type
// passwords into the field for the name. It does the same work for every valid name.
func (s *Server) withoutUnknown(ctx context.Context, list []audit.Detail, req connect.AnyRequest) []audit.Detail {
	msg, ok := req.Any().(proto.Message)
	im.Assert(ok, "request %T is no message", req.Any())
	t, err := s.users.Tenant(ctx, fieldOf(msg, "tenant"))
	known := false
	if err == nil {
		a := im.Account{Tenant: t, User: im.User(fieldOf(msg, "user"))}
		if a.User.Check() == nil {
			known, err = s.users.Exists(ctx, a)
		}
	}
	if login, ok := msg.(*petrelv1.OperatorLogInRequest); ok {
		known, err = s.o.Operators.OperatorExists(ctx, login.Name)
	}
	if known && err == nil {
		return list
	}
	return slices.DeleteFunc(list, func(d audit.Detail) bool {
		return d.Name == "user" || d.Name == "tenant" ||
			d.Name == "name"
	})
}

// record makes the audit record of a call.
func (s *Server) record(ctx context.Context, req connect.AnyRequest) *audit.Record {
	c := callOf(ctx)
	r := &audit.Record{Event: procedure(req.Spec()), Address: c.remote}
	s.recordCaller(ctx, r, c.caller)
	if msg, ok := req.Any().(proto.Message); ok {
		r.Details = details(msg)
	}
	return r
}

func (s *Server) recordCaller(ctx context.Context, r *audit.Record, c *caller) {
	if c.key != nil && c.key.Operator != "" {
		r.Operator = c.key.Operator
	} else if c.key != nil {
		r.Key, r.KeyName = c.key.ID, c.key.Name
	}
	if id := c.identity; id.Account.User != "" {
		r.Tenant, _ = s.users.TenantName(ctx, id.Account.Tenant) // of a user whom this node has let in: it is in memory
		r.User, r.Device = id.Account.User, id.Device
	}
}

// made returns the ids or names of what a call has made, if its request does not have them.
func made(res any) []audit.Detail {
	switch m := res.(type) {
	case *petrelv1.CreateKeyResponse:
		return []audit.Detail{{Name: "id", Value: m.Info.GetId()}}
	case *petrelv1.AdminCreateGroupResponse:
		return []audit.Detail{{Name: "conv", Value: m.Conv}}
	case *petrelv1.CreateCheckpointResponse:
		return []audit.Detail{{Name: "name", Value: m.Name}}
	}
	return nil
}

// Bounds of a record.
const (
	maxDetails     = 16
	maxDetailBytes = 256
)

// told has the text fields of requests that go into a record: they name things. All numbers, booleans and enum
// values go into it too, but no other text: that may be a password, a token or somebody's words.
var told = []protoreflect.Name{
	"tenant", "user", "users", "other", "conv", "device", "id", "kind", "scopes", "from", "node", "removed", "left",
}

// named has fields that go into a record only from these requests: in other requests a user chooses the field of
// this name.
var named = []protoreflect.FullName{
	"petrel.v1.CreateKeyRequest.name", "petrel.v1.CreateOperatorRequest.name", "petrel.v1.ChangeOperatorRequest.name",
	"petrel.v1.ResetOperatorRequest.name",
	"petrel.v1.RemoveOperatorRequest.name", "petrel.v1.CreateOperatorRequest.tenant_name",
	"petrel.v1.AdminGetHistoryRequest.reason", "petrel.v1.SendAsRequest.reason", "petrel.v1.GetReportRequest.reason",
	"petrel.v1.SetProfileRulesRequest.managed", "petrel.v1.OperatorLogInRequest.name", "petrel.v1.EnrollRequest.name", "petrel.v1.BackupInfo.name",
}

// details returns the recorded part of a request.
func details(msg proto.Message) []audit.Detail {
	var list []audit.Detail
	addDetails(&list, "", msg.ProtoReflect())
	return list[:min(len(list), maxDetails)]
}

func addDetails(list *[]audit.Detail, before string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := before + string(f.Name())
		switch {
		case !m.Has(f) || f.IsMap():
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			add(list, name, elements(m.Get(f).List(),
				func(v protoreflect.Value) string { return strings.Join(values(v.Message()), ":") }))
		case f.Kind() == protoreflect.MessageKind:
			addDetails(list, name+".", m.Get(f).Message())
		case !mayTell(f):
		case f.IsList():
			add(list, name, elements(m.Get(f).List(), func(v protoreflect.Value) string { return text(f, v) }))
		default:
			add(list, name, text(f, m.Get(f)))
		}
	}
}

// mayTell reports whether a field may go into a record.
func mayTell(f protoreflect.FieldDescriptor) bool {
	switch f.Kind() {
	case protoreflect.StringKind:
		return slices.Contains(told, f.Name()) || slices.Contains(named, f.FullName())
	case protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return true
}

// values returns the recorded fields of a message, without their names.
func values(m protoreflect.Message) (list []string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); m.Has(f) && mayTell(f) && !f.IsList() {
			list = append(list, text(f, m.Get(f)))
		}
	}
	return list
}

func text(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if f.Kind() == protoreflect.EnumKind {
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return fmt.Sprint(v.Enum())
	}
	return v.String()
}

// elements joins the elements of a list to a text, as many as fit.
func elements(l protoreflect.List, of func(protoreflect.Value) string) string {
	var b strings.Builder
	for i := range l.Len() {
		v := of(l.Get(i))
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Len()+len(v) > maxDetailBytes {
			fmt.Fprintf(&b, "… (%d)", l.Len())
			break
		}
		b.WriteString(v)
	}
	return b.String()
}

// add adds a detail. It cuts a value that is too long.
func add(list *[]audit.Detail, name, value string) {
	if most := 2 * maxDetailBytes; len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "…"
	}
	*list = append(*list, audit.Detail{Name: name, Value: value})
}
