//go:build race

package stream

// schedules is how many random schedules run. Each runs in one goroutine, so the race
// detector makes it ten times as expensive and finds nothing. The full number runs
// without it.
const schedules = 500
