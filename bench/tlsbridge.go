package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// secure tells whether the connections of a run have TLS.
func (p *Params) secure() bool { return p.Transport == "wss" || p.Transport == "tls" }

// certify makes a certificate for a run's own servers in dir, and returns the lines of their configuration
// and the roots for clients.
func certify(dir string) (conf string, roots []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "petrel bench"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return "", nil, fmt.Errorf("make a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", nil, fmt.Errorf("write a key: %w", err)
	}
	roots = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	certFile, keyFile := filepath.Join(dir, "bench.crt"), filepath.Join(dir, "bench.key")
	if err := os.WriteFile(certFile, roots, 0o600); err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		0o600); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\n", certFile, keyFile), roots, nil
}

// trust returns the TLS configuration of clients that trust roots; without any, those of the system.
func trust(roots []byte) *tls.Config {
	c := &tls.Config{}
	if len(roots) > 0 {
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(roots)
	}
	return c
}

// bridges encrypt the connections with TLS. The generator polls plain sockets, so it gets one socket of a
// pair, and two goroutines copy between the other one and the TLS connection. They end when either side
// closes. Their CPU time counts as the generator's.
type bridges struct{ all sync.WaitGroup }

// add makes a bridge to nc and returns the generator's socket.
func (b *bridges) add(nc net.Conn) (fd int, err error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make a pair of sockets: %w", err)
	}
	file := os.NewFile(uintptr(ends[1]), "bridge")
	clear, err := net.FileConn(file)
	_ = file.Close() // clear has its own
	if err != nil {
		closeSocket(ends[0])
		return -1, fmt.Errorf("use a pair of sockets: %w", err)
	}
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // an end of either one is the end of both
		_ = to.Close()
		_ = from.Close()
	}
	b.all.Go(func() { carry(nc, clear) })
	b.all.Go(func() { carry(clear, nc) })
	return ends[0], nil
}
