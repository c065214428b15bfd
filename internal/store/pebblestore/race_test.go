//go:build race

package pebblestore

// raceFactor divides the number of simulated crashes: the race detector, and the
// checks that Pebble adds under it, make each of them ten times as expensive, and
// the full number runs without it.
const raceFactor = 30
