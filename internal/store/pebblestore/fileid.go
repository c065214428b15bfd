package pebblestore

import "github.com/cockroachdb/pebble/v2/vfs"

// fileID tells a file from its copies. It stays the same when the file is renamed, and when its volume is
// attached to another host. cp, rsync, tar and a restored file backup make files with other ids. The device
// is not part of it: its number changes when a volume is attached again.
type fileID struct {
	Inode uint64 // 0: not known
	Born  uint64 // time of its creation, Unix nanoseconds; 0: not known
}

// identify returns the fileID of the file at path. It is zero for files that are not on the disk, on file systems
// that may give a file another inode number when they are mounted again, and on all systems but Linux.
func identify(fs vfs.FS, path string) (fileID, error) {
	if fs != vfs.Default {
		return fileID{}, nil
	}
	return identifyOnDisk(path)
}

// is tells whether id and now, the identity of a file that exists, are of the same file. An unknown id fits any file.
// Only the time of creation exposes a copy that got the inode number of a deleted file.
func (id fileID) is(now fileID) bool {
	if id.Inode == 0 {
		return true
	}
	return id.Inode == now.Inode && (id.Born == now.Born || id.Born == 0 || now.Born == 0)
}
