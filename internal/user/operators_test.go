package user_test

import (
	"context"
	"encoding/base32"
	"github.com/petrel-im/petrel/internal/operator"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

const operatorPassword = "seven herons on the pier"

var somewhere = netip.MustParseAddr("192.0.2.7")

// app is the second factor of somebody.
type app []byte

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) digits(a app) string { return operator.Digits(a, w.clock()) }

// enroll makes the operator of a code.
func (w *world) enroll(code, name string) (*operator.Enrolled, app) {
	w.t.Helper()
	e, err := w.operators.BeginEnrollment(context.Background(), code)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.operators.Enroll(context.Background(), code, name, operatorPassword, operator.SecretText(e.Secret), w.digits(e.Secret))
	if err != nil {
		w.t.Fatal(err)
	}
	return r, e.Secret
}

func (w *world) wantOperator(what, token string, want im.Code) {
	w.t.Helper()
	if _, _, err := w.operators.AuthenticateOperator(context.Background(), token); want != "" {
		w.wantCode(what, err, want)
	} else if err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}

func (w *world) operatorLogIn(a app) (operator.Session, error) {
	return w.operators.LogInOperator(context.Background(), "carol", operatorPassword, w.digits(a), somewhere)
}

// Spec: P-10.10.
func TestSetupLinkMakesTheFirstOperator(t *testing.T) {
	w := newWorld(t)
	code := w.setup()
	e, err := w.operators.BeginEnrollment(t.Context(), code)
	if err != nil || e.Name != "" || len(e.Scopes) != 1 || e.Scopes[0] != operator.ScopeAdmin {
		t.Fatalf("begin: %+v, %v", e, err)
	}
	secret := operator.SecretText(e.Secret)
	if b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret); err != nil || string(b) != string(e.Secret) {
		t.Errorf("the secret reads as %q", secret)
	}
	enroll := func(name, password, digits string) error {
		_, err := w.operators.Enroll(t.Context(), code, name, password, secret, digits)
		return err
	}
	w.wantCode("bad name", enroll("Carol", operatorPassword, w.digits(e.Secret)), im.CodeInvalid)
	w.wantCode("weak password", enroll("carol", "password", w.digits(e.Secret)), im.CodeWeakPassword)
	w.wantCode("wrong digits", enroll("carol", operatorPassword, "000000"), im.CodeBadCredentials)
	r, _ := w.enroll(code, "carol") // none of these has used it up
	w.wantAdmin(r.AdminKey, true)
	if k := r.Session.Key; k.Operator != "carol" || !k.Covers("server") {
		t.Errorf("the session may do %+v", k)
	}
	w.wantOperator("session", r.Session.Token, "")
	w.wantClosed("used", code)
	_, err = w.operators.BeginEnrollment(t.Context(), code)
	w.wantCode("used", err, im.CodeSetupClosed)
	w.wantAdmin(r.Session.Token, false) // it is no key, and so none for back ends
}

func TestOperatorNeedsAllThree(t *testing.T) {
	w := newWorld(t)
	_, phone := w.enroll(w.setup(), "carol")
	w.pass(time.Minute)
	logIn := func(name, password, digits string) error {
		_, err := w.operators.LogInOperator(t.Context(), name, password, digits, somewhere)
		return err
	}
	w.wantCode("name", logIn("carl", operatorPassword, w.digits(phone)), im.CodeBadCredentials)
	w.wantCode("password", logIn("carol", operatorPassword+"?", w.digits(phone)), im.CodeBadCredentials)
	w.wantCode("no digits", logIn("carol", operatorPassword, ""), im.CodeBadCredentials)
	s, err := w.operatorLogIn(phone)
	w.no(err)
	w.wantOperator("session", s.Token, "")
	_, err = w.operatorLogIn(phone)
	w.wantCode("the same digits again", err, im.CodeBadCredentials)
	w.pass(time.Minute)
	for range 20 {
		err = logIn("carol", "a guess of a stranger", "123456")
	}
	w.wantCode("many guesses", err, im.CodeRateLimited)
}

func TestSessionOfAnOperatorEndsByItself(t *testing.T) {
	w := newWorld(t)
	r, phone := w.enroll(w.setup(), "carol")
	for range 10 * 60 / 20 { // 10 h
		w.pass(20 * time.Minute)
		w.wantOperator("in use", r.Session.Token, "")
	}
	w.pass(operator.SessionIdle)
	w.wantOperator("idle", r.Session.Token, im.CodeUnauthenticated)
	s, err := w.operatorLogIn(phone)
	w.no(err)
	for range 12*60/20 - 1 {
		w.pass(20 * time.Minute)
		w.wantOperator("in use", s.Token, "")
	}
	w.pass(20 * time.Minute)
	w.wantOperator("after 12 h", s.Token, im.CodeUnauthenticated)
}

