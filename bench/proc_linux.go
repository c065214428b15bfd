package bench

import (
	"os"
	"syscall"
)

// endWithParent makes a child process end when the thread that started it does.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}

func fdatasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
