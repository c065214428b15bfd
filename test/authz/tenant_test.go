package authz

import (
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The name of a tenant is not confirmed by what strangers can call. Spec: P-8.9.
func TestNoAnswerTellsThatATenantExists(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{Config: map[string]string{"accounts.registration": "closed"}})
	w := newWorld(t, srv, "other")
	w.mint("acme", "somebody")
	p := newProber(t, srv, "")
	for _, q := range questions(t, w, "tenant") {
		for range 8 { // also where attempts are counted
			if there, none := q.ask(p, "acme"), q.ask(p, "nosuch"); there != none {
				t.Errorf("%s: of a tenant that exists:\n%s\nof none:\n%s", q.name, there, none)
			}
		}
	}
	for what, ask := range map[string]func(token string) string{
		"a call": func(token string) string {
			p.credential = token
			return p.call(account+"GetAccount", &petrelv1.GetAccountRequest{})
		},
		"a hello": func(token string) string {
			w.credential = token
			return w.frame(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Hello{Hello: w.hello()}})
		},
		"a refresh": func(token string) string {
			return p.call(auth+"Refresh", &petrelv1.RefreshRequest{RefreshToken: "pr" + strings.TrimPrefix(token, "pt")})
		},
	} {
		if there, none := ask("pt_acme.somebody.x"), ask("pt_nosuch.somebody.x"); there != none {
			t.Errorf("%s with a token of a tenant that exists:\n%s\nof none:\n%s", what, there, none)
		}
	}
}
