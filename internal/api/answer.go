package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
)

// answer is the answer to a request. It gives errors the status of the catalogue. It holds back errors of
// Connect's own, which finish replaces, and our errors in JSON, to which complete adds fields.
type answer struct {
	http.ResponseWriter
	ours   bool         // the request is a call of a method
	read   *requestBody // of a call
	wrote  bool         // the status is written
	held   bool         // an error of Connect's own is being held back
	inJSON bool         // an error of ours is being held back, in the JSON of Connect
	kept   int          // the status of the error that is held back
	status int          // replaces the status of the code; 0: it does not
	body   bytes.Buffer // of the error that is held back
	begun  func()       // called before the status is written; nil: nothing is

	refuses func() // called before a refusal is written; nil: nothing is
}

// Unwrap returns the writer below, for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) {
	if a.wrote || a.held || a.inJSON {
		return
	}
	code := im.Code(a.Header().Get(errorHeader))
	if a.ours && status >= 400 && code == "" {
		a.held, a.kept = true, status
		return
	}
	switch {
	case a.status != 0:
		status = a.status
	case status >= 400 && code != "":
		status = code.Info().HTTP
	}
	if status >= 400 && code != "" && a.Header().Get("Content-Type") == "application/json" {
		a.inJSON, a.kept = true, status
		return
	}
	a.wrote = true
	if a.begun != nil {
		a.begun()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the answer.
func (a *answer) Write(b []byte) (int, error) {
	if a.held || a.inJSON {
		return a.body.Write(b)
	}
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Flush sends what was written. An error of gRPC is only headers, and stays until finish has read them.
func (a *answer) Flush() {
	if a.wrote {
		_ = http.NewResponseController(a.ResponseWriter).Flush() // best effort, as net/http does
	}
}

// drop discards an answer of which nothing was sent, with its headers.
func (a *answer) drop() {
	a.held, a.inJSON, a.ours = false, false, false
	a.body.Reset()
	for k := range a.Header() {
		if strings.HasPrefix(k, http.TrailerPrefix) || strings.HasPrefix(k, "Grpc-") || k == "Content-Type" ||
			k == "Content-Encoding" || k == "Trailer" {
			a.Header().Del(k)
		}
	}
}

// finish replaces an error of Connect's own with one of the catalogue, and completes one of ours.
func (s *Server) finish(a *answer, r *http.Request) {
	code, message, found := a.refusal()
	if !found {
		a.complete(callOf(r.Context()).err)
		return
	}
	var e *im.Error
	switch {
	case callOf(r.Context()).overdrawn != nil:
		e = callOf(r.Context()).overdrawn
	case a.kept == http.StatusMethodNotAllowed:
		a.status, e = a.kept, im.Errorf(im.CodeInvalid, "a call must be a POST")
	case a.kept == http.StatusUnsupportedMediaType:
		a.status, e = a.kept, im.Errorf(im.CodeInvalid,
			"the content type %.100q is not known here; for JSON send application/json", r.Header.Get("Content-Type"))
	default:
		if code == connect.CodeResourceExhausted {
			e = tooLarge(bodyLimit(table[strings.TrimPrefix(r.URL.Path, "/")]))
		} else if a.read.err != nil { // of HTTP: a chunk without a length, for example, or a peer that is gone
			e = im.Errorf(im.CodeInvalid, "the body of the request cannot be read to its end")
		} else if e = ofConnect(code, message); e == nil && !callOf(r.Context()).reached {
			e = im.Errorf(im.CodeInvalid, "%s", message)
		} else if e == nil {
			e = s.asCode(r.Context(), r.URL.Path, fmt.Errorf("%s: %s", code, message))
		}
	}
	s.refuse(a, r, e)
}

// refusal returns Connect's own error, if the answer is one.
func (a *answer) refusal() (code connect.Code, message string, found bool) {
	if a.held {
		var body struct {
			Code    connect.Code `json:"code"`
			Message string       `json:"message"`
		}
		if json.Unmarshal(a.body.Bytes(), &body) != nil {
			body.Code = connect.CodeInvalidArgument // no JSON body: the request was no call
		}
		return body.Code, body.Message, true
	}
	// gRPC writes how a call ended into trailers, which are headers until they are sent.
	for _, prefix := range []string{"", http.TrailerPrefix} {
		h := func(name string) string { return a.Header().Get(prefix + name) }
		if n, err := strconv.Atoi(h("Grpc-Status")); err == nil && n != 0 && h(errorHeader) == "" {
			message, err := url.PathUnescape(h("Grpc-Message"))
			if err != nil {
				message = ""
			}
			return connect.Code(n), message, true
		}
	}
	return 0, "", false
}
