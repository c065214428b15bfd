package im

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Code is an error code of proto/errors.yaml. Clients decide by the code what to
// do, never by the text.
type Code string

// CodeInfo is the entry of one code in proto/errors.yaml.
type CodeInfo struct {
	Text      string
	Hint      string
	Settled   bool // as the answer to a send: the message is not stored, and this attempt will never store it
	Retryable bool
	HTTP      int
	Close     int  // WebSocket close code; 0: the connection stays open
	Reconnect bool // with Close: a new connection can succeed
	Clause    string
}

// Codes returns all codes, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(catalogue)) }

// Info returns the entry of c in proto/errors.yaml. An unknown code has the entry
// of internal.
func (c Code) Info() CodeInfo {
	if i, ok := catalogue[c]; ok {
		return i
	}
	return catalogue[CodeInternal]
}

// Error is an error that a client may see.
type Error struct {
	Code       Code
	Message    string        // empty: the text of the code
	RetryAfter time.Duration // 0: not known
	Head       Seq           // head of the conversation; set with the codes behind and after_ahead
	From, To   Seq           // entries that cannot be read; set with the code damaged by a page of history
	User       User          // the one of several named users who is meant; set with the codes no_user and forbidden
	Request    string        // request id of the line in our log; set with the code internal
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.Info().Text
	}
	return e.Message
}

// Errorf returns an Error with a message of its own.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of err, or internal if err has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// Assert panics if ok is false. It is for invariants of the server only: no input
// of a client may make it panic.
func Assert(ok bool, format string, args ...any) {
	if !ok {
		panic("petrel: " + fmt.Sprintf(format, args...))
	}
}
