package api

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
)

// A page that is loaded again ends what it has asked. Its operator would look for a store
// that stalls.
func TestCallThatItsCallerHasEndedIsNotKeptAsRefused(t *testing.T) {
	var kept []im.Code
	s := &Server{o: Options{Refused: func(r Refusal) { kept = append(kept, r.Code) }}}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callKey{}, &call{}))
	e := &im.Error{Code: im.CodeStoreStalled}
	s.noteRefusal(ctx, connect.Spec{}, nil, e)
	cancel()
	s.noteRefusal(ctx, connect.Spec{}, nil, e)
	if len(kept) != 1 {
		t.Errorf("kept %v, want only the refusal before the end", kept)
	}
}
