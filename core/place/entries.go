package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Entries lists the content of a directory tree.
type Entries struct {
	// Names contains the slash-separated paths of the regular files, in byte order
	// within each directory. It also contains empty directories, with a slash at the
	// end.
	Names []string
	// Special describes entries that are neither directories nor regular files.
	Special []string
	// Mounts contains the mount points in the tree. Entries below them are not listed.
	Mounts []string
}

// All returns the number of entries.
func (e *Entries) All() int { return len(e.Names) + len(e.Special) + len(e.Mounts) }

// List returns all entries below the directory dir, including names that are not UTF-8,
// hidden files, links and pipes. It does not follow links. It skips temporary files of
// the file driver, which have reserved names. List fails if the tree has more than limit
// entries.
func List(dir string, limit int) (*Entries, error) {
	e := &Entries{}
	mounts, err := mountsBelow(dir)
	if err != nil {
		return nil, err
	}
	return e, e.list(dir, "", mounts, limit)
}

func (e *Entries) list(root, dir string, mounts []string, limit int) error {
	list, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
	if err != nil {
		return err
	}
	if len(list) == 0 && dir != "" {
		e.Names = append(e.Names, dir+"/")
	}
	for _, d := range list {
		name := path.Join(dir, d.Name())
		if e.All() >= limit {
			return fmt.Errorf("%q has more than the limit of %d entries", root, limit)
		}
		switch {
		case slices.Contains(mounts, filepath.Join(root, filepath.FromSlash(name))):
			e.Mounts = append(e.Mounts, name)
		case d.IsDir():
			if err := e.list(root, name, mounts, limit); err != nil {
				return err
			}
		case !d.Type().IsRegular():
			e.Special = append(e.Special, fmt.Sprintf("%s (%s)", name, typeName(d.Type())))
		case !driverTemporary(d.Name()):
			e.Names = append(e.Names, name)
		}
	}
	return nil
}

// typeName returns the name of a file type.
func typeName(t fs.FileMode) string {
	switch {
	case t&fs.ModeSymlink != 0:
		return "a symbolic link"
	case t&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case t&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a special file"
}

// driverTemporary reports whether name is the name of a temporary file of the file driver.
func driverTemporary(name string) bool {
	digits, ok := strings.CutPrefix(name, ".nczarr.tmp.")
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// Remove removes a directory tree of any depth and with any modes. It does not follow
// links. It fails without removing anything if the tree contains a mount point. It
// returns nil if the directory does not exist.
func Remove(dir string) error {
	mounts, err := mountsBelow(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("%q is a mount point", mounts[0])
	}
	return removeAll(dir)
}
