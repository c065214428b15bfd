package petrel

import (
	"net/url"
	"slices"
)

// places are the addresses of the server, best first: the newest list from the server, and then the URL of
// the options. A round tries each of them once. Spec: P-3.7.
type places struct {
	given  string          // Options.URL
	list   []string        // never empty
	silent map[string]bool // did not answer when they were tried last, or fell silent
	left   []string        // of this round, still to be tried
}

func newPlaces(given string) places {
	return places{given: given, list: []string{given}, silent: map[string]bool{}}
}

// begin begins a round, in which one address is left out: without ("": none). Other addresses of the same host
// come last, with the silent ones.
func (p *places) begin(without string) {
	p.left = nil
	lost := hostOf(without)
	for _, last := range []bool{false, true} {
		for _, a := range p.list {
			if a != without && (p.silent[a] || lost != "" && hostOf(a) == lost) == last {
				p.left = append(p.left, a)
			}
		}
	}
}

// hostOf returns the host of an address, without the port; "" if it has none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// next returns the next address of the round; ok is false when all were tried.
func (p *places) next() (addr string, ok bool) {
	if len(p.left) == 0 {
		return "", false
	}
	addr, p.left = p.left[0], p.left[1:]
	return addr, true
}

// welcomed takes the addresses that the server at addr has named, as far as this client may use them. An empty
// list changes no address.
func (p *places) welcomed(addr string, gateways []string) {
	delete(p.silent, addr)
	if len(gateways) == 0 {
		return
	}
	p.list = nil
	for _, g := range append(slices.Clone(gateways), p.given) {
		if speaks(p.given, g) && !slices.Contains(p.list, g) {
			p.list = append(p.list, g)
		}
	}
	for a := range p.silent {
		if !slices.Contains(p.list, a) {
			delete(p.silent, a)
		}
	}
}

// sendsAway makes an address the last one of the list: its server sends its clients away.
func (p *places) sendsAway(addr string) {
	if i := slices.Index(p.list, addr); i >= 0 && len(p.list) > 1 {
		p.list = append(slices.Delete(slices.Clone(p.list), i, i+1), addr)
	}
}

// speaks reports whether a client whose options have the address given may use other: it has a transport for
// that, and does not lose TLS.
func speaks(given, other string) bool {
	from, err := url.Parse(given)
	to, err2 := url.Parse(other)
	if err != nil || err2 != nil || to.Host == "" {
		return false
	}
	secure := []string{"wss", "https", "tls"}
	plain := []string{"ws", "http", "tcp"}
	return slices.Contains(secure, to.Scheme) ||
		slices.Contains(plain, to.Scheme) && slices.Contains(plain, from.Scheme)
}
