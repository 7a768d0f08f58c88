//go:build !unix

package host

import "io/fs"

// allocated returns the disk space of a file in bytes.
func allocated(info fs.FileInfo) int64 { return info.Size() }
