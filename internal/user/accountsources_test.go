package user_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
)

// Somebody registers the name of another person, who then logs in by the identity
// provider: the account stays with the person who registered it, until the operator links
// them. Spec: P-11.6.
func TestAJWTTakesNoRegisteredAccountOver(t *testing.T) {
	ctx := context.Background()
	w := people(t, withJWT("HS256", []byte(sharedSecret), ""))
	p := provider{t, jwt.SigningMethodHS256, []byte(sharedSecret)}
	exchange := func(u string, ref user.DeviceRef) error {
		_, err := w.users.Exchange(ctx, "", p.sign(claims(w.now, jwt.MapClaims{"sub": u})), ref, false)
		return err
	}
	w.register("alice", phone(1))
	before := w.logIn("alice", phone(1))
	w.wantCode("a JWT for a registered user", exchange("alice", phone(2)), im.CodeBadCredentials)
	w.wantAccess("the one who registered", before.Access, "")

	i, err := w.users.Link(ctx, alice, false)
	w.no(err)
	if i.HasPassword || !slices.Equal(i.Linked, []string{"jwt https://id.example"}) || i.Source != "registration" {
		t.Errorf("linked: %+v", i)
	}
	w.wantAccess("the one who registered, after the link", before.Access, im.CodeRevoked)
	_, err = w.users.LogIn(ctx, "", "alice", password, phone(1), home, false)
	w.wantCode("the password, after the link", err, im.CodeBadCredentials)
	w.reopen()
	w.no(exchange("alice", phone(2)))
	if i, err := w.users.Link(ctx, alice, true); err != nil || len(i.Linked) != 1 {
		t.Errorf("linked twice: %+v, %v", i, err)
	}

	// The other way round.
	w.no(exchange("bob", phone(1)))
	_, err = w.users.Register(ctx, user.Newcomer{User: "bob", Password: password}, phone(2), home)
	w.wantCode("registered, with a user of the provider", err, im.CodeUserExists)
	_, err = w.users.LogIn(ctx, "", "bob", password, phone(2), home, false)
	w.wantCode("a password for a user of the provider", err, im.CodeBadCredentials)
	w.no(exchange("bob", phone(1)))

	// With the password kept, both may log in.
	w.register("carol", phone(1))
	carol := im.Account{Tenant: im.DefaultTenant, User: "carol"}
	_, err = w.users.Link(ctx, carol, true)
	w.no(err)
	w.no(exchange("carol", phone(2)))
	w.logIn("carol", phone(1))

	// The operator's word counts for everybody, and the provider names whom the operator made.
	w.mint("alice", phone(1))
	w.token("", "dave")
	w.no(exchange("dave", phone(1)))

	// Another provider is another source.
	w.o.JWT.Issuer = "https://other.example"
	w.reopen()
	_, err = w.users.Exchange(ctx, "", p.sign(claims(w.now, jwt.MapClaims{"sub": "bob", "iss": "https://other.example"})), phone(1), false)
	w.wantCode("a user of the provider before", err, im.CodeBadCredentials)

	none := people(t)
	none.register("alice", phone(1))
	_, err = none.users.Link(ctx, alice, false)
	none.wantCode("without a provider", err, im.CodeUnsupported)
}

// A JWT with crit is refused, since the server does not know the extensions that crit
// names.
func TestExchangeRefusesUnknownExtensions(t *testing.T) {
	w := people(t, withJWT("HS256", []byte(sharedSecret), ""))
	for what, crit := range map[string]any{"an unknown one": []string{"exp-strict"}, "none": []string{}, "no list": "b64"} {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims(w.now, nil))
		token.Header["crit"] = crit
		signed, err := token.SignedString([]byte(sharedSecret))
		w.no(err)
		_, err = w.users.Exchange(context.Background(), "", signed, phone(1), false)
		w.wantCode(what, err, im.CodeBadCredentials)
	}
}

// Two browsers of one person do not log each other out; the sixth one ends the oldest.
// Spec: P-11.4.
func TestFiveDevicesOfKindWeb(t *testing.T) {
	w := people(t)
	web := func(n int) user.DeviceRef { return user.DeviceRef{ID: string(rune('a' + n)), Kind: "web"} }
	var logins []*user.Login
	for n := range 5 {
		l := w.mint("alice", web(n))
		if len(l.Ended) != 0 {
			t.Errorf("browser %d ends %v", n, l.Ended)
		}
		logins = append(logins, l)
	}
	for n, l := range logins {
		w.wantAccess("browser "+string(rune('a'+n)), l.Access, "")
	}
	if l := w.mint("alice", web(5)); !slices.Equal(l.Ended, []string{"a"}) {
		t.Errorf("the sixth browser ends %v, want a", l.Ended)
	}
	w.wantAccess("the oldest", logins[0].Access, im.CodeReplaced)
	if l := w.mint("alice", web(1)); !slices.Equal(l.Ended, []string{"b"}) {
		t.Errorf("a browser again ends %v, want its own session", l.Ended)
	}
	w.wantAccess("the others stay", logins[2].Access, "")
}

