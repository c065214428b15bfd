package api

import (
	"context"
	"net/http"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// toEnrollment redirects /setup to the page of the console that makes the first operator. The server prints a link
// to /setup while it has no admin key. A browser keeps the one-time code, which stands after the #, and sends it to
// nobody.
func toEnrollment(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/admin/enroll", http.StatusFound)
}

// Redeem makes the first admin key. Spec: P-10.1.
func (s *Server) Redeem(ctx context.Context, r *petrelv1.RedeemRequest) (*petrelv1.RedeemResponse, error) {
	key, err := s.o.Operators.Redeem(ctx, r.Code, r.RequestId)
	if err != nil {
		return nil, err
	}
	s.o.Redeemed()
	return &petrelv1.RedeemResponse{AdminKey: key}, nil
}
