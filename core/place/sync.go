package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// syncers is the number of files that are synced concurrently. A file system with a
// journal can write many of them together.
const syncers = 16

// syncTree syncs a file, or a directory with all its content, to disk. It does not follow
// links.
func (sys *system) syncTree(path string) error {
	var dirs []string
	files := make(chan string)
	errs := make([]error, syncers)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for name := range files {
				if err := sys.syncFile(name); err != nil && errs[i] == nil {
					errs[i] = err
				}
			}
		})
	}
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, name)
		case d.Type().IsRegular():
			files <- name
		}
		return nil
	})
	close(files)
	wg.Wait()
	if err = join(append(errs, err)...); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := sys.syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func syncFile(name string) error {
	flags := os.O_RDONLY
	if runtime.GOOS == "windows" { // Windows flushes only files open for writing
		flags = os.O_RDWR
	}
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return err
	}
	return join(f.Sync(), f.Close())
}

// syncDir makes the entries of a directory durable if the system supports this.
func syncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	_ = d.Close()
	if errors.Is(err, fs.ErrInvalid) || errors.Is(err, errors.ErrUnsupported) {
		return nil // this file system cannot sync directories
	}
	return err
}
