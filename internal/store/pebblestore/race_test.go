//go:build race

package pebblestore

// The race detector, and the checks that Pebble adds under it, make each simulated
// crash ten times as expensive. The full numbers run without it.
const (
	standardCuts        = 12
	standardCorruptions = 2
	standardBackupKills = 8

	raceFactor = 30 // divides the number of other repetitions
)
