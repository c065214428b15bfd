//go:build sabotage

package crash

const buildTags = "sabotage" // of the server, whose PETREL_SABOTAGE is ours
