package api

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/im"
)

// Any garbage of a stranger is the stranger's mistake: the server refuses it with a code
// that says so, and no line of the log asks the operator to act.
func TestWhatStrangersSendIsNoErrorOfOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		whole := `{"refreshToken":"pr_x"}`
		frame := func(flag byte, length int, body string) []byte {
			return append([]byte{flag, 0, 0, byte(length >> 8), byte(length)}, body...)
		}
		for name, body := range map[string][]byte{
			"empty": nil, "half of a header": {0, 0, 0}, "truncated": frame(0, len(whole), whole[:9]), "longer than it says": frame(0, 4, whole),
			"compressed, without an encoding": frame(1, len(whole), whole), "unknown flags": frame(0x7e, len(whole), whole), "a trailer": frame(0x80, 4, "a: b"),
			"a length of 4 GiB": {0, 255, 255, 255, 255, 1}, "no JSON": frame(0, 3, "{]}"), "bytes": {0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa},
			"two messages": append(frame(0, len(whole), whole), frame(0, len(whole), whole)...),
		} {
			for _, kind := range []string{"application/grpc-web+json", "application/grpc-web+proto", "application/grpc+json", "application/grpc+proto", "application/json", "application/proto", "application/connect+json", "text/plain", ""} {
				for _, more := range []map[string]string{nil, {"Grpc-Encoding": "gzip"}, {"Content-Encoding": "br"}, {"Grpc-Timeout": "x"}, {"Connect-Timeout-Ms": "-1"}, {"Connect-Protocol-Version": "9"}} {
					header := map[string]string{"Content-Type": kind}
					for k, v := range more {
						header[k] = v
					}
					res, answer := w.do("POST", refresh, header, body)
					if code := im.Code(res.Header.Get(errorHeader)); code == im.CodeInternal || res.StatusCode >= 500 {
						t.Errorf("%s as %q with %v: %s, code %q: %s", name, kind, more, res.Status, code, answer)
					}
				}
			}
		}
		if log := w.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "level=WARN") {
			t.Errorf("the log has\n%s", log[:min(len(log), 2000)])
		}
	})
}
