package bench

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endWithParent makes a child process end when the thread that started it does.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}

func fdatasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// threadCPU returns the CPU time of the calling thread, in seconds.
func threadCPU() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
