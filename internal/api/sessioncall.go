package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// Call runs a method for the user of a session. It uses the handlers of HTTP, so the answer is the same. Request
// and answer are JSON or protobuf. Codes: no_method, and those of the method. Spec: P-10.4.
func (s *Server) Call(ctx context.Context, who user.Identity, remote netip.Addr, name string, asJSON bool,
	request io.Reader) ([]byte, error) {
	m, ok := table[name]
	if !ok || m.access != aUser {
		return nil, &im.Error{Code: im.CodeNoMethod}
	}
	c := &call{id: randomID(), remote: remote, caller: &caller{identity: who}, leaveQueue: func() {}}
	r, err := http.NewRequestWithContext(context.WithValue(ctx, callKey{}, c), http.MethodPost, "/"+name, request)
	if err != nil {
		return nil, im.Errorf(im.CodeNoMethod, "there is no method %.64q", name)
	}
	r.Header.Set("Content-Type", "application/proto")
	if asJSON {
		r.Header.Set("Content-Type", "application/json")
	}
	kept := s.keep(r)
	switch {
	case c.err != nil:
		return nil, c.err
	case kept.status != 0 && kept.status != http.StatusOK:
		return nil, errors.New("call " + name + " ended as " + http.StatusText(kept.status) + ": " +
			strings.TrimSpace(kept.body.String()))
	}
	return kept.body.Bytes(), nil
}

// keep serves a call, returns its answer, and releases the room that boundAnswer has reserved.
func (s *Server) keep(r *http.Request) *keptAnswer {
	kept := &keptAnswer{header: http.Header{}}
	s.invoke(&answer{ResponseWriter: kept}, r)
	s.releaseAnswer(callOf(r.Context()))
	return kept
}

// keepRefusal returns the answer of a refused call.
func (s *Server) keepRefusal(r *http.Request, e *im.Error) *keptAnswer {
	kept := &keptAnswer{header: http.Header{}}
	s.refuse(&answer{ResponseWriter: kept}, r, e)
	return kept
}

// keptAnswer is an answer that goes into a frame, or into a line of an answer stream.
type keptAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is part of http.ResponseWriter.
func (k *keptAnswer) Header() http.Header { return k.header }

// WriteHeader is part of http.ResponseWriter.
func (k *keptAnswer) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

// Write is part of http.ResponseWriter.
func (k *keptAnswer) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(b)
}
