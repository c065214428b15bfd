//go:build !unix

package petrel

import "os"

// lockFile locks nothing where the standard library has no file locks: two processes can open the same store
// there.
func lockFile(*os.File) error { return nil }