func TestOperatorWhoIsChangedIsOut(t *testing.T) {
	w := newWorld(t)
	first, _ := w.enroll(w.setup(), "first")
	code, made, err := w.operators.CreateOperator(t.Context(), "carol", "", []string{"users"})
	w.no(err)
	if made.Enrolled || made.CodeExpires.IsZero() {
		t.Errorf("made %+v", made)
	}
	_, _, err = w.operators.CreateOperator(t.Context(), "carol", "", []string{"users"})
	w.wantCode("made again", err, im.CodeOperatorExists)
	r, phone := w.enroll(code, "carol")
	if r.AdminKey != "" || r.Session.Key.Covers("server") || !r.Session.Key.Covers("users") {
		t.Errorf("carol may do %+v, key %q", r.Session.Key, r.AdminKey)
	}
	_, now, err := w.operators.ChangeOperator(t.Context(), "carol", []string{"server"}, false)
	w.no(err)
	if strings.Join(now.Scopes, ",") != "server" {
		t.Errorf("changed to %+v", now)
	}
	w.wantOperator("changed", r.Session.Token, im.CodeUnauthenticated)
	w.pass(time.Minute)
	s, err := w.operatorLogIn(phone)
	w.no(err)
	_, _, err = w.operators.ChangeOperator(t.Context(), "carol", nil, true)
	w.no(err)
	w.wantOperator("disabled", s.Token, im.CodeUnauthenticated)
	w.pass(time.Minute)
	_, err = w.operatorLogIn(phone)
	w.wantCode("disabled", err, im.CodeBadCredentials)
	code, _, err = w.operators.ResetOperator(t.Context(), "carol")
	w.no(err)
	_, _, err = w.operators.ChangeOperator(t.Context(), "carol", nil, false)
	w.no(err)
	_, err = w.operatorLogIn(phone)
	w.wantCode("reset", err, im.CodeBadCredentials)
	again, _ := w.enroll(code, "carol")
	w.no(w.operators.RemoveOperator(t.Context(), "carol"))
	w.wantOperator("removed", again.Session.Token, im.CodeUnauthenticated)
	w.wantCode("removed again", w.operators.RemoveOperator(t.Context(), "carol"), im.CodeNoOperator)
	w.wantOperator("somebody else", first.Session.Token, "")
	w.no(w.operators.EndSession(t.Context(), first.Session.Token))
	w.wantOperator("logged out", first.Session.Token, im.CodeUnauthenticated)
}

// A removed operator's session does not become one of the next operator of that name.
func TestOperatorOfTheSameNameFindsNoSession(t *testing.T) {
	w := newWorld(t)
	w.enroll(w.setup(), "first")
	var removed []string
	for range 2 {
		code, _, err := w.operators.CreateOperator(t.Context(), "carol", "", []string{"users"})
		w.no(err)
		r, _ := w.enroll(code, "carol")
		w.wantOperator("new", r.Session.Token, "")
		for _, token := range removed {
			w.wantOperator("of the one before", token, im.CodeUnauthenticated)
		}
		w.no(w.operators.RemoveOperator(t.Context(), "carol"))
		removed = append(removed, r.Session.Token)
	}
}

func TestCodeOfAnOperatorEndsAfterADay(t *testing.T) {
	w := newWorld(t)
	code, _, err := w.operators.CreateOperator(t.Context(), "carol", "acme", []string{"users"})
	w.no(err)
	e, err := w.operators.BeginEnrollment(t.Context(), code)
	if err != nil || e.Name != "carol" || e.TenantName != "acme" {
		t.Errorf("begin: %+v, %v", e, err)
	}
	_, err = w.operators.Enroll(t.Context(), code, "dave", operatorPassword, operator.SecretText(e.Secret), w.digits(e.Secret))
	w.wantCode("another name", err, im.CodeInvalid)
	w.pass(24 * time.Hour)
	_, err = w.operators.BeginEnrollment(t.Context(), code)
	w.wantCode("after a day", err, im.CodeSetupClosed)
}

func TestSessionOfAKeyEndsWithTheKey(t *testing.T) {
	w := newWorld(t)
	w.enroll(w.setup(), "carol") // makes a key that stays
	key, k, err := w.operators.CreateKey(t.Context(), "laptop", "", []string{"server"})
	w.no(err)
	s, err := w.operators.LogInKey(t.Context(), key, somewhere)
	w.no(err)
	got, expires, err := w.operators.AuthenticateOperator(t.Context(), s.Token)
	if err != nil || got.ID != k.ID || expires.IsZero() || got.Covers("users") {
		t.Errorf("the session may do %+v until %s, %v", got, expires, err)
	}
	w.no(w.operators.RevokeKey(t.Context(), k.ID))
	w.wantOperator("revoked", s.Token, im.CodeUnauthenticated)
	_, err = w.operators.LogInKey(t.Context(), key, somewhere)
	w.wantCode("revoked", err, im.CodeBadCredentials)
}

// Guesses at passwords of people and at keys keep no operator out, though they come from the
// operator's address, as those of all strangers do behind a proxy of the host.
func TestGuessesKeepNoOperatorOut(t *testing.T) {
	w := newWorld(t)
	_, app := w.enroll(w.setup(), "carol")
	key, _, err := w.operators.CreateKey(t.Context(), "laptop", "", []string{"server"})
	w.no(err)
	w.pass(time.Minute)
	for _, name := range []im.User{"carol", "anna"} {
		for range 100 {
			_, err = w.users.LogIn(t.Context(), "", name, "a guess", phone(1), somewhere, false)
		}
	}
	w.wantCode("many guesses at people", err, im.CodeRateLimited)
	_, err = w.operatorLogIn(app)
	w.no(err)
	for range 100 {
		_, err = w.operators.LogInKey(t.Context(), "pk_guess", somewhere)
	}
	w.wantCode("many guesses at keys", err, im.CodeRateLimited)
	_, err = w.operators.LogInKey(t.Context(), key, somewhere)
	w.no(err)
}
