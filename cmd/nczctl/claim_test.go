package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// inFiles is a driver with the name of the S3 driver that stores its buckets in a
// directory.
type inFiles struct {
	driver.Opener
	dir string
}

func (f inFiles) Describe() driver.Description { return driver.Description{Name: "s3", Siblings: true} }

func (f inFiles) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	return f.Opener.Open(ctx, driver.OpenSpec{Path: filepath.Join(f.dir, spec.Path), Mode: spec.Mode})
}

func (f inFiles) Remove(ctx context.Context, spec driver.OpenSpec) error {
	return f.Opener.Remove(ctx, driver.OpenSpec{Path: filepath.Join(f.dir, spec.Path)})
}

// TestCleanClaims checks that clean reports the claim of a dead process with the
// command that clears it, and that the command works.
func TestCleanClaims(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nczctl := func(want int, args ...string) string {
		t.Helper()
		code, out, text := inProcess(t, dir, []driver.Opener{inFiles{file.New(), dir}}, args...)
		if code != want {
			t.Errorf("%q: want exit code %d, got %d, %s", args, want, code, text)
		}
		return out + text
	}
	says := func(what, text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: want %q in %s", what, w, text)
			}
		}
	}
	conflict := ncerr.Exit(ncerr.ErrConflict)
	put("x.cdl", "netcdf x { dimensions: x = 2 ; variables: int v(x) ; data: v = 1, 2 ; }")

	const made, fragment = "http://127.0.0.1:9000/bkt/made", "#mode=nczarr,s3"
	put("bkt/made/.nczreplacing", `{"makes": true, "host": "ship", "pid": 77, "made": "2026-11-01T00:00:00Z", "nodes": {"": null, "v": {"rank": 1, "separator": "."}}}`)
	put("bkt/made/v/0", "12345678")
	put("bkt/made/v/.zarray", `{"shape": [2]}`)
	remedy := "nczctl clean --remove '" + made + fragment + "'"
	says("gen", nczctl(conflict, "gen", "-o", made+fragment, at("x.cdl")), "a dataset is being created at this location by process 77", remedy)
	says("dump", nczctl(ncerr.Exit(ncerr.ErrNotZarr), "dump", made+fragment), "a dataset is being created at this location by process 77", remedy)
	says("clean", nczctl(0, "clean", made+fragment), "bkt/made: claim of a process that creates a dataset: present, by process 77 on \"ship\"", "died: "+remedy)
	says("resume", nczctl(conflict, "clean", "--resume-replace", made+fragment), remedy)
	says("json", nczctl(0, "clean", "--json", made+fragment), `"next": "`+remedy+`"`)
	says("remove", nczctl(0, "clean", "--remove", made+fragment), "claim of a process that creates a dataset: removed")
	says("clean of nothing", nczctl(0, "clean", made+fragment))
	nczctl(0, "gen", "-o", made+fragment, at("x.cdl"))

	const old, stage = "http://127.0.0.1:9000/bkt/old", "bkt/old.nczstage-abcdefghij"
	nczctl(0, "gen", "-o", old+fragment, at("x.cdl"))
	nczctl(0, "gen", "-o", "http://127.0.0.1:9000/"+stage+fragment, at("x.cdl"))
	claim := `{"stage": "` + stage + `", "host": "ship", "pid": 78, "made": "2026-11-01T00:00:00Z"}`
	put(stage+"/.nczstage", claim)
	put("bkt/old/.nczreplacing", claim)
	if err := os.Remove(at("bkt/old/.zgroup")); err != nil {
		t.Fatal(err)
	}
	remedy = "nczctl copy --resume-replace '" + old + fragment + "'"
	for _, args := range [][]string{{"clean"}, {"clean", "--remove"}} {
		says(strings.Join(args, " "), nczctl(0, append(args, old+fragment)...), "claim of a process that replaces the dataset: present, by process 78", "being moved into place", "died: "+remedy)
	}
	nczctl(2, "clean", "--remove", "--resume-replace", old+fragment)
	says("resume", nczctl(0, "clean", "--resume-replace", old+fragment), "claim of a process that replaces the dataset: replaced")
	says("dump", nczctl(0, "dump", old+fragment), "v = 1, 2")
	if text := nczctl(0, "clean", old+fragment); text != "" {
		t.Errorf("clean after the replacement: want no output, got %s", text)
	}

	// A probe object of a killed copy does not prevent a replacement.
	probe := "bkt/old/.nczprobe-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	put(probe, "x")
	says("probe", nczctl(0, "clean", old+fragment), `object ".nczprobe-ABCDEFGHIJKLMNOPQRSTUVWXYZ"`, "present")
	says("probe", nczctl(0, "clean", "--remove", old+fragment), "removed")
	put(probe, "x")
	put("bkt/old/v/.nczprobe-2BCDEFGHIJKLMNOPQRSTUVWXYZ", "x")
	nczctl(0, "gen", "--overwrite", "-o", old+fragment, at("x.cdl"))
	for _, name := range []string{probe, "bkt/old/v/.nczprobe-2BCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		if _, err := os.Stat(at(name)); err == nil {
			t.Errorf("%s was not removed", name)
		}
	}
	says("resume again", nczctl(ncerr.Exit(ncerr.ErrNotFound), "clean", "--resume-replace", old+fragment), "no replacement is in progress at this location")
}
