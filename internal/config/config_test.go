package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "petrel.toml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNothingSetGivesTheDefaults(t *testing.T) {
	c, err := Load(Source{Search: []string{filepath.Join(t.TempDir(), "none.toml")}})
	if err != nil {
		t.Fatalf("Load of nothing: %v", err)
	}
	if diff := cmp.Diff(Default(), c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("not the defaults (-want +got):\n%s", diff)
	}
	if c.Limits.BodyBytes != 48<<10 || c.Limits.HelloTimeout != 10*time.Second || !c.Metrics.Enabled || c.Listen.HTTP != "127.0.0.1:8080" {
		t.Errorf("defaults: got %+v", c)
	}
	for _, v := range c.Values() {
		if v.Origin != "default" || v.Value != v.Default {
			t.Errorf("%s: got %q from %s, want %q from default", v.Name, v.Value, v.Origin, v.Default)
		}
	}
}

func TestLaterLayersWin(t *testing.T) {
	file := writeFile(t, "[heartbeat]\nmisses = 3\nsilence = \"5s\"\n[limits]\nsend_burst = 7 # per session\n")
	c, err := Load(Source{
		File:  file,
		Env:   []string{"PETREL_HEARTBEAT__SILENCE=6s", "PETREL_LIMITS__SEND_BURST=8", "PETREL_CUTS=1", "HOME=/"},
		Flags: map[string]string{"limits.send_burst": "9", "store.dir": "d"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"heartbeat.misses":   {"3", file + ":2"},
		"heartbeat.silence":  {"6s", "env PETREL_HEARTBEAT__SILENCE"},
		"limits.send_burst":  {"9", "flag --limits-send-burst"},
		"store.dir":          {"d", "flag --data"},
		"limits.sends_per_s": {"10", "default"},
	}
	for _, v := range c.Values() {
		if w, ok := want[v.Name]; ok && w != [2]string{v.Value, v.Origin} {
			t.Errorf("%s: got %q from %q, want %q from %q", v.Name, v.Value, v.Origin, w[0], w[1])
		}
	}
	if c.Heartbeat.Silence != 6*time.Second || c.Limits.SendBurst != 9 {
		t.Errorf("got silence %v and burst %d, want 6s and 9", c.Heartbeat.Silence, c.Limits.SendBurst)
	}
}

func TestTheFirstFileThatExistsIsRead(t *testing.T) {
	first, second := writeFile(t, "[heartbeat]\nmisses = 5"), writeFile(t, "[heartbeat]\nmisses = 6\n[limits]\nsend_burst = 6")
	c, err := Load(Source{Search: []string{filepath.Join(t.TempDir(), "none"), first, second}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Heartbeat.Misses != 5 || c.Limits.SendBurst != 40 {
		t.Errorf("got misses %d and burst %d, want 5 of the first file and the default 40", c.Heartbeat.Misses, c.Limits.SendBurst)
	}
}

func TestProblemsNameWhereWhatAndWhatIsAllowed(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		env        []string
		flags      map[string]string
		want       []string // parts of the error
	}{
		{name: "unknown key", file: "[limits]\n\nsend_brust = 3", want: []string{":3: unknown option limits.send_brust", "did you mean limits.send_burst?"}},
		{name: "unknown section", file: "[listne]\nhttp = \"\"", want: []string{":2: unknown option listne.http", "did you mean listen.http?"}},
		{name: "key of another section", file: "[server]\ncert_file = \"x\"", want: []string{"unknown option server.cert_file", "did you mean tls.cert_file?"}},
		{name: "nothing like it", file: "colour = \"red\"", want: []string{":1: unknown option colour", "petrel config default"}},
		{name: "inline table", file: "log = {level = \"loud\", colour = true}", want: []string{":1: log.level = loud", "debug, info, warn, error", "unknown option log.colour"}},
		{name: "table in a table", file: "[limits.body]\nx = 1", want: []string{":2: unknown option limits.body.x"}},
		{name: "unknown variable", env: []string{"PETREL_LIMITS__SENDBURST=1"}, want: []string{"env PETREL_LIMITS__SENDBURST", "did you mean PETREL_LIMITS__SEND_BURST?"}},
		{name: "one underscore", env: []string{"PETREL_LISTEN_HTTP=:1"}, want: []string{"env PETREL_LISTEN_HTTP", "did you mean PETREL_LISTEN__HTTP?"}},
		{name: "not TOML", file: "[limits\n", want: []string{"petrel.toml:1:", "write TOML"}},
		{name: "key twice", file: "[log]\nlevel = \"info\"\nlevel = \"warn\"", want: []string{"petrel.toml:3:"}},
		{name: "table array", file: "[[log]]\nlevel = \"loud\"", want: []string{"log.level = loud"}},
		{name: "size without unit that is known", file: "[limits]\nbody = \"64kb\"", want: []string{"limits.body = 64kb", "64KiB"}},
		{name: "size out of range", file: "[limits]\nbody = \"64GiB\"", want: []string{"limits.body = 64GiB: it is out of range; allowed: a size from 1B to 128KiB"}},
		{name: "duration as a number", file: "[heartbeat]\nsilence = 30", want: []string{"heartbeat.silence = 30: it is not a time with its unit"}},
		{name: "duration out of range", flags: map[string]string{"heartbeat.silence": "5h"}, want: []string{"flag --heartbeat-silence: heartbeat.silence = 5h: it is out of range; allowed: a time from 1s to 1h"}},
		{name: "number in quotes", file: "[heartbeat]\nmisses = \"3\"", want: []string{"a number without quotes"}},
		{name: "a fraction", file: "[heartbeat]\nmisses = 1.5", want: []string{"heartbeat.misses = 1.5"}},
		{name: "list of numbers", file: "[listen]\norigins = [1]", want: []string{"listen.origins", "a list of texts"}},
		{name: "proxy that is no address", file: "[listen]\ntrusted_proxies = [\"10.0.0.0/8\", \"lb.example\"]", want: []string{"petrel.toml:2: listen.trusted_proxies", "\"lb.example\" is neither an address nor a network"}},
		{name: "proxy with bits too many", flags: map[string]string{"listen.trusted_proxies": "10.1.0.0/8"}, want: []string{"the network is 10.0.0.0/8"}},
		{name: "everybody as proxy", file: "[listen]\ntrusted_proxies = [\"0.0.0.0/0\"]", want: []string{"\"0.0.0.0/0\" is everybody"}},
		{name: "IPv4 network as IPv6", file: "[listen]\ntrusted_proxies = [\"::ffff:10.0.0.0/104\"]", want: []string{"write it as one"}},
		{name: "bus in clear", file: "[cluster]\nlisten = \"10.0.0.1:7070\"\nsecret = \"a secret of the nodes\"", want: []string{"petrel.toml:2: cluster.listen = 10.0.0.1:7070", "would cross the network in clear", "cluster.insecure = true"}},
		{name: "header of proxies", file: "[listen]\nproxy_header = \"X-Real-IP\"", want: []string{"listen.proxy_header = X-Real-IP", "X-Forwarded-For, Forwarded"}},
		{name: "page that may frame, with more", file: "[web]\nframe_ancestors = [\"https://a.example; script-src *\"]", want: []string{"web.frame_ancestors", "it is not the origin of a page"}},
		{name: "name with a scheme", file: "[listen]\nhosts = [\"https://chat.example.org\"]", want: []string{"petrel.toml:2: listen.hosts = https://chat.example.org", "without scheme and port"}},
		{name: "name with a port", flags: map[string]string{"listen.hosts": "chat.example.org:8443"}, want: []string{"listen.hosts = chat.example.org:8443", "without scheme and port"}},
		{name: "name with a star within", flags: map[string]string{"listen.hosts": "chat*.example.org"}, want: []string{"listen.hosts", "without scheme and port"}},
		{name: "origin without a scheme", file: "[listen]\norigins = [\"shop.example.org\"]", want: []string{"petrel.toml:2: listen.origins = shop.example.org", "no browser would send it", "https://host"}},
		{name: "origin with a path", file: "[listen]\norigins = [\"https://shop.example.org/\"]", want: []string{"listen.origins", "no browser would send it"}},
		{name: "origins with a star", file: "[listen]\norigins = [\"https://*.example.org\"]", want: []string{"listen.origins", "no browser would send it"}},
		{name: "origin with the default port", file: "[listen]\norigins = [\"https://shop.example.org:443\"]", want: []string{"listen.origins", "browsers leave out the port"}},
		{name: "list where a text belongs", file: "[store]\ndir = [\"a\"]", want: []string{"store.dir = a: it is not a text in quotes"}},
		{name: "bool in quotes", file: "[metrics]\nenabled = \"true\"", want: []string{"true or false without quotes"}},
		{name: "text without quotes", file: "[store]\ndir = 3", want: []string{"a text in quotes"}},
		{name: "zero that would let nobody in", file: "[limits]\nconnections_per_ip = 0", want: []string{"0 would refuse everything", "-1 for no limit"}},
		{name: "address", file: "[listen]\nhttp = \"8080\"", want: []string{"listen.http = 8080: it is not host:port"}},
		{name: "port", file: "[listen]\nhttp = \"127.0.0.1:80800\"", want: []string{"up to 65535"}},
		{name: "body larger than window", file: "[limits]\nwindow_bytes = \"48KiB\"", want: []string{"petrel.toml:2: limits.window_bytes = 48KiB", "(limits.body, from default)", "at least 49KiB"}},
		{name: "outbox smaller than two frames", file: "[limits]\noutbox = \"64KiB\"", want: []string{"limits.outbox = 64KiB", "at least 98KiB"}},
		{name: "certificate without key", file: "[tls]\ncert_file = \"c.pem\"", want: []string{"petrel.toml:2: tls.cert_file: tls.key_file is not set"}},
		{name: "identity provider without audience", file: "[jwt]\nkey_file = \"k.pem\"\nissuer = \"i\"", want: []string{"petrel.toml:2: jwt.key_file = k.pem: jwt.audience is not set", "set jwt.audience"}},
		{name: "identity provider without a key", file: "[jwt]\nissuer = \"i\"", want: []string{"petrel.toml:2: jwt.issuer = i: jwt.key_file is not set"}},
		{name: "algorithm none", file: "[jwt]\nalgorithm = \"none\"", want: []string{"jwt.algorithm = none", "EdDSA, ES256, RS256, HS256"}},
		{name: "tokens that never end", file: "[accounts]\naccess_ttl = \"10000h\"", want: []string{"accounts.access_ttl = 10000h: it is out of range"}},
		{name: "public without TLS", file: "[listen]\nhttp = \":8080\"", want: []string{"petrel.toml:2: listen.http = :8080", "insecure_plaintext = true"}},
		{name: "public TCP without TLS", flags: map[string]string{"listen.tcp": "192.0.2.1:8081"}, want: []string{"listen.tcp = 192.0.2.1:8081"}},
		{name: "nowhere to connect", file: "[listen]\nhttp = \"\"\ntcp = \"\"", want: []string{"nobody could connect"}},
		{name: "database that is no URL", file: "[store]\npostgres = [\"10.0.0.10/chat\"]", want: []string{"petrel.toml:2: store.postgres = (hidden)", "does not begin with its scheme"}},
		{name: "short secret", file: "[metrics]\ntoken = \"hunter2\"", want: []string{"metrics.token = (hidden): it has 7 characters"}},
		{name: "missing secret file", file: "[metrics]\ntoken_file = \"nowhere\"", want: []string{"metrics.token_file = nowhere", "no such file"}},
		{name: "empty secret file", env: []string{"PETREL_METRICS__TOKEN_FILE=" + writeFile(t, "\n")}, want: []string{"metrics.token", "the file is empty", "leave metrics.token_file out"}},
		{name: "FIFO as a secret file", env: []string{"PETREL_METRICS__TOKEN_FILE=" + fifo(t)}, want: []string{"metrics.token_file", "no regular file"}},
		{name: "secret and its file", file: "[metrics]\ntoken = \"0123456789abcdef\"\ntoken_file = \"x\"", want: []string{":3: metrics.token_file: metrics.token is set by", ":2 already"}},
		{name: "file of what is no secret", file: "[store]\ndir_file = \"x\"", want: []string{"unknown option store.dir_file"}},
		{name: "two at once", file: "[a]\nb=1\n[c]\nd=2", want: []string{":2: unknown option a.b", ":4: unknown option c.d"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(Source{File: writeFile(t, tc.file), Env: tc.env, Flags: tc.flags})
			if err == nil {
				t.Fatalf("Load took %q %q %q, want an error", tc.file, tc.env, tc.flags)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error shows a secret: %q", err)
			}
		})
	}
}

// fifo is a FIFO that nobody writes into.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestNamedFileMustExist(t *testing.T) {
	_, err := Load(Source{File: filepath.Join(t.TempDir(), "none.toml")})
	if err == nil || !strings.Contains(err.Error(), "none.toml") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestPublicAddressesNeedTLSOrAWord(t *testing.T) {
	for _, tc := range []struct {
		content string
		ok      bool
	}{
		{"[listen]\nhttp = \"0.0.0.0:80\"", false},
		{"[listen]\nhttp = \"chat.example:80\"", false},
		{"[listen]\nhttp = \"0.0.0.0:80\"\ninsecure_plaintext = true", true},
		{"[listen]\nhttp = \"0.0.0.0:443\"\n[tls]\ncert_file = \"c\"\nkey_file = \"k\"", true},
		{"[listen]\nhttp = \"[::1]:80\"\ntcp = \"localhost:81\"", true},
		{"[listen]\nhttp = \"127.0.0.9:0\"\ntcp = \"\"", true},
	} {
		if _, err := Load(Source{File: writeFile(t, tc.content)}); (err == nil) != tc.ok {
			t.Errorf("Load %q: got %v, want accepted %t", tc.content, err, tc.ok)
		}
	}
}

func TestSecretsComeFromFilesAndAreNotShown(t *testing.T) {
	const token = "0123456789abcdef"
	held := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(held, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Source{File: writeFile(t, ""), Env: []string{"PETREL_METRICS__TOKEN_FILE=" + held}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Metrics.Token != token {
		t.Errorf("token: got %q, want %q", c.Metrics.Token, token)
	}
	for _, v := range c.Values() {
		if strings.Contains(v.Value, token) {
			t.Errorf("%s shows the secret", v.Name)
		}
		if v.Name == "metrics.token" && v.Origin != "env PETREL_METRICS__TOKEN_FILE "+held {
			t.Errorf("origin of the secret: got %q", v.Origin)
		}
	}
}

func TestDefaultFileIsTheDefaultsAndEveryLineOfItIsAccepted(t *testing.T) {
	var b bytes.Buffer
	if err := WriteDefault(&b); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Source{File: writeFile(t, b.String())})
	if err != nil {
		t.Fatalf("the default file: %v", err)
	}
	if diff := cmp.Diff(Default(), c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("commented out (-want +got):\n%s", diff)
	}
	var set strings.Builder // every option uncommented
	options := 0
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "_file = \"\" #") { // of a secret: instead of the line above
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# "); ok && strings.Contains(rest, " = ") && !strings.Contains(rest, ". ") {
			line = rest
			options++
		}
		set.WriteString(line)
	}
	c, err = Load(Source{File: writeFile(t, set.String())})
	if err != nil {
		t.Fatalf("every option of the default file: %v", err)
	}
	if diff := cmp.Diff(Default(), c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("uncommented (-want +got):\n%s", diff)
	}
	if want := len(Options()); options != want {
		t.Errorf("the default file has %d options, the table %d", options, want)
	}
}

func TestEveryOptionIsWholeAndInADocumentedSection(t *testing.T) {
	c := &Config{}
	seen := map[string]bool{}
	for _, o := range options(c) {
		section, key, ok := strings.Cut(o.name, ".")
		if !ok || key == "" || sectionDocs[section] == "" {
			t.Errorf("%s: its section has no explanation", o.name)
		}
		if seen[o.name] {
			t.Errorf("%s is there twice", o.name)
		}
		seen[o.name] = true
		if !strings.HasSuffix(o.doc, ".") || o.allowed == "" {
			t.Errorf("%s: doc %q, allowed %q: want a sentence and what is allowed", o.name, o.doc, o.allowed)
		}
		if err := o.set(raw{text: o.def}); err != nil {
			t.Errorf("%s: its own default %q is refused: %v", o.name, o.def, err)
		}
		if o.get() != o.def {
			t.Errorf("%s: got %q, want the default %q", o.name, o.get(), o.def)
		}
	}
}

// Every list is written in one way: as an array in the file, and in every place
// as one text with commas. No list takes blanks instead.
func TestListsAreReadFromEveryLayer(t *testing.T) {
	for _, tc := range []struct {
		option string
		want   []string
		secret bool
		get    func(*Config) []string
	}{
		{"listen.origins", []string{"https://a.example", "https://b.example"}, false, func(c *Config) []string { return c.Listen.Origins }},
		{"listen.origins", []string{"*", "null", "http://localhost:3000", "capacitor://localhost", "HTTPS://A.example:8443"}, false, func(c *Config) []string { return c.Listen.Origins }},
		{"listen.hosts", []string{"*", "*.example.org", "Chat.example.org", "192.0.2.7", "2001:db8::7"}, false, func(c *Config) []string { return c.Listen.Hosts }},
		{"web.frame_ancestors", []string{"https://a.example", "http://b.example:8080"}, false, func(c *Config) []string { return c.Web.FrameAncestors }},
		{"cluster.roles", []string{"gateway", "api"}, false, func(c *Config) []string { return c.Cluster.Roles }},
		{"cluster.addresses", []string{"wss://a.example", "tls://a.example:8081"}, false, func(c *Config) []string { return c.Cluster.Addresses }},
		{"cluster.join", []string{"10.0.0.1:7070", "[2001:db8::1]:7070"}, false, func(c *Config) []string { return c.Cluster.Join }},
		{"cluster.nats", []string{"nats://u:p@a.example:4222", "tls://b.example"}, true, func(c *Config) []string { return c.Cluster.NATS }},
		// The comma between two hosts of one database begins no new URL.
		{"store.postgres", []string{"postgres://u:p@a.example:1,b.example:2/chat?sslmode=disable", "postgresql://u@[::1]/more", "postgres://c.example/chat"}, true,
			func(c *Config) []string { return c.Store.Postgres }},
	} {
		section, key, _ := strings.Cut(tc.option, ".")
		quoted := `"` + strings.Join(tc.want, "\", # one\n\"") + `",`
		line, spaced := strings.Join(tc.want, ","), strings.Join(tc.want, ",\n ")
		sources := []Source{
			{File: writeFile(t, "["+section+"]\n"+key+" = [\n"+quoted+"\n]")},
			{File: writeFile(t, "["+section+"]\n"+key+" = \""+line+"\"")},
			{File: writeFile(t, "["+section+"]\n"+key+" = [\"x://y\"]"), Env: []string{envName(tc.option) + "=" + line}},
			{Env: []string{envName(tc.option) + "=" + strings.Join(tc.want, " , ")}},
			{Env: []string{envName(tc.option) + "=" + formatList(tc.want)}},
		}
		if tc.secret {
			sources = append(sources, Source{Env: []string{envName(tc.option) + "_FILE=" + writeFile(t, spaced+"\n")}},
				Source{Flags: map[string]string{tc.option + "_file": writeFile(t, line)}})
		} else {
			sources = append(sources, Source{Flags: map[string]string{tc.option: line}})
		}
		for _, s := range sources {
			c, err := Load(s)
			if err != nil {
				t.Errorf("%s: %+v: %v", tc.option, s, err)
				continue
			}
			if diff := cmp.Diff(tc.want, tc.get(c)); diff != "" {
				t.Errorf("%s: %+v (-want +got):\n%s", tc.option, s, diff)
			}
		}
		if tc.secret {
			_, err := Load(Source{Env: []string{envName(tc.option) + "=" + strings.Join(tc.want, " ")}})
			if err == nil || !strings.Contains(err.Error(), "write a comma between two URLs") || strings.Contains(err.Error(), ".example") {
				t.Errorf("%s with blanks: got error %v, want one that asks for commas and shows no URL", tc.option, err)
			}
		}
	}
}

// --help must be readable: of a secret the flag names a file, and the text says
// what that file holds.
func TestFlagTextsAreSentences(t *testing.T) {
	for _, v := range Options() {
		if strings.HasSuffix(v.Flag, ".") || len(v.Flag) < 10 {
			t.Errorf("%s: its flag says %q", v.Name, v.Flag)
		}
		if v.Secret && !strings.HasPrefix(v.Flag, "File with the ") {
			t.Errorf("%s: its flag says %q, want what the file holds", v.Name, v.Flag)
		}
		if strings.Contains(v.Doc, "with blanks") || strings.Contains(v.Allowed, "blank") {
			t.Errorf("%s is a list with blanks: %q, %q", v.Name, v.Doc, v.Allowed)
		}
	}
}

func TestProxiesAreNetworks(t *testing.T) {
	c, err := Load(Source{Env: []string{"PETREL_LISTEN__TRUSTED_PROXIES=10.0.0.0/8, 192.0.2.7,2001:db8::/32,::ffff:192.0.2.8"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range c.Listen.TrustedProxies {
		got = append(got, p.String())
	}
	if diff := cmp.Diff([]string{"10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32", "192.0.2.8/32"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSizesReadBackWhatTheyWrite(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "512": 512, "512B": 512, "64KiB": 64 << 10, "1 MiB": 1 << 20, "3GiB": 3 << 30, "1_000": 1000} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
		if back, err := ParseSize(FormatSize(want)); err != nil || back != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", FormatSize(want), back, err, want)
		}
	}
	for _, text := range []string{"", "KiB", "-1KiB", "64KB", "64kib", "1.5MiB", "9999999PiB", "4611686018427387904", "1KiBKiB"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, n)
		}
	}
}

func FuzzLoadNeverPanics(f *testing.F) {
	f.Add("[limits]\nframe = \"64KiB\"\n")
	f.Add("a.b.c = {d = [1, 2]}\n[[x]]\n")
	f.Fuzz(func(t *testing.T, content string) {
		entries, problem := parseFile("f", []byte(content))
		if problem == nil {
			l := loader{c: Default()}
			l.options = options(l.c)
			l.at = map[string]Origin{}
			for _, e := range entries {
				if strings.HasSuffix(e.key, "_file") {
					continue // names a file
				}
				l.set(e.key, e.value, e.origin)
			}
			l.c.check()
		}
	})
}
