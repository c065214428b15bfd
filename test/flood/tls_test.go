package flood

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// BenchmarkTLS measures what a connection with TLS takes of the server's memory while it is
// idle, and how many requests on connections of their own, with a handshake each, it answers
// for a second of CPU. resumed is the share of those handshakes that resumed a session.
func BenchmarkTLS(b *testing.B) {
	s := imtest.Start(b, imtest.Options{TLS: true, Process: true})
	stats := func() *petrelv1.Stats {
		r, err := s.Admin.GetStats(b.Context(), connect.NewRequest(&petrelv1.GetStatsRequest{}))
		if err != nil {
			b.Fatal(err)
		}
		return r.Msg
	}
	for range b.N {
		const idle = 2000
		names := make([]string, 0, idle)
		for len(names) < cap(names) {
			names = append(names, fmt.Sprintf("idle%d", len(names)))
		}
		var tokens []string
		for part := 0; part < idle; part += 1000 {
			tokens = append(tokens, s.Users("", names[part:part+1000]...)...)
		}
		before := stats().RssBytes
		for _, t := range tokens {
			s.Dial(wire.WebSocket, wire.Proto, t, "phone")
		}
		<-time.After(3 * time.Second)
		b.ReportMetric(float64(stats().RssBytes-before)/idle, "bytes/conn")

		for name, cache := range map[string]tls.ClientSessionCache{"full": nil, "again": tls.NewLRUClientSessionCache(8)} {
			config := s.TLS().Clone()
			config.ClientSessionCache = cache
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
			var done, resumed atomic.Int64
			var all sync.WaitGroup
			cpu, end := stats().CpuS, time.Now().Add(4*time.Second)
			for range 4 {
				all.Go(func() {
					for time.Now().Before(end) {
						r, err := client.Get(s.BaseURL() + "/healthz")
						if err != nil {
							b.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, r.Body)
						_ = r.Body.Close()
						done.Add(1)
						if r.TLS.DidResume {
							resumed.Add(1)
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(done.Load())/(stats().CpuS-cpu), name+"/cpu-s")
			b.ReportMetric(float64(resumed.Load())/float64(done.Load()), name+"-resumed")
		}
	}
}
