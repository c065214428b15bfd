package proxy

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

const page = "../../docs/guide/proxies.md"

// recipe is the file in the page whose block has the language lang.
func recipe(t *testing.T, lang string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n```"+lang+"\n")
	block, _, closed := strings.Cut(after, "\n```\n")
	if !found || !closed {
		t.Fatalf("%s has no block of %s", page, lang)
	}
	return block + "\n"
}

// place gives a recipe the addresses and paths of a test: pairs of what the page has and what
// stands for it here.
func place(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the recipe has no %q:\n%s", pairs[i], text)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// site is where the proxy of a test is, and what is behind it.
type site struct {
	dir         string
	petrel      string // host:port of listen.http
	https, http string // host:port of the proxy
	control     string // host:port at which Caddy takes another configuration
	user        string // who runs the test
	// nodes are host:port of listen.http of the three nodes of a cluster; nil: petrel is alone.
	nodes []string
}

// kind is one of the proxies of the page.
type kind struct {
	name, lang string
	place      func(t *testing.T, text string, s *site) string
	one        *regexp.Regexp // part of the recipe in whose place the block for several nodes stands
	start      func(s *site, file string) []string
	check      func(s *site, file string) []string
	// silence finds the time for which a connection may be silent; nil: there is no limit.
	silence *regexp.Regexp
	// reload is the command that has the proxy read its file again; nil: the signal does it.
	reload func(s *site, file string) []string
	polls  bool // it learns of a node that is going away by /readyz alone
	signal os.Signal
}

var kinds = []kind{
	{
		name: "nginx", lang: "nginx", one: regexp.MustCompile(`(?s)    upstream petrel \{.*?upstream petrel_grpc \{.*?\n    \}\n`),
		place: func(t *testing.T, text string, s *site) string {
			return place(t, text,
				"user www-data;", "user "+s.user+";", "/run/nginx.pid", filepath.Join(s.dir, "pid"), "/var/log/nginx/", s.dir+"/",
				"http {\n", "http {\n    client_body_temp_path "+s.dir+"/body;\n    proxy_temp_path "+s.dir+"/answers;\n",
				"127.0.0.1:8080", s.petrel, "listen 443 ", "listen "+s.https+" ", "listen 80;", "listen "+s.http+";",
				"/etc/ssl/chat/fullchain.pem", filepath.Join(s.dir, "cert.pem"), "/etc/ssl/chat/privkey.pem", filepath.Join(s.dir, "key.pem"))
		},
		start: func(s *site, file string) []string {
			return []string{"nginx", "-e", filepath.Join(s.dir, "error.log"), "-p", s.dir, "-c", file, "-g", "daemon off;"}
		},
		check: func(s *site, file string) []string {
			return []string{"nginx", "-t", "-e", filepath.Join(s.dir, "error.log"), "-p", s.dir, "-c", file}
		},
		silence: regexp.MustCompile(`proxy_(?:read|send)_timeout (\w+);`),
		signal:  syscall.SIGHUP,
	},
	{
		name: "haproxy", lang: "haproxy", one: regexp.MustCompile(`(?ms)^backend petrel\n.*`),
		place: func(t *testing.T, text string, s *site) string {
			return place(t, text,
				"log /dev/log local0", "log stderr format raw local0", "    user haproxy\n    group haproxy\n", "",
				"127.0.0.1:8080", s.petrel, "bind :80\n", "bind "+s.http+"\n", "bind :443 ", "bind "+s.https+" ",
				"/etc/haproxy/chat.pem", filepath.Join(s.dir, "chat.pem"))
		},
		start:   func(_ *site, file string) []string { return []string{"haproxy", "-W", "-f", file} },
		check:   func(_ *site, file string) []string { return []string{"haproxy", "-c", "-f", file} },
		silence: regexp.MustCompile(`timeout tunnel (\w+)`),
		signal:  syscall.SIGUSR2,
	},
	{
		name: "caddy", lang: "caddy", one: regexp.MustCompile(`(?s)\t@grpc .*?\n\t\}\n`), polls: true,
		place: func(t *testing.T, text string, s *site) string {
			port := func(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }
			return place(t, text,
				"admin 127.0.0.1:2019\n", "admin "+s.control+"\n\thttp_port "+port(s.http)+"\n\thttps_port "+port(s.https)+"\n",
				"chat.example.org {\n", "chat.example.org {\n\tbind 127.0.0.1\n", "127.0.0.1:8080", s.petrel,
				"/etc/caddy/chat.pem", filepath.Join(s.dir, "cert.pem"), "/etc/caddy/chat.key", filepath.Join(s.dir, "key.pem"))
		},
		start: func(_ *site, file string) []string {
			return []string{"caddy", "run", "--adapter", "caddyfile", "--config", file}
		},
		check: func(_ *site, file string) []string {
			return []string{"caddy", "validate", "--adapter", "caddyfile", "--config", file}
		},
		reload: func(s *site, file string) []string {
			return []string{"caddy", "reload", "--adapter", "caddyfile", "--config", file, "--address", s.control}
		},
	},
}

// file is the recipe as it stands on s.
func (k *kind) file(t *testing.T, s *site) string {
	t.Helper()
	text := k.place(t, recipe(t, k.lang), s)
	if s.nodes == nil {
		return text
	}
	block := place(t, recipe(t, k.lang+" nodes"), "10.0.0.1:8080", s.nodes[0], "10.0.0.2:8080", s.nodes[1], "10.0.0.3:8080", s.nodes[2])
	if len(k.one.FindAllStringIndex(text, -1)) != 1 {
		t.Fatalf("the recipe of %s has no place for several nodes: %v", k.name, k.one)
	}
	return k.one.ReplaceAllLiteralString(text, block)
}

// program is a proxy that runs. It ends with the test.
type program struct {
	t    *testing.T
	kind *kind
	site *site
	file string
	cmd  *exec.Cmd // nil: it does not run
	end  chan error
	log  string // path of what it says
}

// command is one of the programs of the proxy, with its own folder as its home.
func (p *program) command(args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = p.site.dir
	cmd.Env = append(os.Environ(), "HOME="+p.site.dir, "XDG_CONFIG_HOME="+p.site.dir, "XDG_DATA_HOME="+p.site.dir)
	return cmd
}

// say runs a command of the proxy to its end.
func (p *program) say(args []string) {
	p.t.Helper()
	if out, err := p.command(args).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (p *program) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the proxy has its own
	cmd := p.command(p.kind.start(p.site, p.file))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd, p.end = cmd, make(chan error, 1)
	go func() { p.end <- cmd.Wait() }()
}

// stop ends the proxy and all connections through it.
func (p *program) stop() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	eventually.Receive(p.t, "the end of "+p.kind.name, p.end)
	p.cmd = nil
}

