package cdl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
)

// repeated is a reader of head, n copies of unit, and tail. The content is generated on
// demand and not held in memory.
type repeated struct {
	head, unit, tail string
	n                int64
}

func (r *repeated) size() int64 {
	return int64(len(r.head)) + r.n*int64(len(r.unit)) + int64(len(r.tail))
}

func (r *repeated) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		body := at - int64(len(r.head))
		end := r.n * int64(len(r.unit))
		switch {
		case body < 0:
			n += copy(p[n:], r.head[at:])
		case body < end:
			n += copy(p[n:], r.unit[body%int64(len(r.unit)):])
		case body-end < int64(len(r.tail)):
			n += copy(p[n:], r.tail[body-end:])
		default:
			return n, io.EOF
		}
	}
	return n, nil
}

// section returns the content as a reader that supports seeking.
func (r *repeated) section() io.Reader { return io.NewSectionReader(r, 0, r.size()) }

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// hostile returns inputs of about size bytes that must not take much time or memory. Parse
// must stop at the first error.
func hostile(size int64) map[string]struct {
	text repeated
	want string
	kind ncerr.Kind
} {
	type entry = struct {
		text repeated
		want string
		kind ncerr.Kind
	}
	return map[string]entry{
		"groups":  {repeated{"netcdf x {", "group: g {", "", size / 10}, "groups are nested deeper than the limit of 256 levels", ncerr.ErrLimit},
		"lists":   {repeated{"netcdf x { variables: int v ; data: v = ", "{", "", size}, "lists are nested deeper than the limit of 64 levels", ncerr.ErrLimit},
		"comment": {repeated{"netcdf x { /*", "*", "", size}, "unterminated comment", ncerr.ErrInvalid},
		"name":    {repeated{"netcdf x { dimensions: ", "n", "", size}, "the name has more than the limit", ncerr.ErrLimit},
		"number":  {repeated{"netcdf x { variables: int v ; data: v = ", "1", "", size}, "the number has more than the limit of 1024 characters", ncerr.ErrInvalid},
		"rank":    {repeated{"netcdf x { dimensions: d = 1 ; variables: int v(d", ",d", "", size / 2}, `variable "v" has more than the limit of 64 dimensions`, ncerr.ErrLimit},
		"path":    {repeated{"netcdf x { variables: int v(", "/x", "", size / 2}, "the path has more than the limit", ncerr.ErrLimit},
		"values":  {repeated{"netcdf x { variables: int v ; data: v = 1", ",2", " }", size / 2}, `expected ";", found "}"`, ncerr.ErrInvalid},
	}
}

// TestHostile checks that hostile input fails with a one-line error in bounded memory.
func TestHostile(t *testing.T) { //nolint:paralleltest // the test measures the memory of the process and must run alone
	for name, c := range hostile(16 << 20) {
		var err error
		used := allocated(func() { _, err = cdl.Parse(c.text.section(), "x.cdl", nil) })
		if err == nil || !strings.Contains(err.Error(), c.want) || ncerr.KindOf(err) != c.kind || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%s: want an error with %q, got %v", name, c.want, err)
		}
		if limit := uint64(1 << 20); used > limit {
			t.Errorf("%s: want at most %d bytes of memory, got %d", name, limit, used)
		}
	}
}

