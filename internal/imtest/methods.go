package imtest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Methods lists the methods of all services of the schema, by name as
// "petrel.v1.Service/Method".
func Methods() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	for _, f := range []protoreflect.FileDescriptor{
		petrelv1.File_petrel_v1_account_proto, petrelv1.File_petrel_v1_contact_proto, petrelv1.File_petrel_v1_conversation_proto,
		petrelv1.File_petrel_v1_admin_proto, petrelv1.File_petrel_v1_operator_proto,
	} {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				all[string(s.FullName())+"/"+string(m.Name())] = m
			}
		}
	}
	return all
}

// Way is a protocol that calls use.
type Way string

// The protocols over HTTP. gRPC goes over HTTP/2, with prior knowledge if there is no TLS.
const (
	ByJSON    Way = "JSON"
	ByProto   Way = "protobuf"
	ByGRPC    Way = "gRPC"
	ByGRPCWeb Way = "gRPC-Web"
)

// HTTP2 returns a client that speaks HTTP/2 only.
func (s *Server) HTTP2() *http.Client {
	p := &http.Protocols{}
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	t := &http.Transport{Protocols: p, TLSClientConfig: s.TLS().Clone()} // a transport adds its protocols to it
	s.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Timeout: eventually.Limit, Transport: t}
}

// Call calls a method with a credential ("": none) and returns its answer, or
// the error of the catalogue that its caller sees.
func (s *Server) Call(ctx context.Context, way Way, name, credential string, req proto.Message) (proto.Message, error) {
	m := Methods()[name]
	opts := []connect.ClientOption{
		connect.WithSchema(m),
		connect.WithInterceptors(bearer(credential)),
		connect.WithResponseInitializer(func(_ connect.Spec, msg any) error {
			if d, ok := msg.(*dynamicpb.Message); ok {
				*d = *dynamicpb.NewMessage(m.Output())
			}
			return nil
		}),
	}
	over := s.HTTP()
	switch way {
	case ByJSON:
		opts = append(opts, connect.WithProtoJSON())
	case ByGRPC:
		opts, over = append(opts, connect.WithGRPC()), s.HTTP2()
	case ByGRPCWeb:
		opts = append(opts, connect.WithGRPCWeb())
	}
	in := dynamicpb.NewMessage(m.Input())
	b, err := proto.Marshal(req)
	if err == nil {
		err = proto.Unmarshal(b, in)
	}
	if err != nil {
		return nil, err
	}
	res, err := connect.NewClient[dynamicpb.Message, dynamicpb.Message](over, s.MethodURL(name)+"/"+name,
		opts...).CallUnary(ctx, connect.NewRequest(in))
	if err != nil {
		return nil, Refusal(err)
	}
	return res.Msg, nil
}

// Refusal returns the error of the catalogue in the error of a Connect client; err itself if there is none, or if
// the header Petrel-Error has another code. Spec: P-12.3.
func Refusal(err error) error {
	c, ok := errors.AsType[*connect.Error](err)
	if !ok || len(c.Details()) == 0 {
		return err
	}
	v, e := c.Details()[0].Value()
	d, ok := v.(*petrelv1.Error)
	if e != nil || !ok || c.Meta().Get("Petrel-Error") != d.Code {
		return err
	}
	return &im.Error{Code: im.Code(d.Code), Message: d.Message,
		RetryAfter: time.Duration(d.RetryAfterMs) * time.Millisecond, Head: im.Seq(d.Head), User: im.User(d.User),
		Request: d.RequestId}
}
