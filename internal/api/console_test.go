package api

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
)

// A page that is loaded again ends the calls that it has made. Their operator would look for a store that stalls,
// and ten of these in a minute would be an incident. A caller who guesses passwords and hangs up is kept as
// refused.
func TestCallThatItsCallerHasEndedIsNotKeptAsRefused(t *testing.T) {
	var kept []im.Code
	s := &Server{o: Options{Refused: func(r Refusal) { kept = append(kept, r.Code) }}, Refusals: measure.NewCounts(im.Codes()...)}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callKey{}, &call{}))
	fail := func() {
		for _, code := range []im.Code{im.CodeStoreStalled, im.CodeBadCredentials} {
			_ = s.fail(ctx, connect.Spec{}, nil, &im.Error{Code: code}) // other tests judge the answer
		}
	}
	fail()
	cancel()
	fail()
	if d := cmp.Diff([]im.Code{im.CodeStoreStalled, im.CodeBadCredentials, im.CodeBadCredentials}, kept); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}
	counted := map[string]uint64{}
	s.Refusals.Each(func(code string, n uint64) { counted[code] = n })
	if d := cmp.Diff(map[string]uint64{string(im.CodeStoreStalled): 1, string(im.CodeBadCredentials): 2}, counted); d != "" {
		t.Errorf("counted (-want +got):\n%s", d)
	}
}
