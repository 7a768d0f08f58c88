//go:build unix

package file_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// TestLinkedEmptyDirectories lists empty directories that are connected by links, so
// that the number of paths is exponential. The listings must be empty and end soon.
func TestLinkedEmptyDirectories(t *testing.T) {
	t.Parallel()
	for name, up := range map[string]bool{"without loops": false, "with loops": true} {
		store := t.TempDir()
		const levels, links = 8, 20
		for level := range levels {
			dir := filepath.Join(store, "d"+strconv.Itoa(level))
			must(t, os.Mkdir(dir, 0o777))
			for i := range links {
				if level < levels-1 {
					must(t, os.Symlink(fmt.Sprintf("../d%d", level+1), filepath.Join(dir, strconv.Itoa(i))))
				}
			}
			if up {
				must(t, os.Symlink("..", filepath.Join(dir, "up")))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		m, err := file.New().Open(ctx, driver.OpenSpec{Path: store})
		must(t, err)
		for _, recursive := range []bool{false, true} {
			for e, err := range m.List(ctx, "", &driver.ListOptions{Recursive: recursive}) {
				t.Fatalf("%s, recursive %v: got %+v, %v", name, recursive, e, err)
			}
		}
		must(t, m.Close(t.Context()))
	}
}

// TestLinkedTrees compares listings of small trees with random links to a simple walk
// that follows the links.
func TestLinkedTrees(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		store := t.TempDir()
		dirs := []string{"."}
		for i := range 4 {
			dir := filepath.Join(dirs[random.IntN(len(dirs))], "d"+strconv.Itoa(i))
			must(t, os.Mkdir(filepath.Join(store, dir), 0o777))
			dirs = append(dirs, dir)
		}
		for i := range 4 {
			from := dirs[random.IntN(len(dirs))]
			to, err := filepath.Rel(from, dirs[random.IntN(len(dirs))])
			must(t, err, os.Symlink(to, filepath.Join(store, from, "l"+strconv.Itoa(i))))
		}
		if random.IntN(4) > 0 {
			must(t, os.WriteFile(filepath.Join(store, dirs[random.IntN(len(dirs))], "o"), nil, 0o666))
		}
		var want []string
		follow(t, store, "", nil, &want)
		slices.Sort(want)
		m, err := file.New().Open(t.Context(), driver.OpenSpec{Path: store})
		must(t, err)
		if got, err := list(t, m, "", true); err != nil || !slices.Equal(got, want) {
			t.Errorf("recursive: want %q, got %q, %v", want, got, err)
		}
		var first []string
		for _, key := range want {
			if name, _, below := strings.Cut(key, "/"); below {
				key = name + "/"
			}
			first = append(first, key)
		}
		slices.Sort(first)
		if got, err := list(t, m, "", false); err != nil || !slices.Equal(got, slices.Compact(first)) {
			t.Errorf("want %q, got %q, %v", first, got, err)
		}
		must(t, m.Close(t.Context()))
	}
}

// follow collects the files below a directory. It follows all links except those to a
// parent directory.
func follow(t *testing.T, store, prefix string, above []os.FileInfo, keys *[]string) {
	t.Helper()
	dir := filepath.Join(store, prefix)
	here, err := os.Stat(dir)
	must(t, err)
	above = append(slices.Clip(above), here)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		must(t, err)
		loop := slices.ContainsFunc(above, func(other os.FileInfo) bool { return os.SameFile(info, other) })
		switch key := prefix + e.Name(); {
		case !info.IsDir():
			*keys = append(*keys, key)
		case !loop || e.IsDir():
			follow(t, store, key+"/", above, keys)
		}
	}
}
