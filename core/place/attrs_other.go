//go:build !unix

package place

import "io/fs"

func giveOwner(string, fs.FileInfo) error { return nil }
