package cdl_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
)

// model is a dataset of the property tests: CDL and the expected values.
type model struct {
	text   string
	values map[string]any // typed slices by variable
	shapes map[string][]int64
}

// drawModel draws a dataset of one group with variables of all types. plain excludes
// values that netCDF-4 files and NCZarr store differently.
func drawModel(t *rapid.T, plain bool) model {
	m := model{values: map[string]any{}, shapes: map[string][]int64{}}
	lens := map[string]int64{
		"u": rapid.Int64Range(1, 4).Draw(t, "u"), "a": rapid.Int64Range(1, 9).Draw(t, "a"),
		"b": rapid.Int64Range(1, 40).Draw(t, "b"), "c": rapid.Int64Range(1, 3).Draw(t, "c"),
	}
	var head, data strings.Builder
	fmt.Fprintf(&head, "netcdf x {\ndimensions: u = UNLIMITED ; a = %d ; b = %d ; c = %d ;\nvariables:\n", lens["a"], lens["b"], lens["c"])
	all := []string{"", "u", "a", "b", "a,b", "b,a", "u,c", "c,a,c", "u,a,b"}
	for i := range rapid.IntRange(1, 6).Draw(t, "vars") {
		name := "v" + strconv.Itoa(i)
		nc := dtype.NC(rapid.IntRange(int(dtype.NCByte), int(dtype.NCString)).Draw(t, "type"))
		dims := rapid.SampledFrom(all).Draw(t, "dims")
		shape, n := []int64{}, int64(1)
		for d := range strings.SplitSeq(dims, ",") {
			if d != "" {
				shape = append(shape, lens[d])
				n *= lens[d]
			}
		}
		list := ""
		if dims != "" {
			list = "(" + dims + ")"
		}
		fmt.Fprintf(&head, "%s %s%s ;\n", nc, name, list)
		vals, text := drawTyped(t, nc, n, shape, plain)
		if chars, ok := vals.([]uint8); ok && nc == dtype.NCChar && dims == "u" && chars[n-1] == 0 {
			chars[n-1], text = '.', text[:len(text)-4]+`056"` // ncdump does not print zero bytes at the end of the last record
		}
		fmt.Fprintf(&data, "%s = %s ;\n", name, text)
		m.values[name], m.shapes[name] = vals, shape
	}
	m.text = head.String() + "data:\n" + data.String() + "}\n"
	return m
}

// drawTyped draws n values of a type and their CDL.
func drawTyped(t *rapid.T, nc dtype.NC, n int64, shape []int64, plain bool) (any, string) {
	switch nc {
	case dtype.NCByte:
		return drawInts(t, n, rapid.Int8())
	case dtype.NCShort:
		return drawInts(t, n, rapid.Int16())
	case dtype.NCInt:
		return drawInts(t, n, rapid.Int32())
	case dtype.NCInt64:
		return drawInts(t, n, rapid.Int64())
	case dtype.NCUByte:
		return drawInts(t, n, rapid.Uint8())
	case dtype.NCUShort:
		return drawInts(t, n, rapid.Uint16())
	case dtype.NCUInt:
		return drawInts(t, n, rapid.Uint32())
	case dtype.NCUInt64:
		return drawInts(t, n, rapid.Uint64())
	case dtype.NCFloat:
		return drawFloats(t, n, rapid.Float32())
	case dtype.NCDouble:
		return drawFloats(t, n, rapid.Float64())
	case dtype.NCChar:
		return drawChars(t, n, shape, plain)
	}
	return drawStrings(t, n, plain)
}

func drawInts[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](t *rapid.T, n int64, gen *rapid.Generator[T]) ([]T, string) {
	vals, text := make([]T, n), make([]string, n)
	for i := range vals {
		vals[i] = gen.Draw(t, "value")
		text[i] = fmt.Sprint(vals[i])
		if strings.HasPrefix(text[i], "-") && rapid.Bool().Draw(t, "long") {
			text[i] += "LL"
		}
	}
	return vals, strings.Join(text, ", ")
}

func drawFloats[T float32 | float64](t *rapid.T, n int64, gen *rapid.Generator[T]) ([]T, string) {
	vals, text := make([]T, n), make([]string, n)
	for i := range vals {
		vals[i] = gen.Draw(t, "value")
		if rapid.IntRange(0, 9).Draw(t, "nan") == 0 {
			vals[i] = T(math.NaN())
		}
		if text[i] = floatText(float64(vals[i]), false); float64(vals[i]) == math.Trunc(float64(vals[i])) && math.Abs(float64(vals[i])) < 1e9 {
			text[i] = strconv.Itoa(int(vals[i]))
			vals[i] = T(int(vals[i])) // exclude negative zero
		}
	}
	return vals, strings.Join(text, ", ")
}

