package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr"
)

// makeSea writes the dataset that the programs read.
func makeSea(t *testing.T, path string) (err error) {
	t.Helper()
	ctx := t.Context()
	ds, err := nczarr.Create(ctx, path)
	if err != nil {
		return err
	}
	defer ds.Finish(ctx, &err)
	for _, c := range []struct {
		name   string
		spec   nczarr.VarSpec
		values []float64
	}{
		{"time", nczarr.VarSpec{
			Type: nczarr.Float64, Dims: []string{"time"}, Shape: []int64{nczarr.Unlimited}, Attrs: []nczarr.Attr{{Name: "units", Value: "hours since 2000-02-28"}},
		}, []float64{0, 24, 48}},
		{"lat", nczarr.VarSpec{Type: nczarr.Float32, Dims: []string{"lat"}, Shape: []int64{3}, Attrs: []nczarr.Attr{{Name: "units", Value: "degrees_north"}}}, []float64{60, 40, 20}},
		{"lon", nczarr.VarSpec{Type: nczarr.Float32, Dims: []string{"lon"}, Shape: []int64{2}}, []float64{10, 190}},
		{"temp", nczarr.VarSpec{
			Type: nczarr.Int16, Dims: []string{"time", "lat", "lon"}, Fill: -1,
			Attrs: []nczarr.Attr{{Name: "units", Value: "degC"}, {Name: "scale_factor", Value: 0.5}},
		}, []float64{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 20, 21, -1, 23, 24, 25}},
		{"level", nczarr.VarSpec{Type: nczarr.Int16, Dims: []string{"level"}, Shape: []int64{2}}, []float64{1, 2}},
	} {
		v, err := ds.DefineVar(ctx, c.name, c.spec)
		if err != nil {
			return err
		}
		var rows []nczarr.Selector
		if c.spec.Dims[0] == "time" {
			rows = append(rows, nczarr.Span(0, 3))
		}
		if err := nczarr.Write(ctx, v, c.values, rows...); err != nil {
			return err
		}
	}
	return nil
}

// TestPrograms runs the programs one after the other.
func TestPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", dir+string(filepath.Separator), "./box", "./append", "./series", "./list", "./recode").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := makeSea(t, filepath.Join(dir, "sea.zarr")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"list sea.zarr", `
/time        double [3] hours since 2000-02-28
/lat         float  [3] degrees_north
/lon         float  [2] (no units)
/temp        short  [3 3 2] degC
/level       short  [2] (no units)
`},
		{"append sea.zarr 2000-03-02", "\n"},
		{"series -lat 41 -lon 0 sea.zarr temp", `
2000-02-28T00:00:00 1 degC
2000-02-29T00:00:00 6 degC
2000-03-01T00:00:00 NaN degC
2000-03-02T00:00:00 12.5 degC
`},
		{"box sea.zarr box.zip", "\n"},
		{"list box.zip", `
/time        double [4] hours since 2000-02-28
/lat         float  [2] degrees_north
/lon         float  [1] (no units)
/temp        short  [4 2 1] degC
/level       short  [2] (no units)
`},
		{"recode box.zip small.zarr", "\n32 of 64 bytes\n40 of 64 bytes\n44 of 64 bytes\n60 of 64 bytes\n64 of 64 bytes\n"},
		{"series -lat 60 -lon 0 small.zarr temp", `
2000-02-28T00:00:00 0 degC
2000-02-29T00:00:00 5 degC
2000-03-01T00:00:00 10 degC
2000-03-02T00:00:00 12.5 degC
`},
	} {
		args := strings.Fields(c.line)
		cmd := exec.Command(filepath.Join(dir, args[0]), args[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if got := "\n" + string(out); err != nil || got != c.want {
			t.Fatalf("%s: want %s\ngot %s%v", c.line, c.want, got, err)
		}
	}
	ds, err := nczarr.Open(t.Context(), filepath.Join(dir, "small.zarr"))
	if err != nil {
		t.Fatal(err)
	}
	temp, err := ds.Var("temp")
	if err != nil || fmt.Sprint(temp.Codecs()) != `[{"id":"blosc","cname":"zstd","clevel":7}]` {
		t.Errorf("got %v, %v", temp.Codecs(), err)
	}
}

// TestProgramsAreShort counts the lines that a reader of a program has to
// understand: all but blank ones, comments and imports.
func TestProgramsAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"box", "append", "series", "list", "recode"} {
		text, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "\n)\n")
		lines := 0
		for line := range strings.Lines(body) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		if lines < 10 || lines > 45 {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}
