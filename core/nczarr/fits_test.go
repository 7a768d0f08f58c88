package nczarr_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// narrow is a store that takes short keys and small objects only.
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

func (n narrow) Put(_ context.Context, key string, _ driver.Body, _ *driver.PutOptions) (driver.Info, error) {
	n.t.Errorf("%s was sent", key)
	return driver.Info{}, ncerr.ErrIO
}

// TestVariablesThatDoNotFit are refused when they are defined, and nothing of
// them is sent; those that just fit are not.
func TestVariablesThatDoNotFit(t *testing.T) {
	t.Parallel()
	v1, name := zarr.LayoutV1, strings.Repeat("v", 20)
	for what, tc := range map[string]struct {
		layout    *zarr.Layout
		maxKey    int
		maxObject int64
		key       string // of the error; empty: it fits
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
			ds, err := nczarr.Create(t.Context(), "mem:"+t.Name(), &nczarr.CreateOptions{Options: *o, Layout: tc.layout})
			if err != nil {
				t.Fatal(err)
			}
			g, err := ds.Root().DefineGroup("g")
			if err != nil {
				t.Fatal(err)
			}
			dims := make([]*nczarr.Dim, 2)
			for i, n := range []int64{1000, 1001} {
				if dims[i], err = g.DefineDim(fmt.Sprintf("d%d", i), n, false); err != nil {
					t.Fatal(err)
				}
			}
			_, err = g.DefineVar(t.Context(), name, &nczarr.VarSpec{Type: dtype.NCInt, Dims: dims, Chunks: []int64{1, 1}})
			switch {
			case tc.key == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.key != "" && (ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), fmt.Sprintf("%q:", tc.key))):
				t.Errorf("want ErrLimit with %s, got %v", tc.key, err)
			case tc.key != "" && len(g.Vars()) > 0:
				t.Error("the refused variable is there")
			}
		})
	}
}
