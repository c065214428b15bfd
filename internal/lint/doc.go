// Package lint holds the rules of this tree as tests: what may import what,
// that no file knows one above it, how long files and functions get, which words are not package names, that no
// package variable is stored to, that every clause cited exists and every MUST
// is cited, that pages and comments name what exists, that locks, goroutines and
// schedules are listed, and what subjects of commits look like. CONTRIBUTING.md
// says why.
//
// A rule is a function from the files of the tree to findings. Each has a
// table of files that break it and of files that do not, so that a rule which
// has stopped to find anything fails.
package lint
