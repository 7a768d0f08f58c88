//go:build unix && !linux

package place

import "os"

// copyXattrs does nothing: this system's attributes are not known here.
func copyXattrs(string, *os.File) error { return nil }
