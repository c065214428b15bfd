// Package flood measures what strangers and greedy users cost those who are logged in: thousands
// of connections that say nothing, say little, or say much, users who call methods all the time,
// and the time that the acks of others take meanwhile.
//
// PETREL_FLOOD_CONNECTIONS sets how many there are at once (300), PETREL_FLOOD_SECONDS how long
// each kind lasts (0.3 s). `make flood` runs them in full, and judges the times. A short run asks
// that those who are logged in are served, that others get in, and what memory the server takes.
package flood

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	defaultConnections = 300
	shortFlood         = 300 * time.Millisecond
	secondsToJudge     = 30 // of each kind: a shorter flood judges no times

	senders = 20
	every   = 100 * time.Millisecond // from one message of a sender to the next one

	comesEvery = 250 * time.Millisecond // from one login of a newcomer, or from one try, to the next

	maxMemory = 256 << 20 // bytes that a flood may add to the server's memory
)

func TestMain(m *testing.M) {
	imtest.ServeChild()
	strangerChild()
	lookChild()
	os.Exit(m.Run())
}

// defaults are the limits of a server whose operator has set none: those that imtest lifts.
var defaults = map[string]string{
	"limits.unauthenticated_per_ip":       "20",
	"limits.new_connections_per_ip_per_s": "100",
	"limits.connections_per_ip":           "10000",
	"limits.anonymous_calls_per_ip_per_s": "20",
	"limits.calls_per_s":                  "20",
	"log.level":                           "error",
}

// Strangers have one core for themselves, the server may have both, and those who are
// logged in go on. Their times without a flood are measured beside a process of strangers
// that does nothing.
func TestFloodsOfStrangersDelayNobody(t *testing.T) {
	n, seconds := number(t, "PETREL_FLOOD_CONNECTIONS", defaultConnections), number(t, "PETREL_FLOOD_SECONDS", 0)
	s := imtest.Start(t, imtest.Options{Process: true, Config: defaults})
	friends := befriend(t, s)
	cyd := s.Users("", "cyd0", "cyd1")
	var names []string
	for i := range greedy {
		names = append(names, fmt.Sprint("mal", i))
	}
	t.Setenv("PETREL_FLOOD_TOKENS", strings.Join(s.Users("", names...), ","))
	var quiet time.Duration
	for _, kind := range append([]string{""}, kinds()...) {
		t.Run(name(kind), func(t *testing.T) {
			before := rss(t, s)
			end := strangers(t, s, kind, n)
			lasts := max(shortFlood, time.Duration(seconds)*time.Second)
			var newcomers [2]*logins
			var come sync.WaitGroup
			for i, from := range []string{"127.2.0.", "127.1.0."} {
				come.Go(func() { newcomers[i] = comeIn(t, s, cyd[i], from, lasts) })
			}
			acks := friends.talk(t, s, lasts)
			come.Wait()
			said := end()
			p99 := acks.at(0.99)
			t.Logf("connections=%d acks=%d p50=%v p99=%v max=%v, in the first %d s p99=%v, later %v; rss=%d MiB (before %d) peak=%d MiB: %s", n, len(acks.times),
				acks.at(0.5), p99, acks.at(1), firstSeconds, acks.begin.at(0.99), acks.rest.at(0.99), rss(t, s)>>20, before>>20, acks.peak>>20, said)
			t.Logf("the slowest ack of each second: %v", acks.worst)
			t.Logf("newcomers of other addresses: %v; of those of the strangers: %v", newcomers[0], newcomers[1])
			if acks.peak > before+maxMemory {
				t.Errorf("the server's memory grew by %d MiB", (acks.peak-before)>>20)
			}
			if kind == "" {
				quiet = p99
			} else if seconds >= secondsToJudge && p99 > max(3*quiet, 20*time.Millisecond) {
				t.Errorf("ack p99 is %v; quiet it is %v", p99, quiet)
			}
		})
	}
}

func name(kind string) string {
	if kind == "" {
		return "quiet"
	}
	return kind
}

// friends are users who are logged in and write to others who are not.
type friends []*wiretest.Conn

func befriend(t *testing.T, s *imtest.Server) friends {
	var users, f = []string{}, friends{}
	for i := range senders {
		users = append(users, fmt.Sprintf("ann%d", i), fmt.Sprintf("ben%d", i))
	}
	for i, token := range s.Users("", users...) {
		if i%2 == 0 {
			f = append(f, s.Dial(wire.WebSocket, wire.Proto, token, "phone"))
		}
	}
	return f
}

// times is how long each of some things took.
type times []time.Duration // ascending

func (a times) at(share float64) time.Duration {
	if len(a) == 0 {
		return 0
	}
	return a[min(len(a)-1, int(share*float64(len(a))))].Round(10 * time.Microsecond)
}

