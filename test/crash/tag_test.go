//go:build !sabotage

package crash

const buildTags = "" // of the server
