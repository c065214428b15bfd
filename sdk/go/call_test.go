package petrel

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// doorkeeper takes the credential "new".
type doorkeeper struct {
	petrelv1connect.UnimplementedAccountServiceHandler
	asked []string
}

func (d *doorkeeper) ListDevices(_ context.Context, r *connect.Request[petrelv1.ListDevicesRequest]) (*connect.Response[petrelv1.ListDevicesResponse], error) {
	d.asked = append(d.asked, r.Header().Get("Authorization"))
	if r.Header().Get("Authorization") == "Bearer new" {
		return connect.NewResponse(&petrelv1.ListDevicesResponse{}), nil
	}
	err := connect.NewError(connect.CodeUnauthenticated, errors.New("the token is void"))
	detail, _ := connect.NewErrorDetail(&petrelv1.Error{Code: CodeRevoked, Message: "the token is void"}) // its own message
	err.AddDetail(detail)
	return nil, err
}

func TestCredentialsAskOnceForAnotherToken(t *testing.T) {
	broken := errors.New("no such file")
	for _, c := range []struct {
		name   string
		source TokenSource
		asked  []string
		want   string
	}{
		{"one token", StaticToken("old"), []string{"Bearer old"}, "revoked: the token is void"}, // the server's own words
		{"another token", func(_ context.Context, refused string) (string, error) {
			if refused == "old" {
				return "new", nil
			}
			return "old", nil
		}, []string{"Bearer old", "Bearer new"}, "<nil>"},
		{"no token", func(context.Context, string) (string, error) { return "", broken }, nil, "unauthenticated: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &doorkeeper{}
			mux := http.NewServeMux()
			mux.Handle(petrelv1connect.NewAccountServiceHandler(d))
			s := httptest.NewServer(mux)
			defer s.Close()
			_, err := NewAPI(s.URL, s.Client(), c.source).Account.ListDevices(t.Context(), connect.NewRequest(&petrelv1.ListDevicesRequest{}))
			if e := refusal(err); e != nil {
				err = e
			}
			expect(t, "answer", err, c.want)
			expect(t, "asked", d.asked, c.asked)
		})
	}
}
