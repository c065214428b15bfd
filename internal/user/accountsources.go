package user

import (
	"context"
	"slices"

	"github.com/petrel-im/petrel/internal/idp"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A source makes accounts: the operator, with whose key the back end makes users; registration; or
// an identity provider. An account belongs to the source that made it. Otherwise an attacker could
// register the name of a person, and read along with that password after the person logs in by the
// identity provider. Spec: P-11.6.
const (
	byOperator     = ""
	byRegistration = "registration"
	byJWT          = "jwt " // and the issuer
)

// source returns the source of the users of the identity provider.
func source(p *idp.Provider) string { return byJWT + p.Issuer }

// speaksFor tells whether a source may log a user in. The operator may log all users in, and the
// configured identity provider those that the operator made.
func speaksFor(source string, u *storepb.User) bool {
	return source == byOperator || u.Source == byOperator || u.Source == source || slices.Contains(u.Linked, source)
}

// Link lets the configured identity provider log in a user who was made by another source. Without
// keepPassword it removes the password and voids all tokens, because a stranger may have registered
// the name; the caller then ends the sessions with revoked. Codes: unsupported, no_user. Spec: P-11.6.
func (us *Users) Link(ctx context.Context, a im.Account, keepPassword bool) (Info, error) {
	provider := us.idp.Load()
	if provider == nil {
		return Info{}, im.Errorf(im.CodeUnsupported, "no identity provider is configured")
	}
	return us.changeUser(ctx, a, func(c *change, u *storepb.User) error {
		if !slices.Contains(u.Linked, source(provider)) {
			u.Linked = append(u.Linked, source(provider))
		}
		if keepPassword {
			return nil
		}
		u.Password = ""
		return c.voidAll(ctx, a, u)
	})
}
