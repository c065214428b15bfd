package sdk

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// fill stores n messages of bob in conversations that bob writes to at once.
func fill(t testing.TB, s *imtest.Server, token string, n int, convs ...string) {
	t.Helper()
	conn := s.Dial(wire.TCP, wire.Proto, token, "filler")
	ctx := t.Context()
	var window sync.WaitGroup
	slots := make(chan struct{}, 48) // of the window of 64
	for i := range n {
		slots <- struct{}{}
		window.Go(func() {
			defer func() { <-slots }()
			after := uint64(0)
			_, err := conn.Send(ctx, &petrelv1.Send{
				Conv: convs[i%len(convs)], ClientMsgId: fmt.Sprint("f", i), After: &after,
				Body: &petrelv1.Send_Text{Text: strings.Repeat("x", 100)},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	window.Wait()
}

// BenchmarkFarBehind is the time from the start of a client until it holds
// 100,000 messages that it has missed.
func BenchmarkFarBehind(b *testing.B) {
	const n = 100_000
	s := imtest.Start(b, imtest.Options{})
	tokens := s.Users("", "alice", "bob")
	var convs []string
	for i := range 20 {
		convs = append(convs, s.Group("", fmt.Sprint("g", i), "bob", "alice"))
	}
	fill(b, s, tokens[1], n, convs...)
	for _, k := range []struct {
		name   string
		store  bool
		json   bool
		newest int
	}{
		{"Memory", false, false, n}, {"File", true, false, n}, {"JSON", false, true, n}, {"NewestOnly", true, false, 20},
	} {
		b.Run(k.name, func(b *testing.B) {
			for b.Loop() {
				o := petrel.Options{URL: s.URL(wire.TCP), Token: petrel.StaticToken(tokens[0]), Keep: n, Newest: k.newest, JSON: k.json, ManualDelivered: true}
				if k.store {
					store, err := petrel.OpenFile(filepath.Join(b.TempDir(), "store"))
					if err != nil {
						b.Fatal(err)
					}
					defer store.Close()
					o.Store = store
				}
				began := time.Now()
				d := run(b, o)
				d.until("everything is there", func() bool {
					held := uint64(0)
					for _, v := range d.Conversations() {
						if v.Have < v.Head {
							return false
						}
						held += v.Have
					}
					return held == n+uint64(len(convs)) // with the entry that made each of them
				})
				b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms")
				d.stop()
			}
		})
	}
}
