//go:build race

package pebblestore

// raceFactor divides the number of simulated crashes: the race detector, and
// the checks that Pebble adds under it, make each ten times dearer.
const raceFactor = 10
