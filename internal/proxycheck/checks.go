package proxycheck

import (
	"context"
	"net"
	"net/netip"
)

// examine runs the checks.
func (v *visit) examine(ctx context.Context) {
	if !v.connect(ctx) {
		return
	}
	seen, ok := v.version(ctx)
	if !ok {
		return
	}
	v.checkHost(seen)
	v.checkClient(seen)
	v.checkWebSocket(ctx)
	v.checkBodies(ctx)
	v.checkOperators(ctx)
	v.checkGRPC(ctx)
}

// connect opens a connection, and judges the certificate. It reports whether requests can be made.
func (v *visit) connect(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := v.o.Dial(ctx, "tcp", v.addr())
	if err != nil {
		v.note("connection", Fail,
			"look whether the name stands for the proxy, whether the proxy runs, and whether a firewall lets its port through", "%v", err)
		return false
	}
	defer func() { _ = c.Close() }() // nothing was written
	if host, _, err := net.SplitHostPort(c.LocalAddr().String()); err == nil {
		v.local = host
	}
	if v.base.Scheme == "https" {
		return v.checkCertificate(ctx, c)
	}
	if a, err := netip.ParseAddr(v.base.Hostname()); v.base.Hostname() != "localhost" &&
		(err != nil || !a.IsLoopback()) {
		v.note("TLS", Warn, "have the proxy, or tls.cert_file and tls.key_file of the server, speak TLS, and use https://", "there is none: tokens and messages cross the network unencrypted")
	}
	return true
}
