package petrel

import (
	"net/url"
	"slices"
)

// places are where a client may connect, best first: what the server said last,
// behind that the URL that it was made with. Only the goroutine of Run uses it.
// Spec: P-3.7.
type places struct {
	given string   // Options.URL
	list  []string // never empty
	at    int      // the one to try
	tried int      // since the last welcome, or the last pause
}

func newPlaces(given string) places { return places{given: given, list: []string{given}} }

func (p *places) now() string { return p.list[p.at] }

// welcomed takes what the server that is connected says; nothing changes
// nothing.
func (p *places) welcomed(gateways []string) {
	p.tried = 0
	if len(gateways) == 0 {
		return
	}
	here := p.now()
	p.list = nil
	for _, g := range append(slices.Clone(gateways), p.given) {
		if speaks(p.given, g) && !slices.Contains(p.list, g) {
			p.list = append(p.list, g)
		}
	}
	p.at = max(slices.Index(p.list, here), 0)
}

// lost begins again with the best one; away says that the one that was connected
// sends its clients to the others.
func (p *places) lost(away bool) {
	if here := p.now(); away && len(p.list) > 1 {
		p.list = append(slices.Delete(slices.Clone(p.list), p.at, p.at+1), here)
	}
	p.at = 0
}

// failed goes on to the next one. It reports false when all were tried: then
// there is a pause.
func (p *places) failed() bool {
	p.at = (p.at + 1) % len(p.list)
	if p.tried++; p.tried < len(p.list) {
		return true
	}
	p.tried = 0
	return false
}

// speaks tells whether a client that was given one address may use another: it
// has a transport for it, and does not lose TLS.
func speaks(given, other string) bool {
	from, err := url.Parse(given)
	to, err2 := url.Parse(other)
	if err != nil || err2 != nil || to.Host == "" {
		return false
	}
	secure := []string{"wss", "https", "tls"}
	plain := []string{"ws", "http", "tcp"}
	return slices.Contains(secure, to.Scheme) || slices.Contains(plain, to.Scheme) && slices.Contains(plain, from.Scheme)
}
