//go:build !unix

package place

import "io/fs"

// sameDevice returns true, because mounted volumes are reparse points on this system
// and WalkDir does not follow them.
func sameDevice(fs.FileInfo, fs.FileInfo) bool { return true }
