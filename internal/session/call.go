package session

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// call runs a method of the API. It counts as a request of the session. Spec: P-10.4.
func (s *Session) call(id uint64, f *petrelv1.Call, k *fanout.WakeUps) {
	body, asJSON := io.Reader(bytes.NewReader(f.GetProto())), false
	if r, ok := f.Request.(*petrelv1.Call_Json); ok {
		body, asJSON = strings.NewReader(r.Json), true
	}
	switch {
	case s.hub.runCall == nil:
		s.refuse(id, &im.Error{Code: im.CodeUnsupported}, k)
		return
	case f.Request == nil:
		s.refuse(id, im.Errorf(im.CodeInvalid, "a call needs a request: json or proto"), k)
		return
	}
	wait, refused := s.hub.o.Pace.Take(s.hub.o.Now(), s.Out.Account, len(f.GetJson())+len(f.GetProto()))
	s.requestOn(s.callsAfter(wait, &refused), id, "call", k, func(ctx context.Context) (*petrelv1.ServerFrame, error) {
		if refused != nil {
			s.noteRefusal("call", refused)
			return nil, refused
		}
		res, err := s.hub.runCall(ctx, s.Identity(), s.Out.Conn.ClientAddr(), f.Method, asJSON, body)
		answer := &petrelv1.Answer{Response: &petrelv1.Answer_Proto{Proto: res}}
		if asJSON {
			answer.Response = &petrelv1.Answer_Json{Json: string(res)}
		}
		return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Answer{Answer: answer}}, err
	})
}

// callsAfter returns a function that queues a call after a wait. If refused is set, or the queue has no room
// after the wait, job runs without a worker and only answers the refusal. Without a wait it returns queueCall.
func (s *Session) callsAfter(wait time.Duration, refused **im.Error) (queue func(job func()) bool) {
	if wait == 0 {
		return s.queueCall
	}
	return func(job func()) bool {
		time.AfterFunc(wait, func() {
			if *refused == nil && s.queueCall(job) {
				return
			}
			if *refused == nil {
				*refused = &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
			}
			job()
		})
		return true
	}
}
