// Package sabotage proves that the tests would notice a broken rule of the
// server. Each rule has patches, which break it, and guards: tests that have to
// fail then. No patch is in the source of the server: go build reads the
// patched files instead of the ones in the tree (its flag -overlay).
//
// The patches of all rules are in one overlay, so that every test binary is
// built once. BROKEN_RULE in the environment chooses the rule that is broken;
// without it a patched binary does what the server does.
//
// Rules are broken again when they or a package that they patch or that guards them has
// changed; -all breaks all, and writes into noticed.json what was noticed.
//
//	go test ./test/sabotage
//	go test ./test/sabotage -args -all
//	go test ./test/sabotage -run /skip-membership
//
// If a patch no longer applies, the failure names the file, the line that comes
// nearest, and both texts: put what the file says now into the patch.
package sabotage
