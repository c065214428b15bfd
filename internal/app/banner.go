package app

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/gateway"
)

func (a *App) httpURL() string {
	scheme := "http"
	if a.cfg.TLS.On() {
		scheme = "https"
	}
	return scheme + "://" + reachable(a.HTTPAddr())
}

func (a *App) adminURL() string {
	scheme := "http"
	if a.admin.TLS() {
		scheme = "https"
	}
	return scheme + "://" + reachable(a.AdminAddr())
}

// reachable returns an address that a browser on this machine can open.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// announce prints that the server is ready: a tree of addresses on a terminal, one line of JSON otherwise.
func (a *App) announce() {
	if a.o.Banner == nil {
		return
	}
	if !a.o.Terminal {
		a.announceJSON()
		return
	}
	w := a.o.Banner
	fmt.Fprintf(w, "\n  petrel %s   %s   data %s   pid %d   ready in %d ms\n", a.o.Version, a.node.title(),
		a.cfg.Store.Dir, os.Getpid(), time.Since(a.begun).Milliseconds())
	var lines [][2]string
	if a.HTTPAddr() != nil {
		url := a.httpURL()
		if a.site != nil {
			lines = append(lines, [2]string{"Chat", url + "/"})
		}
		if a.node.has(cluster.Gateway) {
			lines = append(lines, [2]string{"Realtime", "ws" + url[len("http"):] + gateway.Path})
		}
		if a.node.has(cluster.API) {
			lines = append(lines, [2]string{"API", url + "/docs   " + url + "/openapi.json"})
		}
		lines = append(lines, [2]string{"Health", url + "/readyz   " + url + "/healthz"})
	}
	if a.TCPAddr() != nil {
		scheme := "tcp"
		if a.cfg.TLS.On() {
			scheme = "tls"
		}
		lines = append(lines, [2]string{"TCP", scheme + "://" + reachable(a.TCPAddr())})
	}
	if a.admin != nil {
		note := "   keys, limits, metrics"
		if config.Loopback(a.AdminAddr().String()) {
			note += "; only from this machine"
		}
		lines = append(lines, [2]string{"Operators", a.adminURL() + note})
	}
	if link := a.SetupLink(); link != "" {
		lines = append(lines, [2]string{"First run", link + "   makes the first admin key; 15 minutes, one use"})
	}
	for i, l := range lines {
		branch := "├─"
		if i == len(lines)-1 {
			branch = "└─"
		}
		fmt.Fprintf(w, "  %s %-10s %s\n", branch, l[0], l[1])
	}
	if !a.cfg.TLS.On() {
		note := "no TLS: only this machine can connect. Before others may: petrel doctor"
		if a.cfg.Listen.InsecurePlaintext {
			note = "no TLS, as listen.insecure_plaintext says: tokens and messages cross the network in clear"
		}
		fmt.Fprintf(w, "  %s\n", note)
	}
	fmt.Fprint(w, "  Ctrl-C drains and stops\n\n")
}

func (a *App) announceJSON() {
	line := map[string]any{"ready": true, "version": a.o.Version, "data": a.cfg.Store.Dir, "pid": os.Getpid(),
		"tls": a.cfg.TLS.On()}
	if a.HTTPAddr() != nil {
		line["http"] = reachable(a.HTTPAddr())
		if a.site != nil {
			line["chat"] = a.httpURL() + "/"
		}
	}
	if a.TCPAddr() != nil {
		line["tcp"] = reachable(a.TCPAddr())
	}
	if a.admin != nil {
		line["admin"] = reachable(a.AdminAddr())
	}
	if a.SetupLink() != "" { // not the link: it would stay in a log that keeps this line
		line["setup_file"] = filepath.Join(a.cfg.Store.Dir, setupFile)
	}
	a.bannerJSON(line)
}

func (a *App) bannerJSON(line map[string]any) {
	if b, err := json.Marshal(line); err == nil {
		fmt.Fprintf(a.o.Banner, "%s\n", b)
	}
}

// farewell prints the fate of the sends that were in flight when the drain began.
func (a *App) farewell(inFlight int, err error) {
	switch {
	case a.o.Banner == nil:
		return
	case !a.o.Terminal:
		line := map[string]any{"drained": err == nil, "in_flight": inFlight}
		if err != nil {
			line["err"] = err.Error()
		}
		a.bannerJSON(line)
		return
	}
	if err != nil {
		fmt.Fprintf(a.o.Banner, "  stopped: %d messages were in flight; %v\n", inFlight, err)
		return
	}
	fmt.Fprintf(a.o.Banner, "  drained: %d messages were in flight, all stored and answered, 0 lost\n", inFlight)
}
