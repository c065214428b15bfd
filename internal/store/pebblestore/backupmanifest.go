package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files of a backup that are not of the database.
const (
	manifestName = "manifest.json"
	manifestSum  = "manifest.sha256" // hash of manifest.json, as sha256sum writes and checks it
	backupFormat = 1
)

// Manifest describes a backup.
type Manifest struct {
	Format    int    `json:"format"`     // of the backup; 1
	Name      string `json:"name"`       // of its folder
	StoreID   string `json:"store_id"`   // 16 hex digits
	HistoryID string `json:"history_id"` // 16 hex digits, of the store when the backup was made
	Level     uint32 `json:"level"`      // of the stored format
	Commit    uint64 `json:"commit,string"`
	CommitMs  uint64 `json:"commit_time_ms,string"` // Unix milliseconds
	MadeMs    uint64 `json:"made_ms,string"`        // Unix milliseconds

	// Continues names the previous backup if it has the same history; this one may share tables with it. Empty: none.
	Continues string `json:"continues,omitempty"`

	Files []File `json:"files"`
}

// File is one file of a backup.
type File struct {
	Name       string `json:"name"`
	Bytes      int64  `json:"bytes"`
	SHA256     string `json:"sha256"`
	ModifiedNs int64  `json:"modified_ns,string"` // of the original, Unix nanoseconds
}

// BadBackup is the error of a backup that has changed since it was made, is unfinished, or has another format.
type BadBackup struct {
	Folder string
	File   string // empty: it is no single file
	What   string
}

// Error names the file.
func (b *BadBackup) Error() string {
	at := b.Folder
	if b.File != "" {
		at += "/" + b.File
	}
	return at + ": " + b.What
}

type namedContent struct {
	name    string
	content []byte
}

// encode returns the manifest and its hash, as files.
func (m Manifest) encode() []namedContent {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		panic(err) // its fields are strings and numbers
	}
	b = append(b, '\n')
	return []namedContent{{manifestName, b}, {manifestSum, sumLine(b)}}
}

func sumLine(manifest []byte) []byte {
	sum := sha256.Sum256(manifest)
	return fmt.Appendf(nil, "%x  %s\n", sum, manifestName)
}

// write makes the files of the manifest in dir, and makes all names in dir durable.
func (m Manifest) write(fs vfs.FS, dir string) error {
	c := copier{fs: fs}
	for _, f := range m.encode() {
		err := c.create(fs.PathJoin(dir, f.name), func(out io.Writer) error {
			_, err := out.Write(f.content)
			return err
		})
		if err != nil {
			return err
		}
	}
	return syncDir(fs, dir)
}

// readManifest reads the manifest of the backup in dir. Errors: *BadBackup, and those of the system.
func readManifest(fs vfs.FS, dir string) (*Manifest, error) {
	parts := map[string][]byte{}
	for _, name := range []string{manifestName, manifestSum} {
		path := fs.PathJoin(dir, name)
		i, err := lstat(fs, path)
		var b []byte
		if err == nil && !i.Mode().IsRegular() {
			return nil, &BadBackup{dir, name, "it is no regular file"}
		} else if err == nil {
			b, err = readFile(fs, path)
		}
		if isNotExist(err) {
			return nil, &BadBackup{dir, name, "it is missing: the folder holds no backup, or one that was not finished"}
		} else if err != nil {
			return nil, err
		}
		parts[name] = b
	}
	return parseManifest(dir, parts[manifestName], parts[manifestSum])
}

// parseManifest reads the two files of a manifest. Errors: *BadBackup.
func parseManifest(dir string, b, line []byte) (*Manifest, error) {
	if !bytes.Equal(line, sumLine(b)) {
		return nil, &BadBackup{dir, manifestName, "its hash is not the one in " + manifestSum}
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, &BadBackup{dir, manifestName, err.Error()}
	}
	if m.Format != backupFormat {
		return nil, &BadBackup{dir, manifestName,
			fmt.Sprintf("the backup has format %d, and this Petrel reads format %d", m.Format, backupFormat)}
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		if err := checkName(f.Name); err != nil || seen[f.Name] || f.Bytes < 0 {
			return nil, &BadBackup{dir, manifestName, fmt.Sprintf("it names the file %q, which no backup has", f.Name)}
		}
		seen[f.Name] = true
	}
	return m, nil
}

// checkName refuses every name that is not that of a file directly in a folder, hidden names, and Pebble's lock file:
// a manifest may come from anywhere.
func checkName(name string) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") || name == pebbleLock {
		return errors.New("no name of a file of a backup")
	}
	return nil
}

// bytes returns the size of all files.
func (m *Manifest) bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}
