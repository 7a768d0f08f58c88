package dataset_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// aliased is a plugin driver with several names per location: it ignores the part of a
// path before the last "=".
type aliased struct{ driver.Opener }

func (aliased) Describe() driver.Description { return driver.Description{Name: "tape"} }

func (aliased) place(spec driver.OpenSpec) driver.OpenSpec {
	spec.Path = spec.Path[strings.LastIndexByte(spec.Path, '=')+1:]
	return spec
}

func (a aliased) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	return a.Opener.Open(ctx, a.place(spec))
}

func (a aliased) Remove(ctx context.Context, spec driver.OpenSpec) error {
	return a.Opener.Remove(ctx, a.place(spec))
}

// mounted is a plugin driver that provides local directories under additional names.
type mounted struct{ aliased }

func (mounted) Describe() driver.Description { return driver.Description{Name: "mount"} }

// CheckOverlap refuses a source and destination that are the same or nested, for any
// spelling, and changes nothing.
func TestCheckOverlap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := &dataset.Options{SingleWriter: true, Registry: registry.New([]driver.Opener{
		file.New(), zip.New(), aliased{memmap.NewOpener()}, mounted{aliased{file.New()}}, newBuckets(),
	})}
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.MkdirAll(in("d"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		in("a.zarr"), in("d/x.zip"), in("tape=one") + "#driver=tape", in("tape=two") + "#driver=tape",
		"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "s3://bkt/other.zarr#aws.endpoint=http://127.0.0.1:9000",
	} {
		closeDataset(t, create(t, url, o))
	}
	if err := errors.Join(os.Symlink("a.zarr", in("link")), os.Link(in("d/x.zip"), in("hard.zip"))); err != nil {
		t.Skip(err)
	}
	same, below, above, apart := "are the same", "is inside the source", "is inside the destination", ""
	for _, c := range []struct{ from, to, want string }{
		{in("a.zarr"), in("a.zarr/"), same},
		{in("a.zarr"), in("link"), same},
		{in("link"), in("d/../a.zarr") + "#mode=zarr,file", same},
		{in("a.zarr"), in("link/b.zip"), below},
		{in("a.zarr"), in("a.zarr/new") + "#driver=tape", below},
		{in("a.zarr"), dir, above},
		{in("d/x.zip"), in("hard.zip"), same},
		{in("d/x.zip"), in("d"), above},
		{in("a.zarr"), in("b.zarr"), apart},
		{in("a.zarr"), in("mnt=") + in("a.zarr") + "#driver=mount", same},
		{in("a.zarr"), in("mnt=") + dir + "#driver=mount", above},
		{in("link"), in("mnt=") + dir + "#driver=mount", above},
		{in("d/x.zip"), in("mnt=") + in("d") + "#driver=mount", above},
		{in("a.zarr"), in("mnt=") + in("d") + "#driver=mount", apart},
		{in("tape=one") + "#driver=tape", in("tape=one") + "#driver=tape", same},
		{in("tape=one") + "#driver=tape", in("archive=one") + "#driver=tape", same},
		{in("tape=one") + "#driver=tape", in("tape=two") + "#driver=tape", apart},
		{in("tape=one") + "#driver=tape", in("tape=new") + "#driver=tape", apart},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://127.0.0.1:9000/bkt/top/a.zarr#mode=s3", same},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://localhost:9000/bkt/top/a.zarr#mode=s3", same},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://localhost:9000/bkt/top/a.zarr/in#mode=s3", below},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://localhost:9000/bkt/top#mode=s3", above},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://127.0.0.1:9000/bkt/top#mode=s3", above},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://127.0.0.1:9000/bkt/top/a.zarr/g#mode=s3", below},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://localhost:9000/bkt/top/a.zarr2#mode=s3", apart},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://localhost:9000/mirror/top/a.zarr#mode=s3", apart},
		{"s3://bkt/top/a.zarr#aws.endpoint=http://127.0.0.1:9000", "http://localhost:9000/bkt/other.zarr#mode=s3", apart},
	} {
		src := open(t, c.from, o)
		before, err := src.Map().Search(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		err = dataset.CheckOverlap(t.Context(), src, locate(c.to), o)
		if c.want == apart && err != nil || c.want != apart && (!errors.Is(err, ncerr.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("from %s to %s: want %q, got %v", c.from, c.to, c.want, err)
		}
		if after, err := open(t, c.from, o).Map().Search(t.Context(), ""); err != nil || len(after) != len(before) {
			t.Errorf("from %s to %s: the source has changed to %q, %v", c.from, c.to, after, err)
		}
	}
}