// A user who lets nobody add them is not added by other users. The refusal says that the
// user is there, so it counts like a look-up. Spec: P-8.8.
func TestUsersDecideWhoAddsThem(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(o *user.Options) { o.Rates.LookUps = 2 })
	w.token("", "alice")
	w.token("", "bob")
	bob := im.Account{Tenant: im.DefaultTenant, User: "bob"}
	both := []im.User{"alice", "bob"}
	add := func(adding bool) error { return w.users.LookUp(ctx, bob, both, adding) }
	w.no(add(true))
	_, _, err := w.users.SetAddPolicy(ctx, alice, user.ByNobody)
	w.no(err)
	w.reopen()
	w.no(add(false)) // to write to her is something else
	refused := add(true)
	w.wantCode("adding alice", refused, im.CodeForbidden)
	w.wantCode("adding alice again", add(true), im.CodeForbidden)
	w.wantCode("without a try left", add(true), im.CodeRateLimited)
	w.wantCode("writing without a try left", add(false), im.CodeRateLimited)
	w.no(w.users.LookUp(ctx, im.Account{Tenant: im.DefaultTenant}, both, false)) // the operator
	_, _, err = w.users.SetAddPolicy(ctx, alice, user.ByEverybody)
	w.no(err)
	w.reopen() // forgets the tries
	w.no(add(true))
	refusal, _ := errors.AsType[*im.Error](refused)
	if refusal == nil || refusal.User != "alice" {
		t.Errorf("the refusal is about %+v, want alice", refusal)
	}
	_, _, err = w.users.SetAddPolicy(ctx, alice, 4)
	w.wantCode("an unknown policy", err, im.CodeInvalid)
}

// A user who is blocked adds the one who blocks them to no group, and is refused as by who lets
// nobody add them. Others do, and so does the operator. Spec: P-5.4, P-8.8.
func TestABlockedUserAddsNobody(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	for _, u := range []im.User{"alice", "bob", "carol"} {
		w.token("", u)
	}
	add := func(by im.User, adding bool) error {
		return w.users.LookUp(ctx, im.Account{Tenant: im.DefaultTenant, User: by}, []im.User{"carol", "alice"}, adding)
	}
	note := store.RecordPut{Table: store.Blocks, Tenant: im.DefaultTenant, Key: im.PairKey("alice", "bob"), Value: []byte{1}}
	w.no(w.store.Update(ctx, []store.RecordPut{note}))
	block := func(blocked bool) {
		key := im.Key{Tenant: im.DefaultTenant, Conv: im.NewIDs(w.store.Info().Secret).Direct(im.DefaultTenant, "alice", "bob")}
		feed := w.store.FeedOf(im.PartitionOf(key.Conv))
		epoch, pos, err := w.store.Takeover(ctx, feed, 1)
		w.no(err)
		rec := &storepb.Conversation{Kind: 1, Participants: []string{"alice", "bob"}, Blocks: []*storepb.Block{{User: "alice", Blocked: blocked}}}
		done := make(chan error, 1)
		w.store.Append(&store.Batch{
			Feed: feed, Epoch: epoch, Holder: 1, From: pos, Entry: &storepb.FeedEntry{Items: []*storepb.FeedItem{{Tenant: uint32(key.Tenant), Conv: key.Conv[:]}}},
			Convs: []store.ConvPut{{Conv: key, Record: rec}},
		}, func(err error) { done <- err })
		w.no(<-done)
	}
	block(true)
	w.wantCode("adding alice, who blocks bob", add("bob", true), im.CodeForbidden)
	was := add("bob", true).Error()
	w.no(add("bob", false)) // to write to her is something else
	w.no(add("carol", true))
	w.no(add("", true))
	block(false)
	w.no(add("bob", true))
	_, _, err := w.users.SetAddPolicy(ctx, alice, user.ByNobody)
	w.no(err)
	if got := add("bob", true).Error(); got != was {
		t.Errorf("who lets nobody add them is refused with %q, who blocks with %q", got, was)
	}
}
