package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitConfig      = 3
	exitUnreachable = 4
	exitAuth        = 5
	exitViolated    = 6
)

// fault is an error as the operator sees it.
type fault struct {
	exit int
	code string // stable; if a server refused the call, its error code
	what string
	why  string // may be empty
	fix  string // may be empty
	err  error
}

func (f *fault) Error() string { return f.what }
func (f *fault) Unwrap() error { return f.err }

func (f *fault) print(w io.Writer, asJSON bool) {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		// an error of w cannot be reported anywhere
		_ = e.Encode(map[string]any{"error": map[string]any{"code": f.code, "what": f.what, "why": f.why, "fix": f.fix,
			"exit": f.exit}})
		return
	}
	for _, part := range []struct{ name, text string }{{"", f.what}, {"why", f.why}, {"fix", f.fix}} {
		for i, line := range strings.Split(part.text, "\n") {
			switch {
			case part.name == "" && i == 0:
				fmt.Fprintf(w, "error %s: %s\n", f.code, line)
			case line == "":
			case i == 0:
				fmt.Fprintf(w, "  %s   %s\n", part.name, line)
			default:
				fmt.Fprintf(w, "        %s\n", line)
			}
		}
	}
}

// asFault returns the fault in err. It takes any other error as one of cobra about the command line, and returns a
// fault of usage.
func asFault(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	what, meant, _ := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if meant = strings.Join(strings.Fields(meant), " or "); meant != "" {
		meant = "did you mean " + meant + "?"
	}
	return usage(what, meant)
}

func usage(what, fix string) *fault {
	if fix == "" {
		fix = "`petrel help` and `petrel COMMAND --help` show what there is"
	}
	return &fault{exit: exitUsage, code: "usage", what: what, fix: fix}
}

// failed makes err a fault, if it is none yet.
func failed(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	return &fault{exit: exitFailed, code: "failed", what: err.Error(), err: err}
}

func badConfig(err error) *fault {
	f := &fault{exit: exitConfig, code: "config", what: "the configuration is not valid", why: err.Error(), err: err,
		fix: "`petrel config default` prints all options with what is allowed"}
	if ps, ok := errors.AsType[config.Problems](err); ok && len(ps) == 1 && ps[0].Fix != "" {
		f.fix, ps[0].Fix = ps[0].Fix, ""
		f.why = ps[0].String()
	}
	return f
}

// detailOf returns the server's details of a failed call, nil if there are none.
func detailOf(err error) *petrelv1.Error {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return nil
	}
	for _, d := range e.Details() {
		if v, err := d.Value(); err == nil {
			if p, ok := v.(*petrelv1.Error); ok {
				return p
			}
		}
	}
	return nil
}

// fromServer converts the error of a call or connection to a server into a fault; doing names the attempt.
func fromServer(url, doing string, err error) *fault {
	f := &fault{exit: exitFailed, code: "failed", what: doing, why: err.Error(), err: err}
	code := im.Code("")
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		code, f.why, f.fix = im.Code(e.Code), e.Message, e.Hint
	}
	if e, ok := errors.AsType[*connect.Error](err); ok {
		f.code, f.why = e.Code().String(), e.Message()
	}
	if p := detailOf(err); p != nil {
		code, f.why, f.fix = im.Code(p.Code), p.Message, p.Hint
	}
	if code != "" {
		f.code = string(code)
		if f.fix == "" {
			f.fix = code.Info().Hint
		}
	}
	if f.fix == "" && f.code == connect.CodeUnavailable.String() {
		f.fix = "the server runs, but did not take the call: try again in a moment; /readyz of the server says what it lacks"
	}
	switch code {
	case im.CodeNoMethod:
		f.fix = "name a server that serves it with --server URL, or where operators reach it, its listen.admin, with --admin-server URL"
	case im.CodeUnauthenticated, im.CodeRevoked, im.CodeSetupClosed, im.CodeForbidden, im.CodeBadCredentials,
		im.CodeReplaced:
		f.exit = exitAuth
		return f
	}
	if _, ok := errors.AsType[*net.OpError](err); ok && code == "" {
		return &fault{exit: exitUnreachable, code: "unreachable", what: doing + ": cannot reach " + url,
			why: cause(err), err: err,
			fix: "start it with `petrel serve`, or name it with --server URL, and for operators with --admin-server URL"}
	}
	return f
}

// cause returns the text of a network error without its addresses, and of any other error the whole text.
func cause(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Err != nil {
		return fmt.Sprintf("%s %s: %s", e.Op, e.Net, e.Err)
	}
	return err.Error()
}
