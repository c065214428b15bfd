package api

import (
	"context"
	_ "embed"
	"net/http"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

//go:embed setup.html
var setupPage []byte

// SetupPage turns the one-time code behind # in its address into the first
// admin key and shows it once. The code stays out of logs: a browser does not
// send what stands behind #.
func SetupPage(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'sha256-"+setupScriptHash+"'; style-src 'sha256-"+setupStyleHash+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(setupPage) // the browser is gone otherwise
}

// The hashes let the page's own script and style run and nothing else; a test
// compares them with the page.
const (
	setupScriptHash = "04M1Aa4pHWRo63DHb+Eq2QtawYhg+vsiForrfpf/Nj8="
	setupStyleHash  = "im4mIwgFpBmC85GAV3DdXEl0X9okyevB49y06Lhrw5Q="
)

// Redeem makes the first admin key. Spec: P-10.1.
func (s *Server) Redeem(ctx context.Context, r *connect.Request[petrelv1.RedeemRequest]) (*connect.Response[petrelv1.RedeemResponse], error) {
	key, err := s.users.Redeem(ctx, r.Msg.Code)
	if err != nil {
		return nil, err
	}
	s.o.Redeemed()
	return connect.NewResponse(&petrelv1.RedeemResponse{AdminKey: key}), nil
}
