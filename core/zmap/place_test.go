package zmap_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// refusing is a Map that fails every Stat with err.
type refusing struct {
	driver.Map
	err error
}

func (f refusing) Stat(context.Context, string) (driver.Info, error) {
	return driver.Info{}, f.err
}

// TestPlace checks that an error contains the location of its store once, and has the
// kind and the Retryable field of its cause.
func TestPlace(t *testing.T) {
	t.Parallel()
	inner, err := memmap.NewOpener().Open(t.Context(), driver.OpenSpec{Path: "x", Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	again := ncerr.Errorf(ncerr.ErrIO, "", "", "busy")
	again.Retryable = true
	for name, c := range map[string]struct {
		err  error
		kind ncerr.Kind
		want string
	}{
		"a kind":        {ncerr.ErrPermission, ncerr.ErrPermission, `stat "k": permission denied: in s3://b/x`},
		"with words":    {again, ncerr.ErrIO, `stat "k": i/o failure: busy (in s3://b/x)`},
		"raw":           {errors.New("cable"), ncerr.ErrIO, `stat "k": i/o failure: cable (in s3://b/x)`},
		"another's key": {ncerr.Errorf(ncerr.ErrCorrupt, "get", "j", "torn"), ncerr.ErrCorrupt, `stat "k": get "j": corrupt data: torn (in s3://b/x)`},
		"absent":        {ncerr.ErrNotFound, ncerr.ErrNotFound, ncerr.New(ncerr.ErrNotFound, "stat", "k", nil).Error()},
	} {
		z := zmap.New(refusing{inner, c.err}, &zmap.Options{Name: "s3", Location: "s3://b/x"})
		_, err := z.Stat(t.Context(), "k")
		can, _ := ncerr.Retry(err)
		if ncerr.KindOf(err) != c.kind || err.Error() != c.want || can != errors.Is(c.err, ncerr.ErrIO) {
			t.Errorf("%s: got %v, retryable %t", name, err, can)
		}
	}
	if _, err := zmap.New(refusing{inner, again}, nil).Stat(t.Context(), "k"); err.Error() != `stat "k": i/o failure: busy` {
		t.Errorf("without a location: got %v", err)
	}
}
