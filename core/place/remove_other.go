//go:build !unix

package place

import "os"

// removeAll removes a directory tree.
func removeAll(dir string) error { return os.RemoveAll(dir) }
