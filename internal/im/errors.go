package im

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Code is an error code of proto/errors.yaml. Clients branch on it.
type Code string

// CodeInfo is what the catalogue says of a code.
type CodeInfo struct {
	Text      string
	Hint      string
	Settled   bool // about a send: not stored, and this attempt never will be
	Retryable bool
	HTTP      int
	Close     int  // WebSocket close code; 0 keeps the connection
	Reconnect bool // with Close: coming back can help
	Clause    string
}

// Codes lists the catalogue, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(catalogue)) }

// Info looks the code up; an unknown code is an internal error.
func (c Code) Info() CodeInfo {
	if i, ok := catalogue[c]; ok {
		return i
	}
	return catalogue[CodeInternal]
}

// Error is an error that a client may see.
type Error struct {
	Code       Code
	Message    string        // empty: the catalogue's text
	RetryAfter time.Duration // 0: none is known
	Head       Seq           // with behind and after_ahead
	Request    string        // with internal: names the line in the log
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code.Info().Text
	}
	return e.Message
}

// Errorf makes an Error with its own message.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// CodeOf is the code of err, internal when it has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// Assert panics when an invariant of ours is broken. Input never gets here.
func Assert(ok bool, format string, args ...any) {
	if !ok {
		panic("petrel: " + fmt.Sprintf(format, args...))
	}
}
