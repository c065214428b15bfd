package wire_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestErrorFrameSaysWhatTheCatalogueSays(t *testing.T) {
	for _, c := range []struct {
		err  *im.Error
		want *petrelv1.Error
	}{
		{&im.Error{Code: im.CodeConflict}, &petrelv1.Error{Code: "conflict", Message: im.CodeConflict.Info().Text, Hint: im.CodeConflict.Info().Hint, Settled: true}},
		{&im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}, &petrelv1.Error{
			Code: "overloaded", Message: im.CodeOverloaded.Info().Text, Hint: im.CodeOverloaded.Info().Hint, Retryable: true, RetryAfterMs: 200}},
		{&im.Error{Code: im.CodeBehind, Head: 25000}, &petrelv1.Error{Code: "behind", Message: im.CodeBehind.Info().Text, Hint: im.CodeBehind.Info().Hint, Head: 25000}},
		{im.Errorf(im.CodeInvalid, "why"), &petrelv1.Error{Code: "invalid", Message: "why", Hint: im.CodeInvalid.Info().Hint, Settled: true}},
	} {
		if d := cmp.Diff(c.want, wire.ErrorFrame(c.err), protocmp.Transform()); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.err.Code, d)
		}
	}
}

func TestKickSaysWhetherToComeBack(t *testing.T) {
	for _, c := range []struct {
		err  *im.Error
		want *petrelv1.Kick
	}{
		{&im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second}, &petrelv1.Kick{Code: "draining", Message: im.CodeDraining.Info().Text, Reconnect: true, ReconnectAfterMs: 2000}},
		{&im.Error{Code: im.CodeRevoked}, &petrelv1.Kick{Code: "revoked", Message: im.CodeRevoked.Info().Text}},
	} {
		if d := cmp.Diff(c.want, wire.KickFrame(c.err).GetKick(), protocmp.Transform()); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.err.Code, d)
		}
	}
}
