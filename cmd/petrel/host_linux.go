package main

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// openFiles is the most files this process may have open. Go raises the soft
// limit to the hard one at its start.
func openFiles() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return l.Cur, err
}

// freeSpace is how many bytes the disk of dir has left, and how many files it can still take.
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

// clockSynced asks the kernel whether something disciplines the clock.
func clockSynced() (synced, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return state != unix.TIME_ERROR, err == nil
}
