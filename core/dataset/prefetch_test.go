package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// distant is a high-latency store in which some prefixes cannot be listed.
type distant struct {
	driver.Map
	refuse []string
	listed *sync.Map // number of listed entries by prefix; nil if not counted
}

func (d distant) Capabilities() driver.Capabilities {
	c := d.Map.Capabilities()
	c.Latency = driver.Remote
	return c
}

func (d distant) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	if slices.Contains(d.refuse, prefix) {
		return func(yield func(driver.Entry, error) bool) { yield(driver.Entry{}, ncerr.ErrPermission) }
	}
	if d.listed == nil {
		return d.Map.List(ctx, prefix, o)
	}
	n, _ := d.listed.LoadOrStore(prefix, new(atomic.Int64))
	return func(yield func(driver.Entry, error) bool) {
		for e, err := range d.Map.List(ctx, prefix, o) {
			n.(*atomic.Int64).Add(1) // stored by LoadOrStore
			if !yield(e, err) {
				return
			}
		}
	}
}

func remoteOptions(o *dataset.Options, refuse ...string) *dataset.Options {
	c := *o
	c.Wrap = func(m driver.Map) driver.Map { return distant{m, refuse, nil} }
	return &c
}

const (
	oneArray = `{"shape": [1], "chunks": [1], ` + i4 + `}`
	group    = `{"zarr_format": 2}`
)

// An error of a prefetched listing is ignored if the listing is not needed, and
// reported if it is.
func TestPrefetchError(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "array", map[string]string{".zarray": oneArray, ".zattrs": "{}"})
	store(t, o, "nc", map[string]string{
		".zgroup": group, ".zattrs": `{` + superblock + `, "_nczarr_group": {"dimensions": {}, "groups": [], "arrays": []}}`,
	})
	store(t, o, "tree", map[string]string{
		".zgroup": group, "a/.zgroup": group, "a/v/.zarray": oneArray, "b/.zgroup": group, "b/v/.zarray": oneArray, "v/.zarray": oneArray,
	})
	for _, url := range []string{"mem:array#mode=zarr", "mem:nc#mode=nczarr"} {
		if ds := open(t, url, remoteOptions(o, "")); len(ds.Problems()) > 0 {
			t.Errorf("%s: problems %v", url, ds.Problems())
		}
	}
	if _, err := openURL(t.Context(), "mem:tree#mode=zarr", remoteOptions(o, "")); !errors.Is(err, ncerr.ErrPermission) {
		t.Errorf("a root that cannot be listed: want ErrPermission, got %v", err)
	}
	for _, ds := range []*dataset.Dataset{open(t, "mem:tree#mode=zarr", remoteOptions(o, "b/")), open(t, "mem:tree", remoteOptions(o, "b/"))} {
		variable(t, ds, "v")
		variable(t, ds, "a/v")
		if p := ds.Problems(); len(p) != 1 || p[0].Path != "/b" || !errors.Is(p[0].Err, ncerr.ErrPermission) {
			t.Errorf("want ErrPermission for the group /b, got %v", p)
		}
	}
}

// A prefetch keeps at most as many names as a dataset may have nodes. A directory with
// more names is refused when it is searched. The limit counts nodes, not documents.
func TestPrefetchLimit(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := map[string]string{".zgroup": group}
	for _, g := range []string{"a", "b", "c", "d"} {
		objects[g+"/.zgroup"], objects[g+"/.zattrs"] = group, "{}"
		for _, v := range []string{"/x", "/y", "/z"} {
			objects[g+v+"/.zarray"] = oneArray
		}
	}
	store(t, o, "n", objects)
	o.Limits.MaxNodes = 16
	ds := open(t, "mem:n#mode=zarr", remoteOptions(o))
	for _, g := range ds.Root().Groups() {
		if n := len(g.Vars()); n != 3 {
			t.Errorf("%s: want 3 variables, got %d", g.Path(), n)
		}
	}
	o.Limits.MaxNodes = 15
	if _, err := openURL(t.Context(), "mem:n#mode=zarr", remoteOptions(o)); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("want ErrLimit, got %v", err)
	}
}

// A prefix without documents is listed again after the prefetch, because it is a group
// if groups or arrays exist below it. All members of a large group are found.
func TestUselessPrefetch(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := map[string]string{".zgroup": group, "big/.zgroup": group}
	for i := range 1005 {
		objects[fmt.Sprintf("big/v%d/.zarray", i)] = oneArray
	}
	for i := range 5000 {
		objects[fmt.Sprintf("waste/0.%d", i)] = "x"
	}
	store(t, o, "v", objects)
	var listed sync.Map
	o.Wrap = func(m driver.Map) driver.Map { return distant{m, nil, &listed} }
	ds := open(t, "mem:v#mode=zarr", o)
	if g := ds.Root().Groups(); len(g) != 1 || len(g[0].Vars()) != 1005 || len(ds.Problems()) > 0 {
		t.Errorf("want one group with 1005 variables, got %d groups, problems %v", len(g), ds.Problems())
	}
	n, _ := listed.Load("waste/")
	if got := n.(*atomic.Int64).Load(); got == 0 || got > 5000+1000 { // the prefetch stops at 1000 entries, and the search lists all
		t.Errorf("want 1 to 6000 listed entries, got %d", got)
	}
}

// An updated dataset keeps its consolidated metadata up to date, regardless of how the
// metadata was found.
func TestPrefetchFindsConsolidated(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"mem:k#mode=zarr", "mem:k#mode=nczarr", "mem:k"} {
		for _, consolidated := range []bool{false, true} {
			o := memory()
			ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Consolidated: consolidated})
			if err != nil {
				t.Fatal(err)
			}
			closeDataset(t, ds)
			for where, o := range map[string]*dataset.Options{"local": o, "remote": remoteOptions(o)} {
				ds := update(t, url, o)
				if ds.Consolidated() != consolidated {
					t.Errorf("%s, %s: want consolidated %v", url, where, consolidated)
				}
				closeDataset(t, ds)
			}
		}
	}
}
