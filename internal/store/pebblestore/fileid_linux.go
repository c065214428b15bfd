package pebblestore

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// unstable are the file systems that may give files other inode numbers when they are mounted again: FUSE and
// virtiofs, SMB and CIFS, 9P.
var unstable = []uint32{0x65735546, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997}

// freeFiles returns how many files the file system of dir can still take; MaxUint64: it has no limit.
func freeFiles(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	if fs.Files == 0 {
		return math.MaxUint64, nil
	}
	return fs.Ffree, nil
}

func identifyOnDisk(path string) (fileID, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return fileID{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	if slices.Contains(unstable, uint32(fs.Type)) {
		return fileID{}, nil
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_SYNC_AS_STAT, unix.STATX_INO|unix.STATX_BTIME,
		&st); err != nil {
		return fileID{}, fmt.Errorf("statx %s: %w", path, err)
	}
	id := fileID{Inode: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Born = uint64(st.Btime.Sec)*1e9 + uint64(st.Btime.Nsec)
	}
	return id, nil
}
