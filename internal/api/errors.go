package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
)

// errorHeader carries the catalogue's code of an error. Spec: P-12.3.
const errorHeader = "Petrel-Error"

// asCode converts err into an error for the caller. The text of an error without a code only goes to the log,
// under the id of the request. Spec: P-9.4.
func (s *Server) asCode(ctx context.Context, procedure string, err error) *im.Error {
	e, ok := errors.AsType[*im.Error](err)
	switch {
	case ok && e.Code != im.CodeInternal:
		return e
	case !ok && errors.Is(err, store.ErrFull):
		return &im.Error{Code: im.CodeDiskFull, RetryAfter: 5 * time.Second}
	case !ok && errors.Is(err, store.ErrCorrupt): // the store has logged where
		return conv.Refusal(err)
	case !ok && (errors.Is(err, store.ErrStalled) || ctx.Err() != nil):
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
	id := callOf(ctx).id
	s.log.ErrorContext(ctx, "call failed", "req", id, "err", fmt.Errorf("%s: %w", procedure, err))
	return &im.Error{Code: im.CodeInternal, Request: id}
}

// connectCodes are the codes of Connect nearest to an HTTP status.
var connectCodes = map[int]connect.Code{
	400: connect.CodeInvalidArgument, 401: connect.CodeUnauthenticated, 403: connect.CodePermissionDenied,
	404: connect.CodeNotFound,
	408: connect.CodeDeadlineExceeded, 409: connect.CodeAborted, 410: connect.CodeOutOfRange,
	413: connect.CodeInvalidArgument,
	429: connect.CodeResourceExhausted, 501: connect.CodeUnimplemented, 503: connect.CodeUnavailable,
	507: connect.CodeResourceExhausted,
}

// asConnect converts e and loses nothing: the catalogue's code becomes a header, the rest the detail
// petrel.v1.Error. Spec: P-10.3, P-12.3.
func asConnect(e *im.Error) *connect.Error {
	code, ok := connectCodes[e.Code.Info().HTTP]
	if !ok {
		code = connect.CodeInternal
	}
	c := connect.NewError(code, errors.New(e.Error()))
	c.Meta().Set(errorHeader, string(e.Code))
	if e.RetryAfter > 0 {
		c.Meta().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if d, err := connect.NewErrorDetail(wire.ErrorFrame(e)); err == nil {
		c.AddDetail(d)
	}
	return c
}

// problem is an error in JSON. Clients of Connect read code, message and details; the rest shows which error
// of the catalogue it is. Spec: P-12.5.
type problem struct {
	Code         string          `json:"code"` // of Connect
	PetrelCode   im.Code         `json:"petrelCode"`
	Message      string          `json:"message"`
	Hint         string          `json:"hint,omitempty"`
	RetryAfterMs int64           `json:"retryAfterMs,omitempty"`
	Docs         string          `json:"docs"`
	Details      json.RawMessage `json:"details,omitempty"`
}

// errorPage is the path at which this server explains a code. It has no host: behind a proxy the server does
// not know its own name.
func errorPage(c im.Code) string { return "/docs#error-" + string(c) }

// complete writes a held-back error in the JSON of Connect, with the catalogue's fields.
func (a *answer) complete(e *im.Error) {
	if !a.inJSON {
		return
	}
	a.inJSON, a.wrote = false, true
	body := a.body.Bytes()
	var p problem
	if e != nil && json.Unmarshal(body, &p) == nil {
		p.PetrelCode, p.Hint, p.RetryAfterMs, p.Docs = e.Code, e.Code.Info().Hint, e.RetryAfter.Milliseconds(),
			errorPage(e.Code)
		var w bytes.Buffer
		enc := json.NewEncoder(&w)
		enc.SetEscapeHTML(false)
		if enc.Encode(p) == nil {
			body = w.Bytes()
		}
	}
	a.ResponseWriter.WriteHeader(a.kept)
	_, _ = a.ResponseWriter.Write(body) // the caller is gone otherwise
}

// ofConnect converts an error of Connect's own into one of the catalogue; nil: the caller did not cause it.
func ofConnect(code connect.Code, message string) *im.Error {
	switch code {
	case connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	case connect.CodeInvalidArgument, connect.CodeUnimplemented:
		if message == "" {
			message = "the request cannot be read"
		}
		return &im.Error{Code: im.CodeInvalid, Message: message}
	default:
		return nil // nothing the caller did
	}
}
