package main

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// openFiles returns the most files that this process may have open. Go raises the soft limit to the hard one
// at its start.
func openFiles() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return l.Cur, err
}

// freeSpace returns the free bytes and the free files of the disk of dir.
func freeSpace(dir string) (bytes, files uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	if s.Files == 0 { // the file system has no such limit
		s.Ffree = math.MaxUint64
	}
	return s.Bavail * uint64(s.Bsize), s.Ffree, nil
}

func dataSync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// clockSynced asks the kernel whether the clock is synchronised. known is false if the kernel does not answer.
func clockSynced() (synced, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return state != unix.TIME_ERROR, err == nil
}
