//go:build unix

package petrel

import (
	"os"
	"syscall"
)

// lockFile keeps other processes from opening the store, until f is closed.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
