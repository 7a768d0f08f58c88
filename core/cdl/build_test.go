package cdl_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestBuildErrors checks the errors of Generate for CDL that Parse accepts.
func TestBuildErrors(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("x", 20) + `"`
	cases := []struct {
		vars, data, want string
		kind             ncerr.Kind
	}{
		{"byte v(n) ;", "v = 1, 256 ;", `2:8": value not representable: the value is out of range`, ncerr.ErrConvert},
		{"int v(n) ;", "v = 1, 2.5 ;", "the value is not an integer", ncerr.ErrConvert},
		{"int v(n) ;", "v = NaN ;", "the value is not an integer", ncerr.ErrConvert},
		{"int v(n) ;", `v = "1" ;`, "expected a number, found a string", ncerr.ErrConvert},
		{"int v(n) ;", "v = NIL ;", "only a string can be NIL", ncerr.ErrConvert},
		{"float v(n) ;", "v = 1e300 ;", "out of range", ncerr.ErrConvert},
		{"uint64 v(n) ;", "v = 1e20 ;", "out of range", ncerr.ErrConvert},
		{"int v(n) ;", "v = 1, 2, 3, 4 ;", `2:14": outside the bounds: 4 values for "v" exceed its size of 3`, ncerr.ErrRange},
		{"int v ;", "v = 1, 2 ;", "exceed its size of 1", ncerr.ErrRange},
		{"char v(n) ;", `v = "abcd" ;`, "exceed its size of 3", ncerr.ErrRange},
		{"char v(n) ;", "v = 5 ;", "expected a string or a character", ncerr.ErrConvert},
		{"string v(n) ;", "v = 5 ;", "expected a string", ncerr.ErrConvert},
		{"string v(n) ; v:_nczarr_maxstrlen = 4 ;", "v = " + long + " ;", `the string has 20 bytes, but the string size of "v" is 4 bytes`, ncerr.ErrConvert},
		{"int v(u, w) ;", "v = 1, 2 ;", `the values along unlimited dimension "w", which is not the first, must be in braces`, ncerr.ErrInvalid},
		{"int v(n, w) ;", "v = {1}, {2}, {3}, {4} ;", "4 lists for", ncerr.ErrRange},
		{"int v ; v:a = \"x\", 5 ;", "", "mixes strings and numbers", ncerr.ErrInvalid},
		{"int v ; byte v:a = 300 ;", "", "out of range", ncerr.ErrConvert},
		{"int v ; int v:a = ;", "", "has no value", ncerr.ErrInvalid},
		{"int v ; float v:_FillValue = 1 ;", "", "_FillValue has type float, but the variable", ncerr.ErrBadType},
		{"int v ; v:_FillValue = 1, 2 ;", "", "_FillValue must be a single value", ncerr.ErrInvalid},
		{"int v ; v:_Storage = \"cloud\" ;", "", `_Storage must be one of "chunked", "contiguous", "compact"`, ncerr.ErrInvalid},
		{"int v(n) ; v:_ChunkSizes = 1, 1 ;", "", "chunk shape [1 1] does not match 1 dimensions", ncerr.ErrBadChunk},
		{"int v(n) ; v:_ChunkSizes = -1 ;", "", "_ChunkSizes must be non-negative integers", ncerr.ErrInvalid},
		{"int v(n) ; v:_DeflateLevel = 10 ;", "", "_DeflateLevel must be an integer from 0 to 9", ncerr.ErrInvalid},
		{"int v(n) ; v:_Shuffle = \"maybe\" ;", "", `_Shuffle must be "true" or "false"`, ncerr.ErrInvalid},
		{"float v ; v:_QuantizeBitGroomNumberOfSignificantDigits = 8 ;", "", "_QuantizeBitGroomNumberOfSignificantDigits: ", ncerr.ErrInvalid},
		{"int v ; v:_QuantizeBitGroomNumberOfSignificantDigits = 3 ;", "", "_QuantizeBitGroomNumberOfSignificantDigits: ", ncerr.ErrInvalid},
		{"float v ; v:_QuantizeBitRoundNumberOfSignificantBits = \"x\" ;", "", "must be one integer", ncerr.ErrInvalid},
		{"int v(n) ; v:_Filter = \"12345\" ;", "", "HDF5 filter 12345 has no codec", ncerr.ErrNoFilter},
		{"int v(n) ; v:_Filter = \"307,x\" ;", "", `the parameter "x" is not an unsigned integer`, ncerr.ErrInvalid},
		{"int v(n) ; v:_Codecs = \"zlib\" ;", "", "a JSON list of codecs", ncerr.ErrInvalid},
		{"int v(n) ; v:_Codecs = \"[{}]\" ;", "", `objects with an "id"`, ncerr.ErrInvalid},
		{"int v(n) ; v:_Filter = \"307,9\" ;", "", "", ncerr.ErrNoFilter},
		{"int v(n) ; v:_ARRAY_DIMENSIONS = \"n\" ;", "", "", ncerr.ErrNameInUse},
	}
	for _, c := range cases {
		text := "netcdf x { dimensions: n = 3 ; u = UNLIMITED ; w = UNLIMITED ; variables: " + c.vars + " data:\n" + c.data + "}"
		r := newRegistry()
		err := cdl.Generate(t.Context(), mustParse(t, text), "mem:x", r.create())
		if err == nil || !strings.Contains(err.Error(), c.want) || ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), `"x.cdl:`) {
			t.Errorf("%s %s\n got %v (kind %v)\nwant %s (kind %v)", c.vars, c.data, err, ncerr.KindOf(err), c.want, c.kind)
		}
		if _, err := open.Open(t.Context(), "mem:x", &r.create().Options); err == nil {
			t.Errorf("%s %s: Generate left objects in the store", c.vars, c.data)
		}
	}
}

