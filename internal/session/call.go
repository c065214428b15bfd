package session

import (
	"context"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Calls runs a method of the API for a user: request and answer are JSON, or
// else protobuf. Codes: no_method, and those of the method. Spec: P-10.4.
type Calls func(ctx context.Context, who user.Identity, method string, json bool, request []byte) (answer []byte, err error)

// callWorkers run the calls of all sessions. They are not those of the reads: a
// call may wait for the inboxes of a thousand new members.
const callWorkers = 32

// AttachCalls says who runs the calls. It is called once, before Run.
func (h *Hub) AttachCalls(c Calls) { h.calls = c }

// call runs a method of the API. It counts as a request of the session.
func (s *Session) call(id uint64, f *petrelv1.Call, k *fanout.Kicks) {
	var body []byte
	asJSON := false
	switch r := f.Request.(type) {
	case *petrelv1.Call_Json:
		body, asJSON = []byte(r.Json), true
	case *petrelv1.Call_Proto:
		body = r.Proto
	}
	switch {
	case s.hub.calls == nil:
		s.refuse(id, &im.Error{Code: im.CodeUnsupported}, k)
		return
	case f.Request == nil:
		s.refuse(id, im.Errorf(im.CodeInvalid, "a call has a request: json or proto"), k)
		return
	}
	s.requestOn(s.hub.callJobs, id, "call", k, func(ctx context.Context) (*petrelv1.ServerFrame, error) {
		res, err := s.hub.calls(ctx, s.id, f.Method, asJSON, body)
		answer := &petrelv1.Answer{Response: &petrelv1.Answer_Proto{Proto: res}}
		if asJSON {
			answer.Response = &petrelv1.Answer_Json{Json: string(res)}
		}
		return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Answer{Answer: answer}}, err
	})
}
