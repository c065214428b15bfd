package session

import (
	"context"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// call runs a method of the API. It counts as a request of the session. Spec: P-10.4.
func (s *Session) call(id uint64, f *petrelv1.Call, k *fanout.WakeUps) {
	var body []byte
	asJSON := false
	switch r := f.Request.(type) {
	case *petrelv1.Call_Json:
		body, asJSON = []byte(r.Json), true
	case *petrelv1.Call_Proto:
		body = r.Proto
	}
	switch {
	case s.hub.runCall == nil:
		s.refuse(id, &im.Error{Code: im.CodeUnsupported}, k)
		return
	case f.Request == nil:
		s.refuse(id, im.Errorf(im.CodeInvalid, "a call needs a request: json or proto"), k)
		return
	}
	s.requestOn(s.queueCall, id, "call", k, func(ctx context.Context) (*petrelv1.ServerFrame, error) {
		res, err := s.hub.runCall(ctx, s.Identity(), s.Out.Conn.ClientAddr(), f.Method, asJSON, body)
		answer := &petrelv1.Answer{Response: &petrelv1.Answer_Proto{Proto: res}}
		if asJSON {
			answer.Response = &petrelv1.Answer_Json{Json: string(res)}
		}
		return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Answer{Answer: answer}}, err
	})
}