// TestSubgroup checks the dump of a dataset opened at a group. The result is complete CDL
// and includes the dimensions of outer groups that the group uses.
func TestSubgroup(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	dir := filepath.ToSlash(t.TempDir()) + "/x.zarr"
	text := `netcdf x { dimensions: a = 2 ; b = 3 ; unused = 4 ; variables: int top(a) ;
group: g { dimensions: b = 1 ; variables: int v(a, b) ; data: v = 5, 6 ;
group: h { variables: int w(a) ; data: w = 7, 8 ; } } }`
	if err := cdl.Generate(t.Context(), mustParse(t, text), dir+"#mode=nczarr,file", r.create()); err != nil {
		t.Fatal(err)
	}
	got := dump(t, r.open(t, dir+"/g#mode=nczarr,file"), nil)
	want := `netcdf g {
dimensions:
	a = 2 ;
	b = 1 ;
variables:
	int v(a, b) ;
data:

 v =
  5,
  6 ;

group: h {
  variables:
  	int w(a) ;
  data:

   w = 7, 8 ;
  } // group h
}
`
	if d := diff(got, want); d != "" {
		t.Error(d)
	}
	if d := diff(dump(t, generate(t, got), &cdl.WriteOptions{Name: "g"}), want); d != "" {
		t.Error("the dump changes when read back:", d)
	}
}

// TestStringLengths checks that a long string raises the string size of its variable, and
// that TruncateStrings truncates strings to a fixed size.
func TestStringLengths(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100)
	ds := generate(t, "netcdf x { variables: string s ; string k ; data: s = \""+long+"\" ; k = \"k\" ; }")
	if got := dump(t, ds, nil); !strings.Contains(got, "\n s = \n    \""+long+"\" ;\n") {
		t.Errorf("the dump lacks the long string: %s", got)
	}
	f := mustParse(t, `netcdf x { variables: string s ; string e ; :_nczarr_default_maxstrlen = 5 ; data: s = "0123456789" ; e = "ééé" ; }`)
	f.TruncateStrings = true
	r := newRegistry()
	if err := cdl.Generate(t.Context(), f, "mem:x", r.create()); err != nil {
		t.Fatal(err)
	}
	if got := dump(t, r.open(t, "mem:x"), nil); !strings.Contains(got, "s = \"01234\" ;\n\n e = \"éé\" ;") {
		t.Errorf("want strings truncated to 5 bytes, got %s", got)
	}
}

// chunkPuts counts the puts of chunks and shards.
type chunkPuts struct {
	driver.Map
	n *atomic.Int64
}

func (m chunkPuts) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if strings.Contains(key, "/c/") {
		m.n.Add(1)
	}
	return m.Map.Put(ctx, key, body, o)
}

// TestShardsAreStoredOnce checks how often Build stores each shard: once if a row of
// shards fits in memory, and otherwise once for each slab.
func TestShardsAreStoredOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		length, shape string
		puts          int64
	}{
		{"65536", "4, 4, 8", 2},  // a row of shards has 32 MiB
		{"65536", "1, 8, 8", 4},  // a row of shards has 8 MiB
		{"65536", "2, 3, 5", 12}, // shards at the edges
		{"262144", "4, 4, 8", 8}, // 128 MiB: in four slabs
	} {
		var n atomic.Int64
		r := newRegistry()
		o := r.create()
		o.Strings = dataset.StringsFixed
		o.Wrap = func(m driver.Map) driver.Map { return chunkPuts{m, &n} }
		values := strings.TrimSuffix(strings.Repeat(`"a", "b", "c", "d", `, 4*8*8/4), ", ")
		text := `netcdf x { dimensions: z = 4 ; y = 8 ; x = 8 ; variables: string v(z, y, x) ; v:_nczarr_maxstrlen = ` + c.length + ` ; v:_ChunkSizes = 1, 1, 1 ; v:_ShardSizes = ` + c.shape + ` ; data: v = ` + values + ` ; }`
		if err := cdl.Generate(t.Context(), mustParse(t, text), "mem:x#mode=v3", o); err != nil {
			t.Fatal(err)
		}
		if got := n.Load(); got != c.puts {
			t.Errorf("strings of %s bytes in shards of %s: want %d puts, got %d", c.length, c.shape, c.puts, got)
		}
	}
}

