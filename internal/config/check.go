package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// envelope is the size of the frame of a send without its body, in bytes: ids of 64 and 21 bytes, a type of 64,
// numbers, and the names of JSON.
const envelope = 1 << 10

// check finds values that are not allowed together, and those that their options do not check themselves: ids,
// origins, host names, and addresses without TLS.
func (c *Config) check() Problems {
	var ps Problems
	fail := func(key, value, why, fix string) {
		ps = append(ps, Problem{Origin: c.Origin(key), Key: key, Value: value, Why: why, Fix: fix})
	}
	l := &c.Limits
	fits := func(inner string, n int64, outer string, room int64, why string) {
		if room < n {
			fail(outer, FormatSize(room), fmt.Sprintf("%s (%s, from %s)", why, inner, c.Origin(inner)),
				"allowed: at least "+FormatSize(n))
		}
	}
	fits("limits.body", l.BodyBytes+envelope, "limits.window_bytes", l.WindowBytes,
		"it would not hold the largest body and what stands around it")
	fits("limits.body", 2*(l.BodyBytes+envelope), "limits.outbox", l.OutboxBytes,
		"it would not hold two messages of the largest size")
	fits("limits.window_bytes", l.WindowBytes, "limits.conv_queue", l.ConvQueueBytes,
		"it would not hold the window of one connection")
	if l.AdmittedBytes > 0 {
		fits("limits.conv_queue", l.ConvQueueBytes, "limits.admitted", l.AdmittedBytes,
			"it would not hold the queue of one conversation")
	}

	if _, err := c.Store.StoreID(); err != nil || c.Store.ID != "" && len(c.Store.ID) != 16 {
		fail("store.id", c.Store.ID, "it is not the id of a store",
			"allowed: 16 hex digits, as the log says them at the start")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		set, missing := "tls.cert_file", "tls.key_file"
		if c.TLS.CertFile == "" {
			set, missing = missing, set
		}
		fail(set, "", missing+" is not set", "set both, or neither")
	}
	from, provider := "jwt.key_file", c.JWT.KeyFile
	if c.JWT.KeysURL != "" {
		from, provider = "jwt.keys_url", c.JWT.KeysURL
		switch u, err := url.Parse(c.JWT.KeysURL); {
		case c.JWT.KeyFile != "":
			fail("jwt.keys_url", c.JWT.KeysURL, "jwt.key_file is set too", "set one of them")
		case c.JWT.Algorithm == "HS256":
			fail("jwt.keys_url", c.JWT.KeysURL, "jwt.algorithm is HS256, whose key is a secret and not published",
				"set jwt.algorithm to EdDSA, ES256 or RS256")
		case err != nil || u.Host == "" ||
			u.Scheme != "https" && (u.Scheme != "http" || !Loopback(net.JoinHostPort(u.Hostname(), "80"))):
			fail("jwt.keys_url", c.JWT.KeysURL, "without TLS, an attacker on the network could replace the keys",
				"allowed: https://…, and http:// on the loopback")
		}
	}
	for _, o := range []struct{ key, value string }{{"jwt.issuer", c.JWT.Issuer}, {"jwt.audience", c.JWT.Audience}} {
		if o.value == "" && provider != "" {
			fail(from, provider, o.key+" is not set: a JWT that the provider made for somebody else would log in here",
				"set "+o.key)
		}
		if o.value != "" && provider == "" {
			fail(o.key, o.value, "jwt.key_file is not set: no JWT is taken",
				"set jwt.key_file or jwt.keys_url, or leave this out")
		}
	}
	if c.Listen.HTTP == "" && c.Listen.TCP == "" {
		fail("listen.http", `""`, "listen.tcp is empty too: nobody could connect", "allowed: host:port for one of them")
	}
	for _, origin := range c.Web.FrameAncestors {
		if scheme, ok := originScheme(origin); !ok || scheme != "https" && scheme != "http" ||
			strings.ContainsAny(origin, "; '\"") {
			fail("web.frame_ancestors", origin, "it is not the origin of a page",
				"allowed: https://host or https://host:port")
		}
	}
	for _, origin := range c.Listen.Origins {
		if why := strangeOrigin(origin); why != "" {
			fail("listen.origins", origin, why,
				`allowed: https://host or https://host:port, without a path, or "*" alone`)
		}
	}
	for _, name := range c.Listen.Hosts {
		if !isHostName(name) {
			fail("listen.hosts", name, "it is not the name of a host: no request would have it",
				"allowed: a name without scheme and port, like chat.example.org or *.example.org")
		}
	}
	for _, a := range []struct{ key, addr string }{{"listen.http", c.Listen.HTTP}, {"listen.tcp", c.Listen.TCP},
		{"listen.admin", c.Listen.Admin}} {
		if a.addr != "" && !c.TLS.On() && !c.Listen.InsecurePlaintext && !Loopback(a.addr) {
			fail(a.key, a.addr, "other hosts can reach this address, and tokens and messages would cross the network in clear",
				"set tls.cert_file and tls.key_file; behind a proxy that ends TLS set listen.insecure_plaintext = true")
		}
	}
	if k := &c.Cluster; k.Listen != "" && k.CertFile == "" && !k.Insecure && !Loopback(k.Listen) {
		fail("cluster.listen", k.Listen,
			"other hosts can reach this address, and cluster.secret and messages would cross the network in clear",
			"set cluster.bus_cert_file, cluster.bus_key_file and cluster.bus_ca_file; in a network of the nodes alone set cluster.insecure = true")
	}
	return ps
}

// originScheme returns the scheme of an origin; false: s is not an origin, as https://host/ and host are not.
func originScheme(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || !strings.EqualFold(u.Scheme+"://"+u.Host, s) {
		return "", false
	}
	return u.Scheme, true
}

// strangeOrigin returns why no browser sends s as an origin; "": a browser may. Pages without an origin, such as
// files, send null.
func strangeOrigin(s string) string {
	if s == "*" || s == "null" {
		return ""
	}
	switch scheme, ok := originScheme(s); {
	case !ok || strings.Contains(s, "*"):
		return "it is not the origin of a page: no browser would send it"
	case scheme == "https" && strings.HasSuffix(s, ":443"), scheme == "http" && strings.HasSuffix(s, ":80"):
		return "browsers leave out the port that is the default of the scheme"
	}
	return ""
}

// isHostName reports whether a Host header can have the name s. An IP address counts as a name; *.name stands
// for all names below it, and * for all names.
func isHostName(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil || s == "*" {
		return true
	}
	s = strings.TrimPrefix(s, "*.")
	return s != "" && !strings.HasSuffix(s, ".") && !strings.ContainsAny(s, "*:/[]@ \t")
}

// Loopback reports whether only this host can reach addr, a host:port. A name
// other than localhost is not looked up: it may mean another address tomorrow.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("it is not host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || (n == 0 && port != "0") {
		return fmt.Errorf("its port is not a number up to 65535")
	}
	return nil
}
