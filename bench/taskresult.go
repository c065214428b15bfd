package bench

import (
	"fmt"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Task is one step of a scenario, or one kind of work that its clients do, and what it cost. A figure that is not
// known is 0.
type Task struct {
	Name string `json:"name"` // kind of the step or work, such as connect, return, history, send, echo or log
	// connections: how many are open; storm, login: number of the round, from 1; limit: receivers, or entries for
	// a sync
	Size    int     `json:"size"`
	Window  int     `json:"window"`        // limit: frames of each sender on their way
	Count   uint64  `json:"count"`         // how often it was done
	Seconds float64 `json:"seconds"`       // how long all of it took
	PerS    float64 `json:"per_s"`         // Count in a second
	Again   uint64  `json:"again"`         // tries that were refused or broke, each of which was made again
	CPU     float64 `json:"server_cpu_s"`  // CPU time of the servers in those seconds
	CPUEach float64 `json:"server_cpu_us"` // CPU time of the servers for each, in microseconds

	Latency Percentiles `json:"latency_ms"` // latency of each

	UserBytes float64 `json:"user_bytes"` // connections: memory of the servers for each, outside the kernel
	// connections: memory of the kernel for each; both ends if the clients are on the same machine
	KernelBytes float64 `json:"kernel_bytes"`
	Pauses      float64 `json:"pauses_ms"`  // connections: how long garbage collection stopped the servers
	IdleCPU     float64 `json:"idle_cpu"`   // connections: cores of the servers in use while nobody asks for anything
	Beats       uint64  `json:"heartbeats"` // connections: pings of the servers in that time
	Answer      float64 `json:"answer_ms"`  // connections: median time to the answer of a ping, while all are open
	AnswerP99   float64 `json:"answer_p99_ms"`
}

// The names of tasks.
const (
	taskEcho      = "echo"      // limit: one frame to a server and back
	taskFanOut    = "fan-out"   // limit: one frame to each of many
	taskLog       = "log"       // limit: an entry in a log that is synced to the disk
	taskConnect   = "connect"   // from the dial to the answer of the first sync
	taskIdle      = "idle"      // a time in which connections do nothing
	taskReturn    = "return"    // from the loss of a connection to the answer of the first sync of the new one
	taskWatch     = "watch"     // a request with the list of users whose presence a client wants to know
	taskPresence  = "presence"  // from the dial of a user to the event that tells a watcher
	taskSyncAll   = "sync-all"  // a sync from the beginning
	taskSyncNone  = "sync-none" // a sync when nothing has happened
	taskSyncSome  = "sync-some" // a sync when there is something new
	taskHistory   = "history"   // a page of a conversation
	taskSend      = "send"      // from the send to its ack
	taskDelivered = "delivery"  // from the send to its delivery
	taskReceipt   = "receipt"   // a move of a read cursor
	taskAnswer    = "ping"      // the answer of a ping
)

// newTask makes the task of n actions. took is how long all took, and cpu the CPU time of the servers, both in
// seconds; times may be nil.
func newTask(name string, n uint64, took, cpu float64, times *hdrhistogram.Histogram) Task {
	s := Task{Name: name, Count: n, Seconds: round(took, 1000), CPU: round(cpu, 1000)}
	if took > 0 {
		s.PerS = round(float64(n)/took, 10)
	}
	if n > 0 {
		s.CPUEach = round(1e6*cpu/float64(n), 1000)
	}
	if times != nil {
		s.Latency = percentiles(times)
	}
	return s
}

// cpuBetween returns the CPU time of all servers from one mark to another one, in seconds.
func (r *run) cpuBetween(from, to *mark) (used float64) {
	for i := range to.serverCPU {
		used += to.serverCPU[i].all() - from.serverCPU[i].all()
	}
	if !r.own() {
		for i := range to.stats {
			used += to.stats[i].CpuS - from.stats[i].CpuS
		}
	}
	return used
}

// columns are the columns of a table of tasks. tabulate leaves an empty column out.
var columns = []struct {
	name string
	of   func(*Task) string
}{
	{"", func(s *Task) string {
		if s.Size > 0 {
			return fmt.Sprintf("%s %s", s.Name, count(float64(s.Size)))
		}
		return s.Name
	}},
	{"on their way", func(s *Task) string { return whole(float64(s.Window)) }},
	{"count", func(s *Task) string { return whole(float64(s.Count)) }},
	{"seconds", func(s *Task) string { return decimals(s.Seconds, 1) }},
	{"per second", func(s *Task) string { return whole(s.PerS) }},
	{"made again", func(s *Task) string { return whole(float64(s.Again)) }},
	{"CPU s", func(s *Task) string { return decimals(s.CPU, 2) }},
	{"CPU µs each", func(s *Task) string { return decimals(s.CPUEach, 2) }},
	{"p50 ms", func(s *Task) string { return decimals(s.Latency.P50, 2) }},
	{"p99 ms", func(s *Task) string { return decimals(s.Latency.P99, 2) }},
	{"max ms", func(s *Task) string { return decimals(s.Latency.Max, 2) }},
	{"user bytes", func(s *Task) string { return whole(s.UserBytes) }},
	{"kernel bytes", func(s *Task) string { return whole(s.KernelBytes) }},
	{"idle cores", func(s *Task) string { return decimals(s.IdleCPU, 4) }},
	{"heartbeats", func(s *Task) string { return whole(float64(s.Beats)) }},
	{"pauses ms", func(s *Task) string { return decimals(s.Pauses, 2) }},
	{"ping p50 ms", func(s *Task) string { return decimals(s.Answer, 2) }},
	{"ping p99 ms", func(s *Task) string { return decimals(s.AnswerP99, 2) }},
}

func whole(v float64) string {
	if v == 0 {
		return ""
	}
	return count(v)
}

func decimals(v float64, n int) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.*f", n, v)
}

// writeTasks writes tasks as a table.
func writeTasks(b *strings.Builder, tasks []Task) {
	for _, line := range tabulate(tasks) {
		b.WriteString(line + "\n")
	}
}

// tabulate lays tasks out as a table: the first column to the left, numbers to the right.
func tabulate(tasks []Task) []string {
	lines := make([]string, len(tasks)+1)
	for n, c := range columns {
		cells, width, some := []string{c.name}, len([]rune(c.name)), false
		for i := range tasks {
			v := c.of(&tasks[i])
			some = some || v != ""
			width = max(width, len([]rune(v)))
			cells = append(cells, v)
		}
		if !some {
			continue
		}
		for i, v := range cells {
			if n == 0 {
				lines[i] = fmt.Sprintf("%-*s", width, v)
			} else {
				lines[i] += fmt.Sprintf("  %*s", width, v)
			}
		}
	}
	return lines
}
