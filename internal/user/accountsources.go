package user

import (
	"context"
	"slices"

	"github.com/petrel-im/petrel/internal/idp"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A source is who says that a person is a user: the operator, with whose key the back end
// makes users; registration, by which people make themselves; or an identity provider. An
// account belongs to the source that made it. Otherwise somebody who registers the name of
// another person first would read along when that person logs in by the identity provider,
// with the password that they chose. Spec: P-11.6.
const (
	byOperator     = ""
	byRegistration = "registration"
	byJWT          = "jwt " // and the issuer
)

// source is that of the users whom the identity provider names.
func source(p *idp.Provider) string { return byJWT + p.Issuer }

// speaksFor tells whether a source may log a user in. The operator may speak for
// everybody, and whoever the operator made is named by the identity provider that the
// operator has configured.
func speaksFor(source string, u *storepb.User) bool {
	return source == byOperator || u.Source == byOperator || u.Source == source || slices.Contains(u.Linked, source)
}

// Link lets the configured identity provider log in a user who was made by another
// source. Without keepPassword the password goes and all tokens are void, and the caller
// ends the sessions with revoked: the operator cannot know who registered the name. Codes:
// unsupported, no_user. Spec: P-11.6.
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
