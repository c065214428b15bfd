package petrel

import (
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Error is a refusal by the server, or by the client itself, for example of a draft that is not valid. Branch on
// Code, never on the texts, which are for people. Spec: P-2.2.
type Error struct {
	Code       string // CodeNotMember, …; a newer server may send others
	Message    string
	Hint       string
	Settled    bool          // about a send: it is not stored and never will be
	Retryable  bool          // the same request may succeed later
	RetryAfter time.Duration // shortest wait before the repeat; 0: as after a lost connection
	RequestID  string        // id of the request in the server's log
	Head       uint64        // of the conversation, with behind and after_ahead
	Damaged    Range         // entries that cannot be read, with damaged as the answer to a history request; P-9.5
	User       string        // the one of several named users who is meant, with no_user and forbidden; P-8.8
}

func (e *Error) Error() string {
	s := e.Code
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// ErrUnknowable ends a send whose outcome will never be known: retention removed the evidence, 30 days are over,
// or the send was refused while an earlier attempt may still arrive. Show it as neither sent nor failed.
// Spec: P-4.8.
var ErrUnknowable = errors.New("it will never be known whether the message is stored")

// ErrConnectionLost ends a call whose connection ended before the answer. The server may have carried it out.
// Repeating it with the same request id is safe.
var ErrConnectionLost = errors.New("the connection ended before the answer")

// CodeOf returns the code of the server's refusal in err, from the connection or from a Connect client; "" if
// err holds none.
func CodeOf(err error) string {
	if e := refusal(err); e != nil {
		return e.Code
	}
	return ""
}

// refusal finds the server's refusal in err; nil if there is none.
func refusal(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return nil
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if p, ok := v.(*petrelv1.Error); ok {
				return fromWire(p)
			}
		}
	}
	return nil
}

func fromWire(e *petrelv1.Error) *Error {
	return &Error{
		Code: e.Code, Message: e.Message, Hint: e.Hint, Settled: e.Settled, Retryable: e.Retryable,
		RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond, RequestID: e.RequestId, Head: e.Head,
		Damaged: Range{From: e.DamagedFrom, To: e.DamagedTo}, User: e.User,
	}
}

func invalid(format string, a ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, a...), Settled: true}
}
