//go:build race

package scenario

// raced tells whether the race detector watches.
const raced = true
