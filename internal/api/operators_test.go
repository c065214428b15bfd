package api

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/im"
)

// Spec: P-10.10.
func TestSessionHoldsAtTheAddressOfOperatorsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := w.users.LogInKey(t.Context(), w.key, addrOf("192.0.2.7:1"))
		w.must(err)
		for d, want := range map[Door]int{Public: http.StatusUnauthorized, Inside: http.StatusOK} {
			h, _ := serveInMemory(t, w.srv.Handler(d, http.NewServeMux()), func(*http.Server) {})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+"/petrel.v1.AdminService/ListUsers", strings.NewReader("{}"))
			w.must(err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+s.Token)
			res, err := h.Client().Do(r)
			w.must(err)
			_ = res.Body.Close() // read-only
			if res.StatusCode != want {
				t.Errorf("a session at door %d: %d, want %d", d, res.StatusCode, want)
			}
		}
		if r := w.curl("OperatorService", "GetSession", "Bearer "+s.Token, `{}`); r.status != http.StatusOK || !strings.Contains(r.body, `"key":true`) || !strings.Contains(r.body, `"idleMs":"1800000"`) {
			t.Errorf("the session: %d %s", r.status, r.body)
		}
		if r := w.curl("OperatorService", "LogOut", "Bearer "+s.Token, `{}`); r.status != http.StatusOK {
			t.Errorf("log out: %d %s", r.status, r.body)
		}
		if r := w.curl("OperatorService", "GetSession", "Bearer "+s.Token, `{}`); r.code != im.CodeUnauthenticated {
			t.Errorf("the session after its end: %d %s", r.status, r.body)
		}
	})
}

// Enrollment comes with a QR code that apps can read.
func TestEnrollmentShowsTheSecretAsAPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		code, _, err := w.users.CreateOperator(t.Context(), "carol", "", []string{"users"})
		w.must(err)
		r := w.curl("OperatorService", "BeginEnrollment", "", `{"code":"`+code+`"}`)
		if r.status != http.StatusOK || !strings.Contains(r.body, `"secretUri":"otpauth://totp/Petrel:carol?secret=`) || !strings.Contains(r.body, `"secretPng":"iVBOR`) {
			t.Errorf("begin: %d %s", r.status, r.body)
		}
		if r := w.curl("OperatorService", "BeginEnrollment", "", `{"code":"x"}`); r.code != im.CodeSetupClosed {
			t.Errorf("begin with a wrong code: %d %s", r.status, r.body)
		}
	})
}
