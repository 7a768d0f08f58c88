package cdl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

var mapTypes = &cdl.ParseOptions{MapTypes: true}

// TestMapTypes checks that enums are stored as numbers with the attributes that describe
// them.
func TestMapTypes(t *testing.T) {
	t.Parallel()
	text := `netcdf x {
types:
	ubyte enum cloud {clear = 0, a.b = 7, missing = 255} ;
	int64 enum big {low = -9223372036854775808, high = 0x7fffffffffffffff} ;
dimensions: n = 4 ;
variables:
	cloud c(n) ; cloud c:_FillValue = missing ; c:best = clear ; c:note = "x" ; cloud c:all = clear, a.b ;
	big b ;
data:
	c = clear, cloud.a.b, _ ; b = big.low ;
group: g {
	types: byte enum small {one = 1, minus = 255} ;
	variables: small v(/n) ; small w ; big x ;
	data: v = one, minus, 1 ; w = small.minus ; x = high ;
}
}
`
	f, err := cdl.Parse(strings.NewReader(text), "x.cdl", mapTypes)
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistry()
	if err := cdl.Generate(t.Context(), f, "mem:x", r.create()); err != nil {
		t.Fatal(err)
	}
	want := `netcdf x {
dimensions:
	n = 4 ;
variables:
	ubyte c(n) ;
		c:_FillValue = 255UB ;
		c:best = 0UB ;
		c:note = "x" ;
		c:all = 0UB, 7UB ;
		c:flag_values = 0UB, 7UB, 255UB ;
		c:flag_meanings = "clear a.b missing" ;
	int64 b ;
		b:flag_values = -9223372036854775808LL, 9223372036854775807LL ;
		b:flag_meanings = "low high" ;
data:

 c = 0, 7, _, _ ;

 b = -9223372036854775808 ;

group: g {
  variables:
  	byte v(n) ;
  		v:flag_values = 1b, -1b ;
  		v:flag_meanings = "one minus" ;
  	byte w ;
  		w:flag_values = 1b, -1b ;
  		w:flag_meanings = "one minus" ;
  	int64 x ;
  		x:flag_values = -9223372036854775808LL, 9223372036854775807LL ;
  		x:flag_meanings = "low high" ;
  data:

   v = 1, -1, 1, -127 ;

   w = -1 ;

   x = 9223372036854775807 ;
  } // group g
}
`
	if d := diff(dump(t, r.open(t, "mem:x"), nil), want); d != "" {
		t.Error(d)
	}
}

// TestMapTypesErrors checks the errors for unsupported types and for invalid enums.
func TestMapTypesErrors(t *testing.T) {
	t.Parallel()
	const e = "byte enum e {a = 1} ; "
	for _, c := range []struct {
		types, rest, want string
		kind              ncerr.Kind
	}{
		{"compound c { int a ; } ;", "", `1:28": not supported: type "c" is user-defined (compound)`, ncerr.ErrUnsupported},
		{"opaque(5) o ;", "", `type "o" is user-defined (opaque)`, ncerr.ErrUnsupported},
		{"int(*) v ;", "", `type "v" is user-defined (vlen)`, ncerr.ErrUnsupported},
		{"float enum e {a = 1} ;", "", `the base type of an enum must be an integer type, not "float"`, ncerr.ErrInvalid},
		{"byte enum e {a = 300} ;", "", "the value is out of range", ncerr.ErrConvert},
		{"byte enum e {a = 1, a = 2} ;", "", `member "a" is already declared`, ncerr.ErrInvalid},
		{"byte enum e {a\\ b = 1} ;", "", `member "a b" of type "e" contains white space`, ncerr.ErrUnsupported},
		{"byte enum e {a = \"x\"} ;", "", "not an integer", 0},
		{"byte enum e {a 1} ;", "", `expected "=", found "1"`, ncerr.ErrInvalid},
		{"byte enum e a", "", `expected "{", found "a"`, ncerr.ErrInvalid},
		{"byte enum e {a = 1", "}", `expected ";"`, ncerr.ErrInvalid},
		{e + e, "", `type "e" is already declared`, ncerr.ErrInvalid},
		{e, "variables: e v ; data: v = b ;", `"b" is not a member of type "e"`, ncerr.ErrInvalid},
		{e, "variables: e v ; data: v = f.a ;", `"f.a" is not a member of type "e"`, ncerr.ErrInvalid},
		{e, "variables: int v ; data: v = a ;", `expected value, found "a"`, ncerr.ErrInvalid},
		{e, "variables: int v ; e v:x = a ;", `attribute "x" has type "e", which only attributes of variables of that type can have`, ncerr.ErrUnsupported},
		{e, "e :x = a ;", `attribute "x" has type "e"`, ncerr.ErrUnsupported},
		{e, "variables: f v ;", `"f" is not a type`, ncerr.ErrInvalid},
	} {
		text := "netcdf x { types: " + c.types + c.rest + "}"
		_, err := cdl.Parse(strings.NewReader(text), "x.cdl", mapTypes)
		if c.kind == 0 {
			c.want, c.kind = "expected a number, found a string", ncerr.ErrConvert
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || ncerr.KindOf(err) != c.kind {
			t.Errorf("%s\n got %v\nwant %s", text, err, c.want)
		}
	}
	f, err := cdl.Parse(strings.NewReader("netcdf x { types: "+e+"variables: e v ; v:flag_values = 1b ; }"), "x.cdl", mapTypes)
	if err != nil {
		t.Fatal(err)
	}
	if err := cdl.Generate(t.Context(), f, "mem:x", newRegistry().create()); ncerr.KindOf(err) != ncerr.ErrNameInUse {
		t.Errorf("want ErrNameInUse, got %v", err)
	}
}

// exception is a CDL file of the corpus that cannot be stored in NCZarr.
type exception struct{ typ, class string }

// exceptions lists all such files with the first unsupported type. The NCZarr description
// of netcdf-c lists "User-defined types (enum, opaque, VLEN, and Compound)" under "the
// following concepts are currently unsupported".
var exceptions = map[string]exception{
	"ref_solar":            {"observation", "compound"},
	"ref_tst_comp":         {"obs_t", "compound"},
	"ref_tst_comp2":        {"vecmat_t", "compound"},
	"ref_tst_comp3":        {"c_t", "compound"},
	"ref_tst_special_atts": {"obs_t", "compound"},
	"ref_tst_econst2":      {"opaque_t", "opaque"},
	"ref_tst_opaque_data":  {"raw_obs_t", "opaque"},
	"ref_typescope":        {"op_t1", "opaque"},
	"ref_tst_solar_2":      {"unimaginatively_named_vlen_type", "vlen"},
	"ref_tst_vlen_data":    {"row_of_floats", "vlen"},
	"ref_tst_vlen_data2":   {"pfCoilType", "compound"},
}

// TestMapTypesCorpus checks that every file of the corpus except the exceptions can be
// generated.
func TestMapTypesCorpus(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob(filepath.Join(corpus(t, "cdl"), "input", "*.cdl"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("want CDL files, got error %v", err)
	}
	refused := 0
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".cdl")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := cdl.Parse(strings.NewReader(string(text)), name, mapTypes)
		if x, ok := exceptions[name]; ok {
			refused++
			if want := `type "` + x.typ + `" is user-defined (` + x.class + `)`; ncerr.KindOf(err) != ncerr.ErrUnsupported || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := cdl.Generate(t.Context(), f, "mem:"+name, newRegistry().create()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if refused != len(exceptions) {
		t.Errorf("want %d files that fail, got %d", len(exceptions), refused)
	}
}
