package proxycheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"time"
)

// renewBefore is how long before its end a certificate should be renewed.
const renewBefore = 14 * 24 * time.Hour

// checkCertificate does a TLS handshake over c and judges the certificate as a client does. It returns false if the
// handshake fails.
func (v *visit) checkCertificate(ctx context.Context, c net.Conn) bool {
	// nolint:gosec // it is verified below, and each fault named
	t := tls.Client(c, &tls.Config{ServerName: v.base.Hostname(), InsecureSkipVerify: true})
	if err := t.HandshakeContext(ctx); err != nil {
		fix := "look at the log of the proxy"
		if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
			fix = "what listens there speaks no TLS: give the proxy, or the server, a certificate and have it listen with TLS"
		} else if strings.HasSuffix(err.Error(), "unrecognized name") { // the alert has no exported type
			fix = "the proxy has no site of this name: add it to its configuration"
		}
		v.note("TLS", Fail, fix, "the handshake fails: %v", err)
		return false
	}
	chain := t.ConnectionState().PeerCertificates
	leaf := chain[0]
	of := x509.VerifyOptions{DNSName: v.base.Hostname(), Roots: v.o.Roots, CurrentTime: v.o.Now(),
		Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		of.Intermediates.AddCert(c)
	}
	_, err := leaf.Verify(of)
	until := leaf.NotAfter.UTC().Format(time.DateOnly)
	switch fix := certificateFix(err, chain); {
	case err != nil:
		v.note("TLS", Fail, fix, "clients refuse the certificate: %v", err)
	case leaf.NotAfter.Sub(v.o.Now()) < renewBefore:
		v.note("TLS", Warn, "renew it, and have the proxy read it again; look why that did not happen by itself",
			"the certificate ends on %s, in %d days", until, int(leaf.NotAfter.Sub(v.o.Now()).Hours()/24))
	default:
		v.note("TLS", OK, "", "the certificate for %s is good until %s", strings.Join(leaf.DNSNames, ", "), until)
	}
	return true
}

// certificateFix says what to do about a refused certificate.
func certificateFix(err error, chain []*x509.Certificate) string {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "get a certificate with this name in it; or the proxy shows that of another site: look at its configuration"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "renew it, and have the proxy read it again; if it is new, look at the clocks of both hosts"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok && len(chain) == 1 {
		return "the certificate comes alone: give the proxy the file with the whole chain (fullchain.pem); if your own authority has signed it, clients have to trust that"
	}
	return "clients trust certificates of public authorities, such as Let's Encrypt; if your own has signed this one, clients have to trust that"
}
