//go:build !sabotage

// Package sabotage holds the switches that break Petrel on purpose, one rule
// at a time, so that the suites can prove that they would notice. Without the
// build tag "sabotage" every switch is a constant false and compiles to nothing.
package sabotage

// On tells whether a rule is switched off.
func On(string) bool { return false }
