//go:build !race

package pebblestore

const raceFactor = 1
