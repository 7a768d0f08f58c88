package dataset_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// narrow is a store with low limits on key and object sizes. A put of an object other than
// a claim fails the test.
type narrow struct {
	driver.Map
	t         *testing.T
	maxKey    int
	maxObject int64
}

func (n narrow) Capabilities() driver.Capabilities {
	c := n.Map.Capabilities()
	c.MaxKey, c.MaxObject = n.maxKey, n.maxObject
	return c
}

func (n narrow) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if key == zarr.ReplacingMark { // the claim of the location
		return n.Map.Put(ctx, key, body, o)
	}
	n.t.Errorf("%s was sent", key)
	return driver.Info{}, ncerr.ErrIO
}

// TestVariablesExceedStoreLimits checks that variables that are too large for the store
// are refused when they are defined, before any of their objects is sent, and that
// variables that just fit are accepted.
func TestVariablesExceedStoreLimits(t *testing.T) {
	t.Parallel()
	v1, name := zarr.LayoutV1, strings.Repeat("v", 20)
	for what, tc := range map[string]struct {
		layout    *zarr.Layout
		maxKey    int
		maxObject int64
		key       string // key in the error; empty if the variable fits
	}{
		"no limits":              {},
		"longest chunk fits":     {maxKey: len("g/" + name + "/999.1000")},
		"chunk is one too long":  {maxKey: len("g/"+name+"/999.1000") - 1, key: "/g/" + name + "/999.1000"},
		"document of first form": {layout: &v1, maxKey: len("g/"+name+"/.nczarray") - 1, key: "/g/" + name + "/.nczarray"},
		"object fits":            {maxObject: 4},
		"object is too large":    {maxObject: 3, key: "/g/" + name},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := memory()
			o.Wrap = func(m driver.Map) driver.Map { return narrow{m, t, tc.maxKey, tc.maxObject} }
			ds, err := createURL(t.Context(), "mem:"+t.Name(), &dataset.CreateOptions{Options: *o, Layout: tc.layout})
			if err != nil {
				t.Fatal(err)
			}
			g, err := ds.Root().DefineGroup("g")
			if err != nil {
				t.Fatal(err)
			}
			dims := make([]*dataset.Dim, 2)
			for i, n := range []int64{1000, 1001} {
				if dims[i], err = g.DefineDim(fmt.Sprintf("d%d", i), n, false); err != nil {
					t.Fatal(err)
				}
			}
			_, err = g.DefineVar(t.Context(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: dims, Chunks: []int64{1, 1}})
			switch {
			case tc.key == "" && err != nil:
				t.Errorf("a variable that fits was refused: %v", err)
			case tc.key != "" && (ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), fmt.Sprintf("%q:", tc.key))):
				t.Errorf("want ErrLimit with %s, got %v", tc.key, err)
			case tc.key != "" && len(g.Vars()) > 0:
				t.Error("the refused variable exists")
			}
		})
	}
}

// shortKeys is a store with a low limit on key sizes that counts the puts sent to it.
type shortKeys struct {
	driver.Map
	maxKey int
	sent   *atomic.Int64
}

func (c shortKeys) Capabilities() driver.Capabilities {
	caps := c.Map.Capabilities()
	caps.MaxKey = c.maxKey
	return caps
}

func (c shortKeys) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	c.sent.Add(1)
	return c.Map.Put(ctx, key, body, opts)
}

// TestGrowthExceedsStoreLimits checks that growth beyond the limit on key sizes is
// refused before anything is sent, even if only the keys of another variable with the
// same dimension would be too long. The variable is then unchanged.
func TestGrowthExceedsStoreLimits(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		other  string // the other variable
		maxKey int
		key    string // key in the error; empty if the growth fits
	}{
		"fits":                 {other: "o", maxKey: len("variable/100000000")},
		"one too long":         {other: "o", maxKey: len("variable/100000000") - 1, key: "/variable/100000000"},
		"another one too long": {other: "variables", maxKey: len("variable/100000000"), key: "/variables/100000000"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			o := memory()
			o.Wrap = func(m driver.Map) driver.Map { return shortKeys{m, tc.maxKey, &sent} }
			ds, err := createURL(t.Context(), "mem:"+t.Name(), &dataset.CreateOptions{Options: *o})
			if err != nil {
				t.Fatal(err)
			}
			time, err := ds.Root().DefineDim("time", 99_999_999, true)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"variable", tc.other} {
				if _, err := ds.Root().DefineVar(t.Context(), name, &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{time}, Chunks: []int64{1}}); err != nil {
					t.Fatal(err)
				}
			}
			v, err := ds.Root().Var("variable")
			if err != nil {
				t.Fatal(err)
			}
			if err := ds.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := sent.Load()
			err = v.Write(t.Context(), chunk.Selection{Start: []int64{99_999_998}, Count: []int64{3}}, []int32{1, 2, 3})
			if tc.key == "" {
				if err != nil || v.Shape()[0] != 100_000_001 {
					t.Errorf("want length 100000001, got %v, shape %v", err, v.Shape())
				}
				return
			}
			if ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), fmt.Sprintf("%q:", tc.key)) {
				t.Errorf("want ErrLimit with %s, got %v", tc.key, err)
			}
			if n := sent.Load() - before; n != 0 || v.Shape()[0] != 99_999_999 {
				t.Errorf("want no requests and the old shape, got %d requests, shape %v", n, v.Shape())
			}
		})
	}
}
