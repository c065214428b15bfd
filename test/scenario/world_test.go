package scenario

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// world is one run of one scenario. Only the goroutine of the test uses it.
type world struct {
	t    testing.TB
	file string
	line int
	way  way

	machine *machine
	stood   int // how often the machine had stood still when the run began

	nodes    []*imtest.Server
	guest    string         // prefix of the tenants' names, on servers that other runs use as well; "": the servers are this run's own
	turn     int            // of the nodes, for calls
	database string         // of servers of its own, that the nodes share; "": the embedded store
	drained  *imtest.Server // takes no clients; nil: none

	tenants  map[string]*tenant
	names    map[string]place // by conversation id
	directs  map[place]string // the ids of direct conversations, as far as they are known
	sessions map[string]*session
	order    []string // of sessions, as they came up
	ledger   *ledger
	lastK    int
	versions []string     // of profiles, as clients were told of them
	offers   []string     // capabilities of the hellos from now on
	http     *http.Client // of API calls
	spare    string       // folder, or database, with the copy that "backup" made
}

type tenant struct {
	name   string // in the file
	id     string // for the servers
	users  map[string]*user
	groups map[string]string // name → conversation id
}

type user struct {
	name   string
	tenant *tenant
	token  string // of the operator, bound to no device; "": the user registers
	inbox  string // conversation id; "": never logged in
	sent   []*sent
	listed map[change]bool // what the inbox must say before a sync is worth looking at
}

// change is one thing an inbox says: about conv, by its entry seq.
type change struct {
	conv string
	seq  uint64
}

// sent is a send and its fate.
type sent struct {
	by       *user
	frame    *petrelv1.Send
	named    bool // the scenario gave the id
	conv     string
	answered bool // ack or settled error
}

// noConversation is the id of no conversation: of a direct one that nobody has begun.
const noConversation = "dAAAAAAAAAAAAAAAAAAAA"

// place is what a conversation is called.
type place struct {
	tenant *tenant
	group  string // "": a direct one of a and b
	a, b   string // in order
}

// pace names lines that keep their order among themselves only: which of an
// event and an answer over HTTP comes first is chance.
type pace string

// paceOf is "" for a line of the connection's own order.
func (s *session) paceOf(line string) pace {
	word, _, _ := strings.Cut(line, " ")
	switch {
	case s.user == nil:
		return ""
	case word == "refused":
		return "ok"
	case slices.Contains(paces[1:], pace(word)):
		return pace(word)
	}
	return ""
}

// paces in the order in which -update writes them. Lines of the inbox may be
// left out of a file, the others not.
var paces = []pace{"", "ok", "receipt", "note", "hint", "signal", "presence", "inbox"}

var closeMark = regexp.MustCompile(` close=\d+`)

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s:%d: %s", w.file, w.line, fmt.Sprintf(format, args...))
}

func (w *world) tenant(name string) *tenant {
	t := w.tenants[name]
	if t == nil {
		t = &tenant{name: name, id: w.guest + name, users: map[string]*user{}, groups: map[string]string{}}
		w.tenants[name] = t
	}
	return t
}

// user finds "alice" or "alice@acme".
func (w *world) user(name string) *user {
	w.t.Helper()
	n, t, _ := strings.Cut(name, "@")
	u := w.tenant(t).users[n]
	if u == nil {
		w.fatalf("there is no user %s", name)
	}
	return u
}

// newcomer makes the user of a session that is about to register or log in.
func (w *world) newcomer(name string) {
	account, _, _ := strings.Cut(name, "/")
	n, tenantName, _ := strings.Cut(account, "@")
	if t := w.tenant(tenantName); t.users[n] == nil {
		t.users[n] = &user{name: n, tenant: t}
	}
}

// session finds or makes the session "alice", "alice@acme" or "alice/phone".
func (w *world) session(name string) *session {
	s := w.sessions[name]
	if s == nil {
		var u *user
		if name != "admin" {
			account, _, _ := strings.Cut(name, "/")
			u = w.user(account)
		}
		s = newSession(w, name, u)
		w.sessions[name] = s
		w.order = append(w.order, name)
	}
	return s
}

