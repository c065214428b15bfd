package api

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/im"
)

// Spec: P-12.3.
func TestAnswersWithTokensAreKeptNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for path, body := range map[string]string{"/petrel.v1.AdminService/CreateUsers": `{"users":["alice"]}`, "/petrel.v1.AuthService/Login": `{"user":"nobody"}`} {
			res, text := w.do("POST", path, map[string]string{"Content-Type": "application/json"}, []byte(body))
			if got := res.Header.Get("Cache-Control"); got != "no-store" {
				t.Errorf("%s: %s %s, Cache-Control %q", path, res.Status, text, got)
			}
		}
	})
}

// A body that HTTP itself cannot read is the caller's fault, and no error of ours. Spec:
// P-12.3.
func TestBodyThatHTTPCannotReadIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, kind := range []string{"application/json", "application/proto", "application/grpc-web+proto"} {
			for what, body := range map[string]string{
				"a chunk without a length": "zz\r\n{}\r\n0\r\n\r\n",
				"a chunk without an end":   "2\r\n{}xx0\r\n\r\n",
				"a body that breaks off":   "40\r\n{",
			} {
				nc, err := w.dial(t.Context(), "", "")
				w.must(err)
				_, err = fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n%s", getUser, kind, w.key, body)
				w.must(err)
				w.must(nc.(*memoryConn).CloseWrite())
				res, err := http.ReadResponse(bufio.NewReader(nc), nil)
				w.must(err)
				_, _ = io.Copy(io.Discard, res.Body) // it may break off too
				if code := res.Header.Get(errorHeader); code != string(im.CodeInvalid) || kind != "application/grpc-web+proto" && res.StatusCode != http.StatusBadRequest {
					t.Errorf("%s in %s: %s, %q", what, kind, res.Status, code)
				}
				w.must(res.Body.Close())
				w.must(nc.Close())
			}
		}
		if text := w.log.String(); strings.Contains(text, "level=ERROR") {
			t.Errorf("the log: %s", text)
		}
	})
}
