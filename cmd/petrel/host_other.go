//go:build !linux

package main

import (
	"errors"
	"os"
)

func openFiles() (uint64, error) { return 0, errors.ErrUnsupported }

func freeSpace(string) (bytes, files uint64, err error) { return 0, 0, errors.ErrUnsupported }

func dataSync(f *os.File) error { return f.Sync() }

func clockSynced() (synced, known bool) { return false, false }