// learn notes the id of the direct conversation of a and b. A client cannot compute
// it; it hears of it from the server.
func (w *world) learn(t *tenant, a, b, conv string) {
	w.t.Helper()
	p := place{tenant: t, a: min(a, b), b: max(a, b)}
	if id, ok := w.directs[p]; ok && id != conv {
		w.fatalf("the direct conversation of %s and %s is %s, and was %s", a, b, conv, id)
	}
	if other, ok := w.names[conv]; ok && other != p {
		w.fatalf("%s is the conversation %v, and the direct one of %s and %s", conv, other, a, b)
	}
	w.directs[p], w.names[conv] = conv, p
}

// lookUp asks the server whose direct conversation conv is.
func (w *world) lookUp(u *user, conv string) {
	w.t.Helper()
	for _, t := range w.tenants {
		if u != nil && t != u.tenant {
			continue
		}
		r, err := w.node().Admin.ListMembers(w.deadline(), connect.NewRequest(&petrelv1.AdminListMembersRequest{Tenant: t.id, Conv: conv}))
		if err != nil || len(r.Msg.Members) == 0 {
			continue
		}
		w.learn(t, r.Msg.Members[0].User, r.Msg.Members[len(r.Msg.Members)-1].User, conv)
	}
}

// nameOf is what u calls a conversation.
func (w *world) nameOf(u *user, conv string) string {
	p, ok := w.names[conv]
	if !ok && strings.HasPrefix(conv, "d") {
		w.lookUp(u, conv)
		p, ok = w.names[conv]
	}
	switch {
	case !ok:
		return "conv:" + conv
	case p.group != "" && u != nil && p.tenant == u.tenant:
		return p.group
	case p.group != "":
		return p.group + at(p.tenant)
	case u != nil && p.tenant == u.tenant && p.a == u.name:
		return "d:" + p.b
	case u != nil && p.tenant == u.tenant && p.b == u.name:
		return "d:" + p.a
	}
	return "d:" + min(p.a, p.b) + "," + max(p.a, p.b) + at(p.tenant)
}

func at(t *tenant) string {
	if t.name == "" {
		return ""
	}
	return "@" + t.name
}

// resolve finds the conversation that u calls name, and for a direct one of u
// the peer: "g1", "g1@acme", "d:bob", "d:alice,bob@acme", "conv:ID".
func (w *world) resolve(u *user, name string) (conv, peer string) {
	w.t.Helper()
	if raw, ok := strings.CutPrefix(name, "conv:"); ok {
		return raw, ""
	}
	t := w.tenant("")
	if u != nil {
		t = u.tenant
	}
	name, tenantName, ok := strings.Cut(name, "@")
	if ok {
		t = w.tenant(tenantName)
	}
	pair, direct := strings.CutPrefix(name, "d:")
	if !direct {
		id, ok := t.groups[name]
		if !ok {
			w.fatalf("there is no group %s", name)
		}
		return id, ""
	}
	a, b, ok := strings.Cut(pair, ",")
	if !ok && u == nil {
		w.fatalf("d:%s: whose?", pair)
	}
	if !ok {
		a, b, peer = u.name, pair, pair
	}
	conv, known := w.directs[place{tenant: t, a: min(a, b), b: max(a, b)}]
	switch {
	case known:
		return conv, peer
	case peer == "":
		w.fatalf("nobody has heard of the direct conversation of %s and %s", a, b)
	}
	return noConversation, peer
}

// list notes what the inbox of a user must say.
func (u *user) list(c change) {
	if u.listed == nil {
		u.listed = map[change]bool{}
	}
	u.listed[c] = true
}

// nextK makes a client message id.
func (w *world) nextK() string {
	w.lastK++
	return fmt.Sprintf("k%d", w.lastK)
}
