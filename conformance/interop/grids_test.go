package interop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	drivers "github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// gridReaders lists the peers that read Zarr v3 in the order of the table.
var gridReaders = []struct{ name, title string }{
	{"zarr", "zarr-python"}, {"zarrs", "zarrs in zarr-python"}, {"xarray", "xarray"}, {"tensorstore", "tensorstore"}, {"zarrita", "zarrita.js"}, {"gdal", "GDAL"},
}

// TestGrids reads arrays of zarr-python with all kinds of chunk grids, chunk keys and
// shards. nczarr changes every value in place, and the peers must read the new values. It
// compares the results with the table of the compatibility page.
func TestGrids(t *testing.T) {
	t.Parallel()
	for _, r := range gridReaders {
		need(t, packages[r.name]...)
	}
	path := filepath.Join(t.TempDir(), "x.zarr")
	m := newMatrix()
	add := func(column string, results []result) {
		for _, r := range results {
			m.add("grids", r.variable, column, r)
		}
	}
	wrote := must(t, "grids_v3.py", path)
	add("read", classify(t, wrote, encode(t, describe(t, path, false))))
	add("written", increment(t, path))
	want := must(t, "grids_v3.py", "--plus", "1", "--describe", path)
	reads := func(name string) []result {
		results := readResults(t, want, name, "zarr", " v3", path)
		for i := range results { // arrays that nczarr cannot write keep the old values
			if results[i].outcome == wrong && m.outcomes[entry{"grids", results[i].variable, "written"}] == refused {
				results[i] = result{results[i].variable, refused, "not written by nczarr"}
			}
		}
		return results
	}
	for _, r := range gridReaders {
		add(r.name, reads(r.name))
	}
	rows := sortedVariables(t, wrote)
	for _, name := range rows { // one rectilinear array makes xarray refuse the dataset
		if strings.HasPrefix(name, "/rectilinear") {
			if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, r := range reads("xarray") {
		if !strings.HasPrefix(r.variable, "/rectilinear") {
			at := entry{"grids", r.variable, "xarray"}
			m.outcomes[at], m.why[at], m.mixed[at] = r.outcome, r.why, false
		}
	}
	for at, o := range m.outcomes {
		if o == wrong || at.peer == "read" && o != equal || at.peer == "zarr" && o != equal && !strings.Contains(at.row, "_then_") {
			t.Errorf("%s, %s: %s", at.row, at.peer, m.why[at])
		}
	}
	var out strings.Builder
	out.WriteString("| array of zarr-python | read by nczarr | changed by nczarr |")
	for _, r := range gridReaders {
		out.WriteString(" then read by " + r.title + " |")
	}
	out.WriteString("\n" + strings.Repeat("|---", 3+len(gridReaders)) + "|\n")
	var notes []string
	for _, name := range rows {
		out.WriteString("| " + strings.ReplaceAll(strings.TrimPrefix(name, "/"), "_", " ") + " | " + m.show(entry{"grids", name, "read"}, &notes) + " | " + m.show(entry{"grids", name, "written"}, &notes) + " |")
		for _, r := range gridReaders {
			out.WriteString(" " + m.show(entry{"grids", name, r.name}, &notes) + " |")
		}
		out.WriteString("\n")
	}
	for i, n := range notes {
		if i == 0 {
			out.WriteString("\n")
		}
		out.WriteString(numbered(i+1, n))
	}
	page, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	text := replaceSection(t, string(page), "grids", "TestGrids", "\n"+out.String()+"\n")
	if *update {
		if err := os.WriteFile(compatibility, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if text != string(page) {
		t.Errorf("the table of %s differs from the results; run the test with -update and check the difference\n%s", compatibility, firstDifference(string(page), text))
	}
}

// increment adds 1 to all values of the arrays of a store, which have the type int. It
// returns the results of writing.
func increment(t *testing.T, path string) (out []result) {
	t.Helper()
	ds, err := open.Open(t.Context(), path, &dataset.Options{Registry: registry.New(drivers.New(), filters.Provider()), Update: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range ds.Root().Vars() {
		values, err := dataset.Get[int32](t.Context(), v, v.All())
		if err != nil {
			t.Fatal(v.Path(), err)
		}
		for i := range values {
			values[i]++
		}
		switch err := v.Write(t.Context(), v.All(), values); {
		case err == nil:
			out = append(out, result{v.Path(), equal, ""})
		case ncerr.KindOf(err) == ncerr.ErrUnsupported:
			out = append(out, result{v.Path(), refused, err.Error()})
		default:
			t.Fatal(v.Path(), err)
		}
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}
