package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
)

// File name prefixes of plugin executables.
const (
	driverPrefix = "nczarr-driver-"
	filterPrefix = "nczarr-filter-"
)

// parseFileName returns the kind and the name in the base name of a plugin executable.
func parseFileName(base string) (kind, name string, ok bool) {
	if runtime.GOOS == "windows" {
		base = strings.TrimSuffix(strings.ToLower(base), ".exe")
	}
	if name, ok = strings.CutPrefix(base, driverPrefix); ok {
		return kindDriver, name, name != ""
	}
	if name, ok = strings.CutPrefix(base, filterPrefix); ok {
		return kindFilter, name, name != ""
	}
	return "", "", false
}

// searchDirs returns the plugin directories in order of precedence. It ignores $PATH
// and relative directories in the environment.
func searchDirs(o *Options) []string {
	dirs := append([]string(nil), o.Dirs...)
	for _, d := range filepath.SplitList(o.Getenv(envPath)) {
		if filepath.IsAbs(d) {
			dirs = append(dirs, d)
		}
	}
	data := o.Getenv("XDG_DATA_HOME")
	if home := o.Getenv("HOME"); data == "" && home != "" {
		data = filepath.Join(home, ".local", "share")
	}
	if filepath.IsAbs(data) {
		dirs = append(dirs, filepath.Join(data, "nczarr", "plugins"))
	}
	return dirs
}

// findExecutables returns the paths of the plugins in dirs. If several directories
// contain a plugin with the same base name, the first one takes precedence. Missing
// directories are ignored.
func findExecutables(dirs []string) ([]string, error) {
	var paths []string
	var errs []error
	seen := map[string]bool{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			_, _, ok := parseFileName(e.Name())
			if !ok || seen[e.Name()] {
				continue
			}
			path := filepath.Join(dir, e.Name())
			if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || runtime.GOOS != "windows" && st.Mode()&0o111 == 0 {
				continue
			}
			seen[e.Name()] = true
			paths = append(paths, path)
		}
	}
	sort.Slice(paths, func(i, j int) bool { return filepath.Base(paths[i]) < filepath.Base(paths[j]) })
	return paths, errors.Join(errs...)
}
