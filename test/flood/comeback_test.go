package flood

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
)

// BenchmarkComeBack measures how long it takes until PETREL_FLOOD_CONNECTIONS clients (300) are
// in again that come back at once when their server has been killed and has started again.
// Each tries until it is in, 100 ms after its last try. last-s is when all are in, half-s when
// half of them are.
func BenchmarkComeBack(b *testing.B) {
	n := number(b, "PETREL_FLOOD_CONNECTIONS", defaultConnections)
	s := imtest.Start(b, imtest.Options{Process: true, Config: map[string]string{"log.level": "error"}})
	var names, tokens []string
	for i := range n {
		names = append(names, fmt.Sprint("user", i))
	}
	for from := 0; from < n; from += 1000 {
		tokens = append(tokens, s.Users("", names[from:min(from+1000, n)]...)...)
	}
	for b.Loop() {
		s.Kill()
		s.Start()
		begin := time.Now()
		var all sync.WaitGroup
		var in, tries atomic.Int64
		conns := make([]*wiretest.Conn, n)
		var half time.Duration // by the one that is in the middle, before the end of all
		for i, token := range tokens {
			d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 3, byte(i>>8), byte(i))}}
			all.Go(func() {
				for {
					tries.Add(1)
					ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
					c, err := wiretest.Dial(ctx, wiretest.Options{URL: s.URL(wire.Framing(i % 2)), Codec: wire.Proto, Token: token, Device: "phone", NetDial: d.DialContext})
					cancel()
					if err == nil {
						if in.Add(1) == int64(n/2) {
							half = time.Since(begin)
						}
						conns[i] = c
						return
					}
					select {
					case <-b.Context().Done():
						return
					case <-time.After(100 * time.Millisecond):
					}
				}
			})
		}
		all.Wait()
		b.ReportMetric(time.Since(begin).Seconds(), "last-s")
		b.ReportMetric(half.Seconds(), "half-s")
		b.ReportMetric(float64(tries.Load())/float64(n), "tries/client")
		for _, c := range conns {
			if c != nil {
				_ = c.Close() // the server may be gone
			}
		}
	}
}
