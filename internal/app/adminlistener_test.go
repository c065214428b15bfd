package app

import (
	"net/http"
	"strings"
	"testing"
)

// ask sends a request to one of the server's addresses.
func (s *server) ask(method, addr, path, auth, body string) (int, string) {
	s.t.Helper()
	q, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if auth != "" {
		q.Header.Set("Authorization", auth)
	}
	return s.do(q)
}

// A client that reaches listen.http reaches nothing of the operator's. Spec: P-10.8.
func TestWhatIsTheOperatorsIsOnTheAdminListener(t *testing.T) {
	s := start(t, t.TempDir())
	_, answer := s.redeem(s.SetupLink())
	_, key, _ := strings.Cut(answer, `"adminKey":"`)
	key = "Bearer " + strings.TrimSuffix(strings.TrimSpace(key), `"}`)
	public, admin := s.HTTPAddr().String(), s.AdminAddr().String()
	for _, c := range []struct {
		method, path, auth, body string
		public, admin            int
	}{
		{"GET", "/healthz", "", "", 200, 200},
		{"GET", "/readyz", "", "", 200, 200},
		{"GET", "/version", "", "", 200, 200},
		{"GET", "/docs", "", "", 200, 200},
		{"GET", "/", "", "", 200, 200},
		{"GET", "/sw.js", "", "", 200, 404},
		{"GET", "/setup", "", "", 404, 200},
		{"GET", "/admin/users", "", "", 200, 200}, // of this host: the address of clients leads to that of operators
		{"GET", "/metrics", "", "", 404, 200},
		{"GET", "/debug/pprof/", "", "", 404, 401},
		{"GET", "/debug/pprof/heap", "Bearer wrong", "", 404, 401},
		{"GET", "/debug/pprof/heap?debug=1", key, "", 404, 200},
		{"POST", "/petrel.v1.AdminService/GetStats", key, "{}", 404, 200},
		{"POST", "/petrel.v1.AdminService/ListKeys", key, "{}", 404, 200},
		{"POST", "/petrel.v1.AdminService/ListUsers", key, "{}", 200, 200},
		{"POST", "/petrel.v1.AuthService/Login", "", `{"user":"nobody","password":"x","device":{"id":"d"}}`, 401, 404},
		{"GET", "/v1/ws", "", "", 426, 404},
	} {
		if status, body := s.ask(c.method, public, c.path, c.auth, c.body); status != c.public {
			t.Errorf("%s %s on listen.http: %d, want %d: %.200s", c.method, c.path, status, c.public, body)
		}
		if status, body := s.ask(c.method, admin, c.path, c.auth, c.body); status != c.admin {
			t.Errorf("%s %s on listen.admin: %d, want %d: %.200s", c.method, c.path, status, c.admin, body)
		}
	}
	isChat := func(page string) bool { return strings.Contains(page, `name="petrel-registration" content="open"`) }
	if _, page := s.ask(http.MethodGet, public, "/", "", ""); !isChat(page) {
		t.Errorf("/ on listen.http is not the web chat: %.200s", page)
	}
	if _, page := s.ask(http.MethodGet, admin, "/", "", ""); isChat(page) {
		t.Error("/ on listen.admin is the web chat")
	}
	s = start(t, t.TempDir(), "web.enabled", "false")
	if _, page := s.ask(http.MethodGet, s.HTTPAddr().String(), "/", "", ""); isChat(page) {
		t.Error("the web chat is there without being enabled")
	}
	for path, want := range map[string]int{"/sw.js": 404, "/manifest.webmanifest": 404} {
		if status, body := s.ask(http.MethodGet, s.HTTPAddr().String(), path, "", ""); status != want {
			t.Errorf("without the web chat: GET %s: %d, want %d: %.200s", path, status, want, body)
		}
	}
	s = start(t, t.TempDir(), "listen.back_ends", "false")
	if status, body := s.ask("POST", s.HTTPAddr().String(), "/petrel.v1.AdminService/ListUsers", "", "{}"); status != 404 || !strings.Contains(body, "listen.back_ends") {
		t.Errorf("without back ends: %d %s", status, body)
	}
}

// Only paths with a handler are there, and only for methods that somebody needs.
func TestNoFolderIsServed(t *testing.T) {
	s := start(t, t.TempDir())
	for _, addr := range []string{s.HTTPAddr().String(), s.AdminAddr().String()} {
		for _, path := range []string{"/docs/", "/store/", "/.git/config", "/petrel.toml", "/%2e%2e/petrel.toml", "/setup-link", "/docs/../admin.key"} {
			if status, body := s.ask(http.MethodGet, addr, path, "", ""); status != http.StatusNotFound {
				t.Errorf("GET %s of %s: %d %.200s", path, addr, status, body)
			}
		}
		for _, method := range []string{http.MethodTrace, http.MethodPut, http.MethodDelete, "PROPFIND"} {
			for _, path := range []string{"/healthz", "/docs", "/petrel.v1.AdminService/ListUsers"} {
				if status, body := s.ask(method, addr, path, "", ""); status < 400 || strings.Contains(body, "Content-Type: application/json") { // what TRACE sends back
					t.Errorf("%s %s of %s: %d %.200s", method, path, addr, status, body)
				}
			}
		}
	}
}
