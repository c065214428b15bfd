//go:build !unix

package petrel

import "os"

// lockFile does nothing where files cannot be locked by the standard library.
func lockFile(*os.File) error { return nil }