// TestHostileHeader checks the limits on the parts of a file that Parse keeps in memory.
func TestHostileHeader(t *testing.T) { //nolint:paralleltest // the test measures the memory of the process and must run alone
	for name, c := range map[string]struct {
		text repeated
		want string
	}{
		"attribute": {repeated{"netcdf x { :a = 1", ",2", " ; }", 1 << 23}, "more than the limit of 4194304 values of attributes"},
	} {
		var err error
		used := allocated(func() { _, err = cdl.Parse(c.text.section(), "x.cdl", mapTypes) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", name, c.want, err)
		}
		if limit := uint64(2 << 30); used > limit {
			t.Errorf("%s: want at most %d bytes of memory, got %d", name, limit, used)
		}
	}
	for _, c := range []struct {
		head, unit string
		n          int
		want       string
	}{
		{"", ":a%d = 1 ; ", 1<<14 + 1, "the variable or group has more than the limit of 16384 attributes"},
		{"dimensions: ", "d%d=1;", 1<<20 + 1, "more than the limit of 1048576 names"},
		{"variables: ", "int v%d;", 1<<17 + 1, "more than the limit of 131072 variables and groups"},
		{"", "group: g%d {} ", 1<<17 + 1, "more than the limit of 131072 variables and groups"},
	} {
		b := []byte("netcdf x { " + c.head)
		for i := range c.n {
			b = fmt.Appendf(b, c.unit, i)
		}
		if _, err := cdl.Parse(bytes.NewReader(append(b, '}')), "x.cdl", nil); ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", c.unit, c.want, err)
		}
	}
}

// TestParseMemory checks that parsing 4 million values allocates at most 1 MiB, and that
// writing them allocates at most 96 MiB.
func TestParseMemory(t *testing.T) { //nolint:paralleltest // the test measures the memory of the process and must run alone
	text := repeated{"netcdf x { dimensions: n = 4000001 ; variables: float v(n) ; data: v = 1", ", 23.5", " ; }", 4000000}
	var f *cdl.File
	var err error
	if used := allocated(func() { f, err = cdl.Parse(text.section(), "x.cdl", nil) }); err != nil || used > 1<<20 {
		t.Errorf("Parse: want at most 1 MiB of memory, got %d bytes, error %v", used, err)
	}
	r := newRegistry()
	used := allocated(func() {
		err = cdl.Generate(context.WithoutCancel(t.Context()), f, "file://"+t.TempDir()+"/x", r.create())
	})
	if err != nil || used > 96<<20 { // a chunk of 16 MB, its encoded form and a slab
		t.Errorf("Generate: want at most 96 MiB of memory, got %d bytes, error %v", used, err)
	}
}

// TestHugeDims checks that variables with huge dimensions do not exhaust memory.
// Generate may fail, but only with a kind for sizes or shapes.
func TestHugeDims(t *testing.T) {
	t.Parallel()
	f, err := cdl.Parse(strings.NewReader(`netcdf x { dimensions: a = 9223372036854775807 ; b = 9223372036854775807 ; u = UNLIMITED ;
variables: byte v(a) ; char c(u, b) ; int w(a, b) ; data: v = 1 ; }`), "x.cdl", nil)
	if err != nil {
		t.Fatal(err)
	}
	err = cdl.Generate(t.Context(), f, "mem:x", newRegistry().create())
	if k := ncerr.KindOf(err); err != nil && k != ncerr.ErrLimit && k != ncerr.ErrBadChunk && k != ncerr.ErrRange && k != ncerr.ErrInvalid {
		t.Errorf("unexpected error %v", err)
	}
}

