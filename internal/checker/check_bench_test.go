package checker

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// BenchmarkCheck checks a run of b.N messages, each with its Invoke, OK, Deliver and Entry: from
// 200 senders to 1,000 receivers in 1,000 direct conversations, or all in one group.
//
//	go test ./internal/checker -run xxx -bench Check -benchtime 10000000x
func BenchmarkCheck(b *testing.B) {
	for _, convs := range []int{1000, 1} {
		b.Run(fmt.Sprintf("convs=%d", convs), func(b *testing.B) { benchmarkCheck(b, convs) })
	}
}

func benchmarkCheck(b *testing.B, convs int) {
	name := filepath.Join(b.TempDir(), "run")
	file, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	w := NewWriter(file)
	for n := range convs {
		_ = w.Write(&Op{Kind: Conv, Conv: conv(n), Added: []string{sender(n), receiver(n)}}) // Flush tells
		_ = w.Write(&Op{Kind: Follow, User: receiver(n), Conv: conv(n)})
		_ = w.Write(&Op{Kind: History, Conv: conv(n), Seq: uint64((b.N + convs - 1 - n) / convs)})
	}
	for i := range b.N {
		n, at := i%convs, int64(i+1)*1000
		op := Op{Kind: Invoke, At: at, User: sender(n), Session: sender(n), Conv: conv(n), ID: fmt.Sprintf("%018d", i), Body: uint64(i) + 1}
		_ = w.Write(&op)
		op.Kind, op.At, op.Seq, op.Body = OK, at+900, uint64(i/convs+1), 0
		_ = w.Write(&op)
		op = Op{Kind: Deliver, At: at + 950, User: receiver(n), Session: receiver(n), Conv: conv(n), Seq: op.Seq, From: sender(n), ID: op.ID, Body: uint64(i) + 1}
		_ = w.Write(&op)
		_ = w.Write(&Op{Kind: Entry, Conv: conv(n), Seq: op.Seq, From: op.From, ID: op.ID, Body: op.Body})
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		b.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	r, err := Check([]Log{{name, file}}, Options{Dir: b.TempDir()})
	b.StopTimer()
	if err != nil || !r.Findings.Clean() || r.Acked != uint64(b.N) {
		b.Fatalf("%v: %+v", err, r)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MB-of-memory")
	b.ReportMetric(float64(info.Size())/float64(b.N), "log-bytes/msg")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}

func conv(n int) string     { return fmt.Sprintf("dConversationOf%05d", n) }
func sender(n int) string   { return fmt.Sprintf("bench-sender-%d", n%200) }
func receiver(n int) string { return fmt.Sprintf("bench-receiver-%d", n) }
