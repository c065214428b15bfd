package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The environment of BenchmarkOthersOfAServer.
const (
	othersServer = "PETREL_OTHERS"      // the executable of the server
	othersSyncs  = "PETREL_OTHERS_SYNC" // set by the benchmark, for the process of the greedy: an address, and tokens, with spaces between them
)

// BenchmarkOthersOfAServer measures how long a hello and an ack take with a server process: first while nobody
// else does anything, then while ten users with 10,000 conversations each sync from the beginning without pause,
// on two connections each. A process of its own makes those syncs, so that they take no CPU from the process that
// measures. Pin the generators to one core; the server is not pinned with them:
//
//	go build -o build/petrel ./cmd/petrel && go test -c -o build/bench.test ./bench
//	PETREL_OTHERS=build/petrel taskset -c 1 build/bench.test -test.run none -test.bench OthersOfAServer -test.benchtime 1x
func BenchmarkOthersOfAServer(b *testing.B) {
	if addr, tokens, ok := strings.Cut(os.Getenv(othersSyncs), " "); ok {
		syncWithoutPause(b, addr, strings.Fields(tokens))
		return
	}
	executable, err := filepath.Abs(os.Getenv(othersServer))
	if err != nil || os.Getenv(othersServer) == "" {
		b.Fatalf("set %s to the executable of a server: %v", othersServer, err)
	}
	const users, lists = 10, 10_000
	addr, tokens := serveLists(b, executable, users, lists)
	others := tokens[users:]
	ping := join(b, addr, others[0])
	for _, load := range []string{"quiet", "sync"} {
		b.Run(load, func(b *testing.B) {
			if load == "sync" {
				syncElsewhere(b, addr, tokens[:users])
			}
			var hellos, acks []time.Duration
			for i := 0; b.Loop(); i++ {
				end := time.Now().Add(time.Minute)
				for n := 0; n < 1000 && time.Now().Before(end); n++ {
					hellos = append(hellos, hello(b, addr, others[2]))
					begin := time.Now()
					must(b, ping, &petrelv1.ClientFrame{Id: uint64(n + 100), Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{
						User: "others-11", ClientMsgId: fmt.Sprint(load, "-", i, "-", n), Type: "text", Body: &petrelv1.Send_Text{Text: "hi"}}}})
					acks = append(acks, time.Since(begin))
					<-time.After(5 * time.Millisecond)
				}
			}
			for what, all := range map[string][]time.Duration{"hello": hellos, "ack": acks} {
				slices.Sort(all)
				b.ReportMetric(all[len(all)/2].Seconds()*1e3, what+"-p50-ms")
				b.ReportMetric(all[len(all)*99/100].Seconds()*1e3, what+"-p99-ms")
			}
		})
	}
}

// serveLists starts a server, which may use all cores. It makes users with lists of conversations, and three more.
func serveLists(b *testing.B, executable string, users, lists int) (addr string, tokens []string) {
	dir := b.TempDir()
	free := dir + "/petrel"
	script := fmt.Sprintf("#!/bin/sh\nexec taskset -c 0-1023 '%s' \"$@\"\n", executable)
	if err := os.WriteFile(free, []byte(script), 0o700); err != nil {
		b.Fatal(err)
	}
	c, err := startChild(b.Context(), free, dir, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.stop)
	code, err := c.setupCode(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	key, err := redeem(b.Context(), "http://"+c.Admin, code)
	if err != nil {
		b.Fatal(err)
	}
	op := newOperator(system(), "http://"+c.Admin, key)
	b.Cleanup(op.close)
	p := DefaultParams(Direct)
	if _, _, err := op.raise(b.Context(), p.needs()); err != nil {
		b.Fatal(err)
	}
	var names []string
	for i := range users + 3 {
		names = append(names, fmt.Sprint("others-", i))
	}
	if tokens, err = op.createUsers(b.Context(), names); err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(lists); i = next.Add(1) {
				if _, err := op.createGroup(b.Context(), fmt.Sprint("list ", i), names[:users]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return c.HTTP, tokens
}

// syncElsewhere runs syncWithoutPause in a process of its own until the benchmark ends. It returns when all of
// its connections sync.
func syncElsewhere(b *testing.B, addr string, tokens []string) {
	ctx, stop := context.WithCancel(b.Context())
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "none", "-test.bench", "^BenchmarkOthersOfAServer$", "-test.benchtime", "1x")
	cmd.Env = append(os.Environ(), othersSyncs+"="+addr+" "+strings.Join(tokens, " "))
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
	})
	var said []byte
	for buf := make([]byte, 256); !strings.Contains(string(said), syncing); {
		n, err := out.Read(buf)
		if said = append(said, buf[:n]...); err != nil {
			b.Fatalf("the greedy have ended: %v: %s", err, said)
		}
	}
}

// syncing is the line that syncWithoutPause prints when each connection has its first page.
const syncing = "all of them sync"

// syncWithoutPause syncs all lists without pause, on two connections of each user.
func syncWithoutPause(b *testing.B, addr string, tokens []string) {
	ctx, stop := context.WithTimeout(b.Context(), 3*time.Minute) // also if nobody ends it
	defer stop()
	var began, wg sync.WaitGroup
	for _, token := range append(slices.Clone(tokens), tokens...) {
		began.Add(1)
		wg.Go(func() {
			c := join(b, addr, token)
			began.Done()
			var place []byte
			for ctx.Err() == nil && !b.Failed() {
				page := must(b, c, &petrelv1.ClientFrame{Id: 7, Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Token: place}}}).GetSync()
				if place = page.GetToken(); !page.GetMore() {
					place = nil
				}
			}
		})
	}
	began.Wait()
	fmt.Println(syncing)
	wg.Wait()
}

// join makes a connection that is welcomed.
func join(t testing.TB, addr, token string) *talk {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &talk{nc: nc, e: wire.Encoding{Codec: wire.Proto, Framing: wire.WebSocket}}
	t.Cleanup(func() { _ = nc.Close() }) // nothing is written any more
	if err := c.upgrade(addr); err != nil {
		t.Fatal(err)
	}
	greetWith(t, c, token)
	return c
}

// hello returns how long the answer to a hello takes, on a connection of its own.
func hello(t testing.TB, addr, token string) time.Duration {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := &talk{nc: nc, e: wire.Encoding{Codec: wire.Proto, Framing: wire.WebSocket}}
	if err := c.upgrade(addr); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	greetWith(t, c, token)
	return time.Since(begin)
}

func greetWith(t testing.TB, c *talk, token string) {
	if must(t, c, &petrelv1.ClientFrame{Id: 1, Body: &petrelv1.ClientFrame_Hello{Hello: &petrelv1.Hello{
		VersionMin: 1, VersionMax: 1, Token: token, Device: "bench", DeviceKind: "bench", Client: "petrel bench"}}}).GetWelcome() == nil {
		t.Error("the answer to a hello is no welcome")
	}
}

// must sends a request and returns its answer; without one the test fails.
func must(t testing.TB, c *talk, f *petrelv1.ClientFrame) *petrelv1.ServerFrame {
	t.Helper()
	a, err := c.ask(f)
	if err != nil {
		t.Error(err)
	}
	return a
}
