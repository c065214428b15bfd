// Package sabotage proves that the suites would notice: with the build tag
// "sabotage" each rule of the server can be switched off by its name in
// PETREL_SABOTAGE, and then the suite that guards the rule has to fail.
//
//	go test -tags sabotage ./test/sabotage
package sabotage
