package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// The header of the PROXY protocol, version 2, with which a proxy begins a connection that it makes
// for a client.
const (
	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyFixed     = len(proxySignature) + 4 // bytes up to the addresses
	proxyLocal     = 0x20                    // version and command: the connection is the proxy's own
	proxyForClient = 0x21
	proxyTCP4      = 0x11    // family and transport
	proxyTCP6      = 0x21    // the same
	maxProxyHeader = 2 << 10 // bytes of the addresses and further fields
)

var errNoProxyHeader = errors.New("the connection does not begin with a header of the PROXY protocol, version 2")

// readProxyHeader reads a header and no byte after it, so the connection can go on
// in an event loop. It returns the client's address; ok is false if the proxy
// names none. (The libraries for this read ahead.)
func readProxyHeader(r io.Reader) (client netip.AddrPort, ok bool, err error) {
	var b [maxProxyHeader]byte
	if _, err := io.ReadFull(r, b[:proxyFixed]); err != nil {
		return client, false, fmt.Errorf("read PROXY header: %w", err)
	}
	command, family := b[len(proxySignature)], b[len(proxySignature)+1]
	n := int(binary.BigEndian.Uint16(b[proxyFixed-2:]))
	if string(b[:len(proxySignature)]) != proxySignature || command != proxyLocal && command != proxyForClient ||
		n > maxProxyHeader {
		return client, false, errNoProxyHeader
	}
	if _, err := io.ReadFull(r, b[:n]); err != nil {
		return client, false, fmt.Errorf("read PROXY header: %w", err)
	}
	size := map[byte]int{proxyTCP4: 4, proxyTCP6: 16}[family]
	switch {
	case command == proxyLocal || size == 0:
		return client, false, nil
	case n < 2*size+4:
		return client, false, errNoProxyHeader
	}
	a, _ := netip.AddrFromSlice(b[:size]) // the size fits
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(b[2*size:])), true, nil
}

// namesClientFirst reports whether a peer is a proxy whose connections begin with a header that names the client.
func (g *Gateway) namesClientFirst(peer netip.Addr) bool { return g.o.ProxyProtocol && g.trusted(peer) }

// awaitProxyHeader reads the header of a connection that may stay silent: the whole header has to come within
// handshakeTimeout.
func awaitProxyHeader(nc net.Conn) (client netip.AddrPort, ok bool, err error) {
	if err := nc.SetReadDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return client, false, err
	}
	if client, ok, err = readProxyHeader(nc); err == nil {
		err = nc.SetReadDeadline(time.Time{})
	}
	return client, ok, err
}

// readClient reads the client that a proxy names, and makes it the address of the connection.
func (g *Gateway) readClient(nc *clientConn) error {
	client, ok, err := awaitProxyHeader(nc.TCPConn)
	if ok {
		nc.client = net.TCPAddrFromAddrPort(client)
	}
	return err
}
