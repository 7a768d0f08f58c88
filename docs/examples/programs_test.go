package examples_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr"
)

var programs = []string{"append", "box", "list", "recode", "series"}

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

// listing returns what list prints about a dataset of makeSea with the given
// lengths of its dimensions.
func listing(time, lat, lon int) string {
	return fmt.Sprintf(`/time        double [%[1]d] hours since 2000-02-28
/lat         float  [%[2]d] degrees_north
/lon         float  [%[3]d] (no units)
/temp        short  [%[1]d %[2]d %[3]d] degC
/level       short  [2] (no units)
`, time, lat, lon)
}

// series returns what series prints for one temperature per day.
func series(values ...float64) string {
	var out strings.Builder
	for i, day := range []string{"02-28", "02-29", "03-01", "03-02"} {
		fmt.Fprintf(&out, "2000-%sT00:00:00 %v degC\n", day, values[i])
	}
	return out.String()
}

// TestPrograms runs the programs in order, on the output of earlier programs, and
// checks that all of them print their usage when called without arguments.
func TestPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := []string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, name := range programs {
		build = append(build, "./"+name)
	}
	if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := makeSea(t, filepath.Join(dir, "sea.zarr")); err != nil {
		t.Fatal(err)
	}
	run := func(line string) (string, error) {
		args := strings.Fields(line)
		cmd := exec.Command(filepath.Join(dir, args[0]), args[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, c := range []struct{ line, want string }{
		{"list sea.zarr", listing(3, 3, 2)},
		{"append sea.zarr 2000-03-02", ""},
		{"series -lat 41 -lon 0 sea.zarr temp", series(1, 6, math.NaN(), 12.5)},
		{"box sea.zarr box.zip", ""},
		{"list box.zip", listing(4, 2, 1)},
		{"recode box.zip small.zarr", "32 of 64 bytes\n40 of 64 bytes\n44 of 64 bytes\n60 of 64 bytes\n64 of 64 bytes\n"},
		{"series -lat 60 -lon 0 small.zarr temp", series(0, 5, 10, 12.5)},
	} {
		if got, err := run(c.line); err != nil || got != c.want {
			t.Fatalf("%s: want %s\ngot %s%v", c.line, c.want, got, err)
		}
	}
	for _, name := range programs {
		var exit *exec.ExitError
		if got, err := run(name); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.HasPrefix(got, "usage: "+name+" ") {
			t.Errorf("%s without arguments: want usage and exit code 2, got %s%v", name, got, err)
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

// TestProgramsAreShort limits the lines of each program, not counting blank
// lines, comments and imports.
func TestProgramsAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range programs {
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
		if lines < 10 || lines > 40 {
			t.Errorf("%s has %d lines, want 10 to 40", name, lines)
		}
	}
}
