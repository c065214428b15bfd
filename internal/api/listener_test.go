package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/im"
)

// Strangers reach what clients and back ends need, and nothing of what operators
// do. Spec: P-10.8.
func TestOperatorsMethodsAreBehindTheirOwnDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		backEnds := true
		w.srv.o.BackEnds = func() bool { return backEnds }
		ask := func(d Listener, path string) (int, im.Code) {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer wrong")
			res := httptest.NewRecorder()
			w.srv.Handler(d, http.NewServeMux()).ServeHTTP(res, r)
			return res.Code, im.Code(res.Header().Get(errorHeader))
		}
		scopes := map[string]bool{"server": true, "backup": true, "admin": true} // of operators
		for name := range schema() {
			kind, scope := Credential(name)
			setup := strings.Contains(name, "SetupService") || strings.Contains(name, "OperatorService") // both let operators in
			public, inside := !setup && !scopes[scope], setup || kind == "key"
			for d, want := range map[Listener]bool{Public: public, Inside: inside} {
				if _, code := ask(d, "/"+name); (code != im.CodeNoMethod) != want {
					t.Errorf("%s at door %d: %s, want it served: %t", name, d, code, want)
				}
			}
			backEnds = false
			if _, code := ask(Public, "/"+name); (code != im.CodeNoMethod) != (public && kind != "key") {
				t.Errorf("%s at the public door without back ends: %s", name, code)
			}
			if _, code := ask(Inside, "/"+name); (code != im.CodeNoMethod) != inside {
				t.Errorf("%s at the door of operators without back ends: %s", name, code)
			}
			backEnds = true
		}
		for d, want := range map[Listener]int{Public: http.StatusNotFound, Inside: http.StatusFound} {
			res := httptest.NewRecorder()
			w.srv.Handler(d, http.NewServeMux()).ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/setup", nil))
			if res.Code != want {
				t.Errorf("/setup at door %d: %d, want %d", d, res.Code, want)
			}
		}
	})
}
