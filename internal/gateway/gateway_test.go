package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
)

// transports runs a test on every way a client can come: either framing, in an
// event loop, on a goroutine of its own, and there with TLS.
func transports(t *testing.T, o Options, f func(t *testing.T, s *server, fr wire.Framing)) {
	eachTransport(t, o, func(t *testing.T, s *server, fr wire.Framing) {
		t.Parallel()
		f(t, s, fr)
	})
}

// eachTransport does so one after the other, for tests that measure the process.
func eachTransport(t *testing.T, o Options, f func(t *testing.T, s *server, fr wire.Framing)) {
	for _, kind := range []string{"loop", "goroutine", "tls"} {
		for _, fr := range []wire.Framing{wire.WebSocket, wire.TCP} {
			t.Run(kind+map[wire.Framing]string{wire.WebSocket: " ws", wire.TCP: " tcp"}[fr], func(t *testing.T) {
				o := o
				switch kind {
				case "goroutine":
					o.Loops = -1
				case "tls":
					client := withTLS(t, &o)
					s := serve(t, o, noLimits())
					s.tls = client
					f(t, s, fr)
					return
				}
				f(t, serve(t, o, noLimits()), fr)
			})
		}
	}
}

func TestClientSaysHelloAndIsAnswered(t *testing.T) {
	transports(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		p := s.dial(fr)
		p.hello(s.token)
		for i := range 3 {
			p.say(fmt.Sprintf(`{"id":"%d","ping":{}}`, 10+i))
			p.hear(fmt.Sprintf(`{"id":"%d","pong":{}}`, 10+i))
		}
	})
}

func TestProtobufIsSpokenBack(t *testing.T) {
	transports(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		hello := "\x08\x01\x12\x06\x08\x01\x10\x01\x1a" // id 1, hello{1, 1, token…}
		hello = "\x08\x01\x12" + string(rune(6+len(s.token))) + "\x08\x01\x10\x01\x1a" + string(rune(len(s.token))) + s.token
		frame := masked(bin, hello)
		if fr == wire.TCP {
			frame = lengthFrame(hello)
		}
		p := s.dial(fr)
		p.write(frame[:7]) // in two reads
		p.write(frame[7:])
		if m, err := p.read(); err != nil || m.op != opBinary || !strings.HasPrefix(m.payload, "\x08\x01\x12") {
			t.Fatalf("got %d %q, %v; want a welcome as protobuf", m.op, m.payload, err)
		}
	})
}

func TestFramesBehindTheRequestAreNotLost(t *testing.T) {
	transports(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		hello := `{"id":"1","hello":{"versionMin":1,"versionMax":1,"device":"d","token":"` + s.token + `"}}`
		frame := masked(text, hello)
		if fr == wire.TCP {
			frame = []byte(hello + "\n")
		}
		for _, cut := range []int{1, 3, len(frame) / 2, len(frame)} {
			p := s.dial(fr, frame[:cut]...)
			p.write(frame[cut:])
			p.hear(`"welcome"`)
		}
	})
}

func TestHandshakeMayComeInPieces(t *testing.T) {
	s := serve(t, Options{}, noLimits())
	p := s.connect(wire.WebSocket)
	for i := range len(upgradeRequest) {
		p.write([]byte(upgradeRequest[i : i+1]))
	}
	if status := p.readResponse(); status != 101 {
		t.Fatalf("the upgrade ends with %d", status)
	}
	p.hello(s.token)
}

func TestOtherPathsAreTheHandlers(t *testing.T) {
	h := http.NewServeMux()
	h.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("fine")) })
	s := serve(t, Options{Handler: h}, noLimits())
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + s.HTTPAddr().String() + "/healthz")
	must(t, err)
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "fine" {
		t.Errorf("got %q, %v", b, err)
	}
	eventually.True(t, "the HTTP connection is not counted any more", func() bool {
		s.limits.mu.Lock()
		defer s.limits.mu.Unlock()
		return s.limits.all[ofHTTP] == 0
	})
}

