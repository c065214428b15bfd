package petrel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// A client that comes back resumes its TLS session, which is cheap for both sides.
func TestClientResumesItsTLSSession(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	c, err := New(Options{URL: "tls://" + ln.Addr().String(), TLS: &tls.Config{RootCAs: roots}, Token: StaticToken("pt_x")})
	if err != nil {
		t.Fatal(err)
	}
	u := &url.URL{Scheme: "tls", Host: ln.Addr().String()}
	for i := range 2 {
		resumed := make(chan bool, 1)
		go func() {
			nc, err := ln.Accept()
			if err != nil {
				close(resumed)
				return
			}
			defer func() { _ = nc.Close() }()
			_, _ = nc.Write([]byte("{}\n")) // does the handshake; the client reads the ticket with it
			resumed <- nc.(*tls.Conn).ConnectionState().DidResume
		}()
		l := &link{json: true}
		if err := l.dialTCP(t.Context(), u, c.o.TLS, (&net.Dialer{}).DialContext); err != nil {
			t.Fatal(err)
		}
		if _, err := l.recv(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.close()
		if got := <-resumed; got != (i > 0) {
			t.Errorf("connection %d: resumed is %t", i, got)
		}
	}
}

// A server that refuses upgrades is asked again and again; each attempt leaves no connection.
func TestRefusedUpgradeClosesItsConnection(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"code":"overloaded"}`))
	}))
	defer srv.Close()
	closed := make(chan struct{}, 1)
	u := &url.URL{Scheme: "ws", Host: srv.Listener.Addr().String()}
	err := (&link{}).dialWebSocket(t.Context(), u, nil, func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return told{conn, closed}, err
	})
	if CodeOf(err) != CodeOverloaded {
		t.Fatalf("got %v", err)
	}
	<-closed // a connection that stays open lets the test run out of time
}

// told tells when it is closed.
type told struct {
	net.Conn
	closed chan struct{}
}

func (c told) Close() error {
	select {
	case c.closed <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}
