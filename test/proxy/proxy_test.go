// Package proxy runs the recipes of the guide for nginx, HAProxy and Caddy, as the page has them,
// in front of the server's program.
package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/coder/websocket"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// name is the host of the recipes.
const name = "chat.example.org"

// world is a proxy in front of a server, and its clients.
type world struct {
	*program
	srv   *imtest.Server
	trust *x509.CertPool
}

func TestRecipesOfProxiesWork(t *testing.T) {
	t.Parallel()
	for i := range kinds {
		t.Run(kinds[i].name, func(t *testing.T) {
			t.Parallel()
			w := start(t, &kinds[i])
			w.servesPages()
			w.servesMethods()
			w.passesTheDoctor()
			w.namesTheClient()
			w.losesNothing()
			if log := w.srv.Log(); strings.Contains(log, `"level":"WARN"`) {
				t.Errorf("the server warns of the proxy:\n%s", log)
			}
		})
	}
}

// start starts a server with the settings of the page, and a proxy with its recipe.
func start(t *testing.T, k *kind) *world {
	t.Helper()
	dir := t.TempDir()
	settings := strings.Replace(recipe(t, "toml"), `http = "127.0.0.1:8080"`, "", 1) // imtest chooses the port
	if err := os.WriteFile(filepath.Join(dir, "petrel.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &world{srv: imtest.Start(t, imtest.Options{Program: true, Dir: filepath.Join(dir, "data")}), trust: certificate(t, dir)}
	_, petrel, _ := strings.Cut(w.srv.BaseURL(), "://")
	w.runs(t, k, &site{dir: dir, petrel: petrel})
	return w
}

// runs starts the proxy, and waits until it answers.
func (w *world) runs(t *testing.T, k *kind, s *site) {
	t.Helper()
	at := proctest.FreePorts(t, 3)
	s.https, s.http, s.control = at[0], at[1], at[2]
	w.program = run(t, k, s)
	eventually.True(t, k.name+" answers", func() bool {
		res, err := w.client("127.0.0.2").Get("https://" + name + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close() // only the status counts
		return res.StatusCode == http.StatusOK
	})
}

// certificate writes a certificate for name and its key into dir: cert.pem, key.pem, and both in chat.pem.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	for file, text := range map[string][]byte{"cert.pem": certPEM, "key.pem": keyPEM, "chat.pem": slices.Concat(certPEM, keyPEM)} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

// dial connects to the proxy from an address of the loopback that is not the proxy's own.
func (w *world) dial(from string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		to := w.site.https
		if strings.HasSuffix(addr, ":80") {
			to = w.site.http
		}
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, network, to)
	}
}

func (w *world) client(from string) *http.Client {
	transport := &http.Transport{DialContext: w.dial(from), TLSClientConfig: &tls.Config{RootCAs: w.trust}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	return &http.Client{Transport: transport, Timeout: eventually.Limit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get returns the answer to a GET, and its body.
func (w *world) get(url string) (*http.Response, string) {
	w.t.Helper()
	res, err := w.client("127.0.0.2").Get(url)
	if err != nil {
		w.t.Fatalf("%s: %v", url, err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("%s: %v", url, err)
	}
	return res, string(body)
}

// servesPages: the web chat comes by HTTP/2, and nothing of the operators does.
func (w *world) servesPages() {
	w.t.Helper()
	res, body := w.get("https://" + name + "/")
	if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 || !strings.Contains(body, "<title>") {
		w.t.Errorf("/ is answered with %s by %s:\n%.200s", res.Status, res.Proto, body)
	}
	if h := res.Header.Get("Strict-Transport-Security"); h != "max-age=31536000" {
		w.t.Errorf("Strict-Transport-Security: %q", h)
	}
	for _, path := range []string{"/metrics", "/admin/", "/setup", "/debug/pprof/heap"} {
		if res, _ := w.get("https://" + name + path); res.StatusCode != http.StatusNotFound {
			w.t.Errorf("%s is answered with %s", path, res.Status)
		}
	}
	res, _ = w.get("http://" + name + "/docs")
	if to := res.Header.Get("Location"); res.StatusCode/100 != 3 || to != "https://"+name+"/docs" {
		w.t.Errorf("http: is answered with %s to %q", res.Status, to)
	}
}

// servesMethods: methods answer in JSON and by gRPC, streams of gRPC pass, and the server refuses
// what is too large.
func (w *world) servesMethods() {
	w.t.Helper()
	token := w.srv.Users("", "mia")[0]
	for by, options := range map[string][]connect.ClientOption{"JSON": {connect.WithProtoJSON()}, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		accounts := petrelv1connect.NewAccountServiceClient(w.client("127.0.0.2"), "https://"+name, options...)
		q := connect.NewRequest(&petrelv1.GetAccountRequest{})
		q.Header().Set("Authorization", "Bearer "+token)
		if r, err := accounts.GetAccount(w.t.Context(), q); err != nil || r.Msg.User != "mia" {
			w.t.Errorf("GetAccount by %s: %v, %v", by, r, err)
		}
	}
	tool := grpcreflect.NewClient(w.client("127.0.0.2"), "https://"+name, connect.WithGRPC()).NewStream(eventually.Context(w.t))
	if services, err := tool.ListServices(); err != nil || !slices.Contains(services, petrelv1connect.MessageServiceName) {
		w.t.Errorf("reflection, a stream of gRPC in both directions: %v, %v", services, err)
	}
	_, _ = tool.Close()                                                                 // it has its answer
	body := fmt.Sprintf(`{"user":%q}`, strings.Repeat("x", 1<<20+5-len(`{"user":""}`))) // as large as a call by gRPC may be
	q, err := http.NewRequest(http.MethodPost, "https://"+name+"/petrel.v1.AccountService/GetUser", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	q.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	res, err := w.client("127.0.0.2").Do(q)
	if err != nil {
		w.t.Fatalf("a body of 1 MiB: %v", err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	answer, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Contains(answer, []byte(`"code":`)) || res.Header.Get("Request-Id") == "" {
		w.t.Errorf("a body of 1 MiB is not answered by the server: %s, %.200s, %v", res.Status, answer, err)
	}
}

// namesTheClient: the server knows the address of a client, also of one that claims others.
func (w *world) namesTheClient() {
	w.t.Helper()
	token := w.srv.Users("", "nora")[0]
	c, answer, err := w.hello(token, http.Header{"X-Forwarded-For": {"203.0.113.9"}, "Forwarded": {"for=203.0.113.9"}, "X-Real-Ip": {"203.0.113.9"}})
	if err != nil || !strings.Contains(answer, `"welcome"`) {
		w.t.Fatalf("hello is answered with %s, %v", answer, err)
	}
	defer func() { _ = c.CloseNow() }() // it has said all
	r, err := w.srv.Admin.ListSessions(w.t.Context(), connect.NewRequest(&petrelv1.ListSessionsRequest{User: "nora"}))
	if err != nil || len(r.Msg.Sessions) != 1 || r.Msg.Sessions[0].Address != "127.0.0.3" {
		w.t.Errorf("the session of a client at 127.0.0.3 that claims others: %v, %v", r, err)
	}
}

// hello connects by WebSocket as a page of the server does, with more headers, and says hello. It returns
// the connection and the first frame of the server.
func (w *world) hello(token string, more http.Header) (*websocket.Conn, string, error) {
	h := more.Clone()
	h.Set("Origin", "https://"+name)
	ctx := eventually.Context(w.t)
	c, _, err := websocket.Dial(ctx, "wss://"+name+"/v1/ws", &websocket.DialOptions{HTTPClient: w.client("127.0.0.3"), HTTPHeader: h})
	if err != nil {
		return nil, "", err
	}
	err = c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"id":"1","hello":{"versionMin":1,"versionMax":1,"token":%q,"device":"forger"}}`, token))
	if err != nil {
		return c, "", err
	}
	_, answer, err := c.Read(ctx)
	return c, string(answer), err
}

// losesNothing: clients of the SDK write and read through the proxy, while it takes another
// configuration, and while it is restarted.
func (w *world) losesNothing() {
	w.t.Helper()
	tokens := w.srv.Users("", "alice", "bob")
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	client := func(token, device, from string) *petrel.Client {
		c, err := petrel.New(petrel.Options{
			URL: "wss://" + name, Token: petrel.StaticToken(token), Device: device, NetDial: w.dial(from), TLS: &tls.Config{RootCAs: w.trust},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		return c
	}
	alice, bob := client(tokens[0], "alice-1", "127.0.0.2"), client(tokens[1], "bob-1", "127.0.0.3")
	got := make(chan string, 1000)
	running.Go(func() {
		if err := alice.Run(ctx); err != nil {
			w.t.Errorf("alice: %v", err)
		}
	})
	running.Go(func() {
		_ = bob.While(ctx, func(ctx context.Context) error { // it ends with ctx
			for m, err := range bob.Incoming(ctx) {
				if err != nil {
					return err
				}
				got <- m.GetText()
			}
			return nil
		})
	})
	n := 0
	send := func() *petrel.Outgoing {
		w.t.Helper()
		n++
		out, err := alice.Send(petrel.Draft{User: "bob", Text: fmt.Sprint(n)})
		if err != nil {
			w.t.Fatal(err)
		}
		return out
	}
	acked := func(out *petrel.Outgoing) {
		w.t.Helper()
		if _, err := out.Wait(eventually.Context(w.t)); err != nil {
			w.t.Fatalf("message %d: %v", n, err)
		}
	}
	for range 5 {
		acked(send())
	}
	w.rewrite("max-age=31536000", "max-age=31536001")
	eventually.True(w.t, "the proxy has another configuration", func() bool {
		acked(send())
		res, _ := w.get("https://" + name + "/version")
		return res.Header.Get("Strict-Transport-Security") == "max-age=31536001"
	})
	w.stop()
	under := send() // while there is no proxy
	w.start()
	acked(under)
	for range 5 {
		acked(send())
	}
	for want := 1; want <= n; want++ {
		if text := eventually.Receive(w.t, fmt.Sprintf("message %d", want), got); text != fmt.Sprint(want) {
			w.t.Fatalf("message %d is %s", want, text)
		}
	}
}
