//go:build !linux

package pebblestore

func identifyOnDisk(string) (fileID, error) { return fileID{}, nil }