// acks is how long each of them took, from when its message was due, and the most memory
// that the server had meanwhile.
type acks struct {
	times
	begin times           // of those that were due in the first firstSeconds
	rest  times           // of the others
	worst []time.Duration // of those that were due in each second
	peak  uint64
}

// firstSeconds are those in which all strangers come at once.
const firstSeconds = 5

func (a *acks) add(due, took time.Duration) {
	a.times = append(a.times, took)
	if due < firstSeconds*time.Second {
		a.begin = append(a.begin, took)
	} else {
		a.rest = append(a.rest, took)
	}
	for len(a.worst) <= int(due/time.Second) {
		a.worst = append(a.worst, 0)
	}
	w := &a.worst[due/time.Second]
	*w = max(*w, took.Round(time.Millisecond))
}

// logins are those of newcomers, and how often they tried.
type logins struct {
	times
	tries int
}

func (l *logins) String() string {
	return fmt.Sprintf("logged in %d with %d tries, p50=%v p99=%v max=%v", len(l.times), l.tries, l.at(0.5), l.at(0.99), l.at(1))
}

// comeIn has somebody log in a few times a second for d, who comes from one address after
// the other and tries again until it is done.
func comeIn(t *testing.T, s *imtest.Server, token, from string, d time.Duration) *logins {
	l, i := &logins{}, 0
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from + strconv.Itoa(1+i%addresses))}}).DialContext(ctx, network, addr)
	}
	for begin := time.Now(); time.Since(begin) < d; i++ {
		<-time.After(comesEvery)
		for tried := time.Now(); ; <-time.After(comesEvery) {
			l.tries++
			ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
			c, err := wiretest.Dial(ctx, wiretest.Options{URL: s.URL(wire.Framing(i % 2)), Codec: wire.Proto, Token: token, Device: "phone", NetDial: dial})
			cancel()
			if err == nil {
				l.times = append(l.times, time.Since(tried))
				_ = c.Close() // the server may be slower
				break
			}
			if time.Since(tried) > eventually.Limit {
				t.Errorf("a newcomer of %s… does not get in: %v", from, err)
				return l
			}
		}
	}
	slices.Sort(l.times)
	return l
}

// talk has everybody send for d.
func (f friends) talk(t *testing.T, s *imtest.Server, d time.Duration) *acks {
	var mu sync.Mutex
	a := &acks{}
	begin := time.Now()
	var all sync.WaitGroup
	for i, c := range f {
		all.Go(func() {
			first := begin.Add(time.Duration(i) * every / senders)
			for due := first; due.Before(begin.Add(d)); due = due.Add(every) {
				<-time.After(time.Until(due))
				m := &petrelv1.Send{User: fmt.Sprintf("ben%d", i), ClientMsgId: fmt.Sprintf("%d-%d", i, due.UnixNano()), Body: &petrelv1.Send_Text{Text: "hello"}}
				if _, err := c.Send(t.Context(), m); err != nil {
					t.Errorf("send: %v", err)
					return
				}
				took := time.Since(due)
				mu.Lock()
				a.add(due.Sub(begin), took)
				mu.Unlock()
			}
		})
	}
	for tick := time.Tick(500 * time.Millisecond); time.Since(begin) < d; <-tick {
		a.peak = max(a.peak, rss(t, s))
	}
	all.Wait()
	if len(a.times) == 0 {
		t.Fatal("nothing was acked")
	}
	slices.Sort(a.times)
	slices.Sort(a.begin)
	slices.Sort(a.rest)
	return a
}

func rss(t *testing.T, s *imtest.Server) uint64 { return stats(t, s).RssBytes }

func stats(t *testing.T, s *imtest.Server) *petrelv1.Stats {
	r, err := s.Admin.GetStats(t.Context(), connect.NewRequest(&petrelv1.GetStatsRequest{}))
	if err != nil {
		t.Fatalf("the operator is not answered: %v", err)
	}
	return r.Msg
}

// strangers begin their flood in a process of their own. end ends it, and tells what they did.
func strangers(t *testing.T, s *imtest.Server, kind string, n int) (end func() string) {
	u, err := url.Parse(s.URL(wire.WebSocket))
	if err != nil {
		t.Fatal(err)
	}
	v, err := url.Parse(s.URL(wire.TCP))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "taskset", "-c", "1", os.Args[0])
	cmd.Env = append(os.Environ(), strangerEnv+"="+kind, "PETREL_FLOOD_HTTP="+u.Host, "PETREL_FLOOD_TCP="+v.Host, "PETREL_FLOOD_CONNECTIONS="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out := &stringWriter{first: make(chan struct{})}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the strangers: %v", err)
	}
	<-out.first
	return func() string {
		defer cancel()
		_ = in.Close() // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: the strangers ended with: %v", name(kind), err)
		}
		return out.String()
	}
}

func number(t testing.TB, env string, otherwise int) int {
	v := os.Getenv(env)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s=%s: %v", env, v, err)
	}
	return n
}
