//go:build !linux

package place

import (
	"io/fs"
	"os"
	"path/filepath"
)

// mountsBelow returns the directories below dir that are on another device.
func mountsBelow(dir string) ([]string, error) {
	root, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && path != dir && !sameDevice(root, info) {
			out = append(out, path)
			return fs.SkipDir
		}
		return err
	})
	return out, err
}