// FuzzBuild generates datasets in memory from valid CDL and dumps them. It checks that a
// dump can be read back, and that it stays the same unless a dimension is unlimited.
func FuzzBuild(f *testing.F) {
	for _, seed := range []string{
		smallText, unlimitedText, timesText,
		"netcdf x { dimensions: u = UNLIMITED ; n = 3 ; variables: char c(u, n) ; string s(n) ; data: c = \"ab\", 'c', \"defg\" ; s = NIL, \"x\" ; }",
		"netcdf x { dimensions: u = UNLIMITED ; n = 0 ; variables: char c(u, n) ; data: c = \"00\", '0' ; }", // no room for a value
		"netcdf x { types: byte enum e {a = 1, b = -1} ; variables: e v ; e v:_FillValue = b ; data: v = a ; }",
		"netcdf x { dimensions: n = 4 ; variables: int v(n) ; v:_Filter = \"32015,3|1,4\" ; v:_ChunkSizes = 2 ; v:_Endianness = \"big\" ; data: v = 1, 0x7fffffff, 0777, _ ; }",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := cdl.Parse(strings.NewReader(text), "fuzz.cdl", mapTypes)
		if err != nil || size(file.Root, longest(text)) > fuzzValues {
			return
		}
		r := newRegistry()
		if err := cdl.Generate(context.Background(), file, "mem:x", r.create()); err != nil {
			if ncerr.KindOf(err) == ncerr.ErrInternal {
				t.Fatal(err)
			}
			return
		}
		ds, err := open.Open(context.Background(), "mem:x", &r.create().Options)
		if err != nil {
			t.Fatalf("open: %v\n%s", err, text)
		}
		first, second := dumpAll(t, ds), ""
		again, err := cdl.Parse(strings.NewReader(first), "again.cdl", nil)
		if err != nil {
			t.Fatalf("parse the dump: %v\n%s\n%s", err, text, first)
		}
		if err = cdl.Generate(context.Background(), again, "mem:y", r.create()); err == nil {
			ds, err = open.Open(context.Background(), "mem:y", &r.create().Options)
		}
		if err != nil {
			t.Fatalf("generate from the dump: %v\n%s\n%s", err, text, first)
		}
		if second = dumpAll(t, ds); second != first && !strings.Contains(text, "UNLIMITED") {
			t.Fatalf("the dump changes when read back: %s\n%s", text, diff(second, first))
		}
	})
}

// dumpAll dumps with full precision and special attributes, under a fixed name.
func dumpAll(t *testing.T, ds *dataset.Dataset) string {
	return dump(t, ds, &cdl.WriteOptions{Name: "x", FullPrecision: true, Special: true})
}

// fuzzValues is the maximum number of values in the variables of a file for a fuzz
// target. A file of 900 bytes can define 64 million values: a variable can extend an
// unlimited dimension that another variable uses several times.
const fuzzValues = 1 << 16

// longest returns an upper bound on the length of an unlimited dimension: the number of
// values plus the length of the longest string in bytes.
func longest(text string) float64 {
	n := strings.Count(text, ",") + 1
	most := 0
	for i, part := range strings.Split(strings.ReplaceAll(text, `\"`, "__"), `"`) {
		if i%2 == 1 {
			most = max(most, len(part))
		}
	}
	return float64(n + most)
}

// size returns an upper bound on the number of values in the variables of a group.
func size(g *cdl.Group, unlimited float64) float64 {
	total := 0.0
	for _, v := range g.Vars {
		n := 1.0
		for _, d := range v.Dims {
			if d.Dim.Unlimited {
				n *= unlimited
			} else {
				n *= float64(d.Dim.Len)
			}
		}
		total += n
	}
	for _, sub := range g.Groups {
		total += size(sub, unlimited)
	}
	return total
}

// TestFuzzSize checks that the bound rejects small files with many values, and accepts
// the seeds.
func TestFuzzSize(t *testing.T) {
	t.Parallel()
	ones := strings.TrimSuffix(strings.Repeat("1, ", 400), ", ")
	for text, small := range map[string]bool{
		smallText: true, unlimitedText: true, timesText: true,
		"netcdf x { dimensions: u = UNLIMITED ; variables: int x(u) ; int v(u, u, u) ; data: x = " + ones + " ; v = {{1}} ; }":                     false,
		"netcdf x { dimensions: u = UNLIMITED ; variables: char x(u) ; int v(u, u) ; data: x = \"" + strings.Repeat("x", 400) + "\" ; v = {1} ; }": false,
		"netcdf x { dimensions: n = 100000 ; variables: int v(n) ; v:_ChunkSizes = 1 ; v:_NoFill = \"true\" ; data: v = 1 ; }":                     false,
	} {
		file, err := cdl.Parse(strings.NewReader(text), "x.cdl", mapTypes)
		if err != nil {
			t.Fatal(err)
		}
		if n := size(file.Root, longest(text)); n <= fuzzValues != small {
			t.Errorf("unexpected number of values %.0f in %.100s", n, text)
		}
	}
}
