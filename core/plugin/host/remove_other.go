//go:build !unix

package host

import (
	"io/fs"
	"os"
)

// removeTree removes a directory that a plugin could fill.
func removeTree(dir string) error { return os.RemoveAll(dir) }

// allocated returns how much room a file takes.
func allocated(info fs.FileInfo) int64 { return info.Size() }
