//go:build !unix

package host

import "io/fs"

// allocated returns how much room a file takes.
func allocated(info fs.FileInfo) int64 { return info.Size() }