func TestEachViolationHasItsNameAndCloseCode(t *testing.T) {
	transports(t, Options{}, func(t *testing.T, s *server, fr wire.Framing) {
		long := strings.Repeat("x", wire.FrameLimit(noLimits().BodyBytes))
		for _, c := range []struct {
			name  string
			ws    []byte // what is sent on WebSocket; nil: the case is not about it
			tcp   string
			greet bool
			code  im.Code
			close int
		}{
			{"a text that is no object", masked(text, `[]`), "[]\n", false, im.CodeUnknownCodec, 4415},
			{"not JSON", masked(text, `{"a`), "{\"a\n", false, im.CodeBadFrame, 4400},
			{"not JSON, later", masked(text, `nonsense`), "nonsense\n", true, im.CodeBadFrame, 4400},
			{"no id", masked(text, `{"ping":{}}`), `{"ping":{}}` + "\n", true, im.CodeBadFrame, 4400},
			{"the id 0", masked(text, `{"id":"0","send":{"user":"bob","clientMsgId":"1","text":"hi"}}`), `{"id":"0","send":{"user":"bob","clientMsgId":"1","text":"hi"}}` + "\n", true, im.CodeBadFrame, 4400},
			{"a hello without an id", masked(text, `{"hello":{"versionMin":1,"versionMax":1}}`), `{"hello":{"versionMin":1,"versionMax":1}}` + "\n", false, im.CodeBadFrame, 4400},
			{"the other codec", masked(bin, "\x08\x01"), "", true, im.CodeBadFrame, 4400},
			{"invalid UTF-8", masked(text, "{\"id\":\"1\",\"x\":\"\xff\"}"), "{\"id\":\"1\",\"x\":\"\xff\"}\n", false, im.CodeBadUTF8, 1007},
			{"invalid UTF-8, later", masked(text, "{\"id\":\"1\",\"x\":\"\xff\"}"), "{\"x\":\"\xff\"}\n", true, im.CodeBadUTF8, 1007}, // without an id there is nothing to answer
			{"unmasked", []byte("\x81\x02{}"), "", false, im.CodeUnmasked, 1002},
			{"unmasked, later", []byte("\x81\x02{}"), "", true, im.CodeUnmasked, 1002},
			{"reserved bit", masked(text|0x40, "{}"), "", false, im.CodeBadFrame, 1002},
			{"reserved bit, later", masked(text|0x40, "{}"), "", true, im.CodeBadFrame, 1002},
			{"too large before the hello", masked(text, `{"`+long[:5000]), `{"` + long[:5000] + "\n", false, im.CodeFrameTooLarge, 1009},
			{"too large", masked(text, `{"`+long), `{"` + long + "\n", true, im.CodeFrameTooLarge, 1009},
			{"announced too large", masked(text, `{"`+long)[:14], "\x00\x40\x00\x01", false, im.CodeFrameTooLarge, 1009},
			{"no hello", masked(text, `{"id":"1","ping":{}}`), "{\"id\":\"1\",\"ping\":{}}\n", false, im.CodeHelloExpected, 4400},
			{"a bad token", masked(text, `{"id":"1","hello":{"versionMin":1,"versionMax":1,"token":"pt_x.y.z"}}`),
				`{"id":"1","hello":{"versionMin":1,"versionMax":1,"token":"pt_x.y.z"}}` + "\n", false, im.CodeUnauthenticated, 4401},
		} {
			in := c.ws
			if fr == wire.TCP {
				in = []byte(c.tcp)
			}
			if len(in) == 0 {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				p := s.dial(fr)
				p.t = t
				if c.greet {
					p.hello(s.token)
				}
				_, _ = p.nc.Write(in) // the server may have ended it in the middle
				p.end(c.code, c.close)
			})
		}
	})
}
