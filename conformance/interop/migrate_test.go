package interop_test

import (
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// files returns the hashes of the files in a directory by path: of the documents if
// docs is set, and otherwise of the chunks.
func files(t *testing.T, dir string, docs bool) map[string][32]byte {
	t.Helper()
	out := make(map[string][32]byte)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || zarr.IsZarrDoc(d.Name()) != docs {
			return err
		}
		body, err := os.ReadFile(filepath.Join(dir, path))
		out[path] = sha256.Sum256(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refusal matches the reasons for which an array of the samples cannot be migrated.
var refusal = regexp.MustCompile(`the codec "delta" stores big-endian elements`)

// withoutRefused deletes the arrays that cannot be migrated to Zarr v3, and returns the
// document want without them.
func withoutRefused(t *testing.T, path string, want []byte) []byte {
	t.Helper()
	docs := files(t, path, true)
	out, err := exec.CommandContext(t.Context(), nczctl, "--isolation=inproc", "--json", "migrate", "--dry-run", "--to", "zarr3", path).Output()
	var plan struct {
		Refused []struct{ Path, Reason string }
	}
	if jerr := json.Unmarshal(out, &plan); jerr != nil || (err == nil) != (len(plan.Refused) == 0) {
		t.Fatalf("migrate: %v: %s", err, out)
	}
	if len(plan.Refused) > 0 {
		if err := exec.CommandContext(t.Context(), nczctl, "--isolation=inproc", "migrate", "--to", "zarr3", path).Run(); err == nil {
			t.Error("the migration succeeds although the dry run refuses it")
		}
	}
	if !maps.Equal(docs, files(t, path, true)) {
		t.Error("a refused migration or a dry run changed documents")
	}
	var doc document
	if err := json.Unmarshal(want, &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range plan.Refused {
		if !refusal.MatchString(r.Reason) {
			t.Errorf("%s: %s", r.Path, r.Reason)
		}
		delete(doc.Variables, r.Path)
		if err := os.RemoveAll(filepath.Join(path, r.Path)); err != nil {
			t.Fatal(err)
		}
	}
	if len(doc.Variables) < 20 {
		t.Errorf("only %d arrays can be migrated", len(doc.Variables))
	}
	return encode(t, &doc)
}

// TestMigrateToV3 migrates datasets of zarr-python to Zarr v3 and back. All readers of v3
// must read the values that zarr-python wrote, except those that a reader does not
// support, and zarr-python must read the same values after the migration back. Chunks
// must not change.
func TestMigrateToV3(t *testing.T) {
	t.Parallel()
	need(t, append(packages["xarray"], "tensorstore", "numcodecs")...)
	for name, readers := range map[string]string{"types": "zarr xarray tensorstore", "layout": "zarr tensorstore", "codecs": "zarr xarray tensorstore", "random": "zarr tensorstore"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, want := ownSample(t, "write.py", "--with", "zarr", "--case", name)
			if name == "random" { // zarr-python itself reads some of its arrays with other bits
				want = must(t, "read.py", "--with", "zarr", path)
			}
			want = withoutRefused(t, path, want)
			ctl(t, "consolidate", path)
			chunks := files(t, path, false)
			before := encode(t, describe(t, path, false))
			ctl(t, "migrate", "--to", "zarr3", path)
			if !maps.Equal(chunks, files(t, path, false)) {
				t.Error("chunks have changed")
			}
			same(t, before, encode(t, describe(t, path, false)), "")
			for reader := range strings.FieldsSeq(readers) {
				args := []string{"--with", reader, "--v3", path}
				if reader != "tensorstore" {
					args = append(args, "--consolidated")
				}
				for _, r := range classify(t, want, must(t, "read.py", args...)) {
					if r.outcome == wrong || r.outcome != equal && reader != "tensorstore" {
						t.Errorf("%s: %s: %v %s", reader, r.variable, r.outcome, r.why)
					}
				}
			}
			ctl(t, "migrate", "--to", "zarr2", path)
			if !maps.Equal(chunks, files(t, path, false)) {
				t.Error("chunks have changed")
			}
			for _, r := range classify(t, want, must(t, "read.py", "--with", "zarr", "--consolidated", path)) {
				if r.outcome != equal {
					t.Errorf("back: %s: %v %s", r.variable, r.outcome, r.why)
				}
			}
		})
	}
}

// TestMigrateNCZarr migrates a dataset of netCDF-C through all layouts. zarr-python must
// read the values from the layouts of pure Zarr, and netCDF-C must read the whole
// dataset at the end.
func TestMigrateNCZarr(t *testing.T) {
	t.Parallel()
	need(t, append(packages["netcdf4"], packages["xarray"]...)...)
	path, _ := ownSample(t, "write.py", "--with", "netcdf4", "--format", "nczarr")
	want := must(t, "read.py", "--with", "netcdf4", "--format", "nczarr", path)
	ours, chunks := encode(t, describe(t, path, true)), files(t, path, false)
	for _, to := range []string{"nczarr3", "nczarr"} {
		ctl(t, "migrate", "--to", to, path)
		same(t, ours, encode(t, describe(t, path, true)), "")
	}
	same(t, want, must(t, "read.py", "--with", "netcdf4", "--format", "nczarr", path), "")
	const fixed = "/: dims:"                                                                                // the older layouts have no unlimited dimensions
	for _, to := range []string{"4.9.1", "4.8.1", "4.8.0", "4.8.1", "newest", "4.8.0", "4.9.1", "newest"} { // netCDF-C 4.10 does not read 4.8
		ctl(t, "migrate", "--to", to, path)
		if to == "4.9.1" || to == "newest" {
			same(t, want, must(t, "read.py", "--with", "netcdf4", "--format", "nczarr", path), "", fixed)
		}
	}
	untyped := encode(t, describe(t, path, false))
	for _, to := range []string{"pure", "v3", "nczarr3", "v3", "pure"} {
		ctl(t, "migrate", "--to", to, path)
		args := []string{"--with", "zarr", path}
		if strings.HasSuffix(to, "3") {
			args = append(args, "--v3")
		}
		equals := 0
		for _, r := range classify(t, untyped, must(t, "read.py", args...)) {
			if r.outcome == equal {
				equals++
			} else {
				t.Errorf("%s: %s: %v %s", to, r.variable, r.outcome, r.why)
			}
		}
		if equals < 30 {
			t.Errorf("%s: zarr-python reads %d variables", to, equals)
		}
	}
	ctl(t, "migrate", "--to", "nczarr", path)
	same(t, want, must(t, "read.py", "--with", "netcdf4", "--format", "nczarr", path), "dims,attrs,fill", fixed) // Zarr v3 added _FillValue
	if !maps.Equal(chunks, files(t, path, false)) {
		t.Error("chunks have changed")
	}
}
