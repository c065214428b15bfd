package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// Spec: P-10.10.
func TestSessionHoldsAtTheAddressOfOperatorsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := w.operators.LogInKey(t.Context(), w.key, addrOf("192.0.2.7:1"))
		w.must(err)
		for d, want := range map[Listener]int{Public: http.StatusUnauthorized, Inside: http.StatusOK} {
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
		code, _, err := w.operators.CreateOperator(t.Context(), "carol", "", []string{"users"})
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

// A disk that is full for users still takes what operators need to get in and mend.
func TestOperatorsWorkOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		has := func(free uint64) {
			w.mu.Lock()
			w.free = free
			w.mu.Unlock()
			time.Sleep(time.Second) // until the store looks
			synctest.Wait()
		}
		logIn := func() reply { return w.curl("OperatorService", "LogIn", "", `{"key":"`+w.key+`"}`) }
		inside := w.srv.Handler(Inside, http.NewServeMux())
		has(200 << 20)
		r := logIn()
		token, _, _ := strings.Cut(strings.TrimPrefix(r.body, `{"token":"`), `"`)
		if r.status != http.StatusOK {
			t.Fatalf("log in: %d %s", r.status, r.body)
		}
		for _, call := range []string{"DisableUser", "EnableUser"} {
			r := httptest.NewRequest(http.MethodPost, "/petrel.v1.AdminService/"+call, strings.NewReader(`{"user":"alice","requestId":"`+call+`"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			a := httptest.NewRecorder()
			if inside.ServeHTTP(a, r); a.Code != http.StatusOK {
				t.Errorf("%s: %d %s", call, a.Code, a.Body)
			}
		}
		if r := w.curl("AuthService", "Register", "", `{"user":"bob","password":"a long password of bob","device":{"id":"d"}}`); r.code != im.CodeDiskFull {
			t.Errorf("register: %d %s, want disk_full", r.status, r.body)
		}
		if r := w.curl("OperatorService", "LogOut", "Bearer "+token, `{}`); r.status != http.StatusOK {
			t.Errorf("log out: %d %s", r.status, r.body)
		}
		if has(60 << 20); logIn().code != im.CodeDiskFull {
			t.Error("an operator logs in below a quarter of the limit")
		}
	})
}
