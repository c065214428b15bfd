package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/petrel-im/petrel/internal/process"
)

// Machine is where a run was made. A figure without it says little.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	MemBytes   uint64 `json:"mem_bytes"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	Commit     string `json:"commit"` // of this binary; ends in "+" when the tree had changes
	OpenFiles  uint64 `json:"open_files"`
	CoLocated  bool   `json:"co_located"` // server and generator share the machine
}

func describeMachine(ownServer bool) Machine {
	m := Machine{
		CPU: procLine("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		MemBytes: kilobytes(procLine("/proc/meminfo", "MemTotal")), Go: runtime.Version(), Commit: commit(),
		CoLocated: ownServer,
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		m.OpenFiles = files.Cur
	}
	return m
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	c, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			c = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	return c + changed
}

// procLine returns the value of the first line "key: value" of a file of /proc, "" without one.
func procLine(file, key string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		k, v, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// kilobytes returns the bytes in a text like "123 kB"; 0 for another text.
func kilobytes(s string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSuffix(s, " kB"), 10, 64) // 0 when there is none
	return n << 10
}

// cpuTime is the CPU time of a process since its start, in seconds.
type cpuTime struct{ user, system float64 }

func (c cpuTime) all() float64 { return c.user + c.system }

// processCPU reads the CPU time of a process.
func processCPU(pid int) (cpuTime, error) {
	f := process.Stat(pid)
	if len(f) < 13 {
		return cpuTime{}, fmt.Errorf("read cpu time of %d: the system tells only %q", pid, f)
	}
	user, err1 := strconv.ParseUint(f[11], 10, 64)
	system, err2 := strconv.ParseUint(f[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return cpuTime{}, fmt.Errorf("read cpu time of %d: %w", pid, err)
	}
	const ticksPerSecond = 100 // USER_HZ, the same on every Linux that Go runs on
	return cpuTime{float64(user) / ticksPerSecond, float64(system) / ticksPerSecond}, nil
}

// processMemory returns the resident memory of a process, and the memory that it has allocated, in bytes.
// Allocated memory includes what is swapped out. It leaves out pages of files, which the kernel drops and reads
// again as it likes.
func processMemory(pid int) (resident, allocated uint64) {
	status := fmt.Sprintf("/proc/%d/status", pid)
	size := func(name string) uint64 { return kilobytes(procLine(status, name)) }
	return size("VmRSS"), size("RssAnon") + size("VmSwap")
}

// ownCPU returns the CPU time of this process.
func ownCPU() cpuTime {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return cpuTime{}
	}
	return cpuTime{time.Duration(u.Utime.Nano()).Seconds(), time.Duration(u.Stime.Nano()).Seconds()}
}

// Disk is how fast the disk of the server's folder is: how long an append of 256 bytes with its fdatasync takes,
// measured before the run, without a server.
type Disk struct {
	Fdatasync SyncTime `json:"fdatasync_ms"`
}

// SyncTime is in milliseconds.
type SyncTime struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// measureDisk measures the disk of dir for d.
func measureDisk(dir string, d time.Duration) (Disk, error) {
	t, err := groupCommit(dir, 1, 256, d)
	return Disk{SyncTime{P50: t.Latency.P50, P99: t.Latency.P99}}, err
}