// rewrite changes the file of the proxy, and has it read again.
func (p *program) rewrite(before, after string) {
	p.t.Helper()
	text, err := os.ReadFile(p.file)
	if err == nil {
		err = os.WriteFile(p.file, []byte(place(p.t, string(text), before, after)), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if p.kind.reload != nil {
		p.say(p.kind.reload(p.site, p.file))
		return
	}
	if err := p.cmd.Process.Signal(p.kind.signal); err != nil {
		p.t.Fatal(err)
	}
}

// run starts the proxy of a recipe.
func run(t *testing.T, k *kind, s *site) *program {
	t.Helper()
	if _, err := exec.LookPath(k.name); err != nil {
		t.Fatalf("%s is missing; run `make test`, or install it: %v", k.name, err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s.user = me.Username
	p := &program{t: t, kind: k, site: s, file: filepath.Join(s.dir, "config"), log: filepath.Join(s.dir, "log")}
	if err := os.WriteFile(p.file, []byte(k.file(t, s)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.say(k.check(s, p.file))
	p.start()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			for _, name := range []string{"log", "error.log"} {
				text, _ := os.ReadFile(filepath.Join(s.dir, name)) // nginx alone has both
				t.Logf("%s of %s:\n%s", name, k.name, text)
			}
		}
	})
	return p
}

// A client that is silent is pinged before the proxy cuts it off, and the server gives a dead
// link up before the proxy does.
func TestTimeLimitsOfProxiesAreAboveThePings(t *testing.T) {
	conf, err := config.Load(config.Source{})
	if err != nil {
		t.Fatal(err)
	}
	dead := conf.Heartbeat.Silence * time.Duration(conf.Heartbeat.Misses+1)
	for _, k := range kinds {
		if k.silence == nil {
			continue
		}
		found := k.silence.FindAllStringSubmatch(recipe(t, k.lang), -1)
		if len(found) == 0 {
			t.Errorf("%s: the recipe has no %v", k.name, k.silence)
		}
		for _, f := range found {
			if d, err := time.ParseDuration(f[1]); err != nil || d <= dead {
				t.Errorf("%s: %q is not above %v (%v)", k.name, f[0], dead, err)
			}
		}
	}
}
