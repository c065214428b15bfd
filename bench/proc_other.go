//go:build !linux

package bench

import (
	"os"
	"syscall"
)

func endWithParent() *syscall.SysProcAttr { return nil }
func fdatasync(f *os.File) error          { return f.Sync() }
func threadCPU() float64                  { return 0 }
