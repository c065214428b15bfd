//go:build sabotage

// Package sabotage, built with the tag: PETREL_SABOTAGE names the one rule
// that is switched off.
package sabotage

import "os"

var broken = os.Getenv("PETREL_SABOTAGE")

// On tells whether a rule is switched off.
func On(rule string) bool { return broken == rule }