// drawChars draws whole rows, because strings must not cross rows.
func drawChars(t *rapid.T, n int64, shape []int64, plain bool) ([]uint8, string) {
	row := int64(1)
	if len(shape) > 0 {
		row = shape[len(shape)-1]
	}
	low := byte(0)
	if plain {
		low = 32 // netcdf-c may lose a zero byte or a line feed
	}
	vals, text := make([]uint8, n), []string{}
	for from := int64(0); from < n; from += row {
		var b strings.Builder
		for i := range row {
			c := rapid.ByteRange(low, 255).Draw(t, "char")
			vals[from+i] = c
			fmt.Fprintf(&b, `\%03o`, c)
		}
		text = append(text, `"`+b.String()+`"`)
	}
	return vals, strings.Join(text, ", ")
}

func drawStrings(t *rapid.T, n int64, plain bool) ([]string, string) {
	low := 0
	if plain {
		low = 1 // NCZarr cannot distinguish an empty string from an absent one
	}
	runes := []rune("ab \t\n\\\"'éΚ\x01;,")
	vals, text := make([]string, n), make([]string, n)
	for i := range vals {
		vals[i] = rapid.StringOfN(rapid.SampledFrom(runes), low, 60, 128).Draw(t, "string")
		text[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(vals[i]) + `"`
	}
	return vals, strings.Join(text, ", ")
}

// TestBuildValues builds random datasets and compares the values read through nczarr with
// the expected values. It then dumps the datasets with full precision, builds them from the
// dumps and compares the values again.
func TestBuildValues(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		m := drawModel(t, false)
		first := check(t, m.text, m)
		check(t, first, m)
	})
}

// check builds a dataset from CDL, compares all values with the model, and returns the
// dump.
func check(t *rapid.T, text string, m model) string {
	ctx, r := context.Background(), newRegistry()
	f, err := cdl.Parse(strings.NewReader(text), "x.cdl", nil)
	if err != nil {
		t.Fatalf("parse: %v\n%s", err, text)
	}
	if err := cdl.Generate(ctx, f, "mem:x", r.create()); err != nil {
		t.Fatalf("generate: %v\n%s", err, text)
	}
	ds, err := open.Open(ctx, "mem:x", &r.create().Options)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range m.values {
		v, err := ds.Root().Var(name)
		if err != nil {
			t.Fatal(err)
		}
		if shape := v.Shape(); !slices.Equal(shape, m.shapes[name]) {
			t.Fatalf("%s has shape %v, want %v\n%s", name, shape, m.shapes[name], text)
		}
		got := v.NewSlice(v.All().Len())
		if err := v.Read(ctx, v.All(), got); err != nil {
			t.Fatal(err)
		}
		if a, b := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); a != b { // compared as strings, because NaN != NaN
			t.Fatalf("%s\n got %s\nwant %s\n%s", name, a, b, text)
		}
	}
	var b strings.Builder
	if err := cdl.Write(ctx, &b, ds, &cdl.WriteOptions{FullPrecision: true, Special: true}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestLiveOracle compares dumps of random datasets with the output of the installed ncgen
// and ncdump.
func TestLiveOracle(t *testing.T) {
	t.Parallel()
	needTools(t)
	dir := t.TempDir()
	rounds := 0
	rapidseed.Check(t, func(t *rapid.T) {
		if rounds++; rounds > 25 {
			return
		}
		m := drawModel(t, true)
		in, out := filepath.Join(dir, "x.cdl"), filepath.Join(dir, "x.nc")
		if err := os.WriteFile(in, []byte(m.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if text, err := exec.Command("ncgen", "-4", "-lb", "-o", out, in).CombinedOutput(); err != nil {
			t.Fatalf("ncgen: %v %s\n%s", err, text, m.text)
		}
		want, err := exec.Command("ncdump", out).Output()
		if err != nil {
			t.Fatalf("ncdump: %v\n%s", err, m.text)
		}
		r := newRegistry()
		f, err := cdl.Parse(strings.NewReader(m.text), "x.cdl", nil)
		if err == nil {
			err = cdl.Generate(context.Background(), f, "mem:x", r.create())
		}
		if err != nil {
			t.Fatalf("parse or generate: %v\n%s", err, m.text)
		}
		ds, err := open.Open(context.Background(), "mem:x", &r.create().Options)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := cdl.Write(context.Background(), &got, ds, nil); err != nil {
			t.Fatal(err)
		}
		if d := diff(got.String(), string(want)); d != "" {
			t.Fatalf("%s\n%s", d, m.text)
		}
	})
}