// TestBuildCanceled checks that a canceled Generate leaves no objects.
func TestBuildCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRegistry()
	err := cdl.Generate(ctx, mustParse(t, smallText), "mem:x", r.create())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	if _, err := open.Open(t.Context(), "mem:x", &r.create().Options); err == nil {
		t.Error("Generate left objects in the store")
	}
}

// TestOracle compares the output of Write with the output of ncgen and ncdump of netcdf-c
// for the same CDL files (see testdata/oracle/PROVENANCE).
func TestOracle(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/oracle/*.cdl")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("want CDL files in testdata/oracle, got error %v", err)
	}
	for _, path := range inputs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(strings.TrimSuffix(path, ".cdl") + ".dmp")
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".cdl")
		got := dump(t, generate(t, string(text)), &cdl.WriteOptions{Name: name})
		if d := diff(got, string(want)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestQuantize compares quantized values with values from netcdf-c 4.9.0 for the same
// CDL. It also checks that the dump uses the BitRound attribute name that netcdf-c accepts.
func TestQuantize(t *testing.T) {
	t.Parallel()
	got := dump(t, generate(t, `netcdf x { dimensions: n = 4 ; variables:
float b(n) ; b:_QuantizeGranularBitRoundNumberOfSignificantDigits = 3 ;
double d(n) ; d:_QuantizeBitRoundNumberOfSignificantDigits = 5 ;
data: b = 3.14159265, 2.71828, 1, 0 ; d = 3.14159265, 2.71828, 1, 0 ; }`), nil)
	want := `netcdf x {
dimensions:
	n = 4 ;
variables:
	float b(n) ;
		b:_QuantizeGranularBitRoundNumberOfSignificantDigits = 3 ;
	double d(n) ;
		d:_QuantizeBitRoundNumberOfSignificantBits = 5 ;
data:

 b = 3.140625, 2.71875, 1, 0 ;

 d = 3.125, 2.6875, 1, 0 ;
}
`
	if d := diff(got, want); d != "" {
		t.Error(d)
	}
}

// TestNaNBits checks that the word NaN is parsed to the same bits as in C, in NumPy and in
// the fill values of Zarr.
func TestNaNBits(t *testing.T) {
	t.Parallel()
	ds := generate(t, "netcdf x { dimensions: n = 2 ; variables: double d(n) ; float f(n) ; double e(n) ; e:_FillValue = NaN ; d:a = NaN ; data: d = NaN, nan ; f = NaN, NaNf ; }")
	bits := func(f float64) uint64 { return math.Float64bits(f) }
	d, e := make([]float64, 2), make([]float64, 2)
	f := make([]float32, 2)
	for name, dst := range map[string]any{"d": d, "e": e, "f": f} {
		v, err := ds.Root().Var(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Read(t.Context(), chunk.All(v.Shape()), dst); err != nil {
			t.Fatal(err)
		}
	}
	for i := range d {
		if bits(d[i]) != 0x7FF8000000000000 || bits(e[i]) != bits(d[i]) || math.Float32bits(f[i]) != 0x7FC00000 {
			t.Errorf("value %d: want the quiet NaN, got double %x, fill value %x, float %x", i, bits(d[i]), bits(e[i]), math.Float32bits(f[i]))
		}
	}
}

// TestNegativeZero checks that FullPrecision prints the sign of zeros and that the sign
// is read back.
func TestNegativeZero(t *testing.T) {
	t.Parallel()
	full := &cdl.WriteOptions{Name: "x", FullPrecision: true}
	ds := generate(t, "netcdf x { dimensions: n = 3 ; variables: double d(n) ; d:a = -0., 0. ; float f(n) ; data: d = -0., 0., 1. ; f = -0.f, 0., 1. ; }")
	text := dump(t, ds, full)
	if again := dump(t, generate(t, text), full); again != text || !strings.Contains(text, "d = -0., 0, 1 ;") {
		t.Errorf("the sign of a zero is lost in\n%s\nor when read back:\n%s", text, again)
	}
}
