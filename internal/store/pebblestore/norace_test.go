//go:build !race

package pebblestore

// How often the randomised tests do what they do; `make crash` does it in long counts.
const (
	standardCuts        = 1000
	standardCorruptions = 80
	standardBackupKills = 40

	raceFactor = 1 // divides the number of other repetitions
)
