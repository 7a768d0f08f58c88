package cdl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/teststore"
	"github.com/seed-695719ce/nczarr/core/cdl"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/filters/checksum"
	"github.com/seed-695719ce/nczarr/filters/shuffle"
	"github.com/seed-695719ce/nczarr/filters/zlib"
	"github.com/seed-695719ce/nczarr/filters/zstd"
)

// TestMain runs the tests with the stores that package teststore selects.
func TestMain(m *testing.M) { os.Exit(teststore.Run(m)) }

// registry provides the stores of the tests under the name "mem", files, and some
// filters.
type registry struct {
	mem     driver.Opener
	without string // id of a filter that is not available
}

func newRegistry() *registry { return &registry{mem: teststore.New()} }

func (r *registry) Driver(name string) (driver.Opener, error) {
	switch name {
	case "mem":
		return r.mem, nil
	case "file":
		return file.New(), nil
	}
	return nil, ncerr.Errorf(ncerr.ErrUnsupported, "find driver", name, "only mem and file are available")
}

func (r *registry) Drivers() []driver.Description {
	return []driver.Description{r.mem.Describe(), file.New().Describe()}
}

func (r *registry) Filter(id string) (codecdriver.Provider, error) {
	provider, ok := map[string]codecdriver.Provider{
		"shuffle": shuffle.Provider(), "zlib": zlib.Provider(), "zstd": zstd.Provider(), "fletcher32": checksum.Provider(),
	}[id]
	if !ok || id == r.without {
		return nil, ncerr.Errorf(ncerr.ErrNoFilter, "find filter", id, "not available in this test")
	}
	return provider, nil
}

func (r *registry) Filters() []codecdriver.Description {
	var list []codecdriver.Description
	for _, p := range []codecdriver.Provider{shuffle.Provider(), zlib.Provider(), zstd.Provider(), checksum.Provider()} {
		list = append(list, p.Describe()...)
	}
	return list
}

func (r *registry) create() *dataset.CreateOptions {
	return &dataset.CreateOptions{Options: dataset.Options{Registry: r, SingleWriter: true}}
}

// open opens the dataset generated at url.
func (r *registry) open(t *testing.T, url string) *dataset.Dataset {
	t.Helper()
	ds, err := open.Open(t.Context(), url, &dataset.Options{Registry: r, Update: true, SingleWriter: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ds.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return ds
}

// generate builds a dataset from CDL in a new registry.
func generate(t *testing.T, text string) *dataset.Dataset {
	t.Helper()
	r := newRegistry()
	if err := cdl.Generate(t.Context(), mustParse(t, text), "mem:x", r.create()); err != nil {
		t.Fatalf("generate: %v\n%s", err, text)
	}
	return r.open(t, "mem:x")
}

func dump(t *testing.T, ds *dataset.Dataset, opts *cdl.WriteOptions) string {
	t.Helper()
	var b strings.Builder
	if err := cdl.Write(t.Context(), &b, ds, opts); err != nil {
		t.Fatalf("write: %v", err)
	}
	return b.String()
}

// diff returns a description of the first line that differs, or "" if no line does.
func diff(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, b := "(end)", "(end)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return "line " + string(rune('0'+i/100%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + ":\n got " + strings.ReplaceAll(a, "\t", "→") + "\nwant " + strings.ReplaceAll(b, "\t", "→")
		}
	}
	return ""
}

// otherInput lists expected dumps that do not belong to the input of the same name.
// netcdf-c contains both files but does not compare them.
var otherInput = map[string]string{
	"ref_tst_chardata": "the dump lacks ten variables of the text",
	"ref_tst_unlim2":   "the dump has other dimensions and variables than the text",
}

// otherSpace lists expected dumps that were not printed by ncdump. The tests of netcdf-c
// ignore white space when they compare these dumps.
var otherSpace = map[string]string{
	"ref_tst_nul4": "there is no space before the variable's name",
}

func squeeze(text, name string) string {
	if otherSpace[name] == "" {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

// TestCorporaDump generates a dataset from every supported CDL file and compares its dump
// with the expected dump of netcdf-c, byte for byte. It then generates a second dataset from
// the dump. The dump of that dataset must be the same.
func TestCorporaDump(t *testing.T) {
	t.Parallel()
	root := corpus(t, "cdl")
	inputs, err := filepath.Glob(filepath.Join(root, "input", "*.cdl"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("want CDL files in %s, got error %v", root, err)
	}
	compared := 0
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".cdl")
		if strings.HasPrefix(name, "big") {
			continue // see TestHuge
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := cdl.Parse(strings.NewReader(string(text)), name+".cdl", nil)
		if ncerr.KindOf(err) == ncerr.ErrUnsupported {
			continue // see TestParseCorpora for the list and the reasons
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := newRegistry()
		if err := cdl.Generate(t.Context(), f, "mem:"+name, r.create()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := dump(t, r.open(t, "mem:"+name), nil)
		want, err := os.ReadFile(filepath.Join(root, "expected", name+".dmp"))
		if err == nil && otherInput[name] == "" {
			compared++
			if squeeze(got, name) != squeeze(string(want), name) {
				t.Errorf("%s: %s", name, diff(got, string(want)))
			}
		}
		if err := cdl.Generate(t.Context(), mustParse(t, got), "mem:again", r.create()); err != nil {
			t.Errorf("%s: generate from the dump: %v", name, err)
			continue
		}
		again := dump(t, r.open(t, "mem:again"), &cdl.WriteOptions{Name: name})
		if again != got {
			t.Errorf("%s: the dump changes when read back: %s", name, diff(again, got))
		}
	}
	if compared < 24 {
		t.Errorf("want at least 24 dumps to compare, got %d", compared)
	}
}

// TestReferenceStrings generates a dataset from a CDL file of netcdf-c with strings, one of
// which is too long, and compares the dump with the dump of netcdf-c.
func TestReferenceStrings(t *testing.T) {
	t.Parallel()
	root := corpus(t, "nczarr")
	text, err := os.ReadFile(filepath.Join(root, "ref_string.cdl"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(root, "ref_string_nczarr.baseline"))
	if err != nil {
		t.Fatal(err)
	}
	f := mustParse(t, string(text))
	r := newRegistry()
	err = cdl.Generate(t.Context(), f, "mem:x", r.create())
	if ncerr.KindOf(err) != ncerr.ErrConvert || !strings.Contains(err.Error(), `the string has 10 bytes, but the string size of "truncated" is 4 bytes`) {
		t.Errorf("want ErrConvert about the string of 10 bytes, got %v", err)
	}
	f.TruncateStrings = true
	if err := cdl.Generate(t.Context(), f, "mem:x", r.create()); err != nil {
		t.Fatal(err)
	}
	if d := diff(dump(t, r.open(t, "mem:x"), &cdl.WriteOptions{Name: "ref_string"}), string(want)); d != "" {
		t.Error(d)
	}
}

// TestHuge generates datasets with variables of up to 4 GB, of which at most one value is
// written.
func TestHuge(t *testing.T) {
	t.Parallel()
	root := corpus(t, "cdl")
	for _, name := range []string{"bigf1", "bigf2", "bigf3", "bigr1", "bigr2", "bigr3"} {
		text, err := os.ReadFile(filepath.Join(root, "input", name+".cdl"))
		if err != nil {
			t.Fatal(err)
		}
		ds := generate(t, string(text))
		head := dump(t, ds, &cdl.WriteOptions{Name: name, HeaderOnly: true})
		if !strings.HasPrefix(head, "netcdf "+name+" {\ndimensions:\n\tx = 1") || strings.Contains(head, "data:") {
			t.Errorf("%s: unexpected header\n%s", name, head)
		}
		if name == "bigf3" {
			if got := dump(t, ds, &cdl.WriteOptions{Vars: []string{"flast"}}); !strings.HasSuffix(got, "data:\n\n flast = 42 ;\n}\n") {
				t.Errorf("%s: want only the value of flast, got\n%s", name, got)
			}
		}
	}
}

// unlimitedText has groups, and unlimited dimensions in every position.
const unlimitedText = `netcdf x {
dimensions: u = UNLIMITED; v = UNLIMITED; n = 3; m = 2 ;
variables:
 int a(u,v,n);
 int b(m, v);
 char c(u, v);
 int d(u, v, m);
 char e(m,n) ;
 :ga = "x";
data:
 a = {1,2,3,4,5,6}, {7,8,9};
 b = {1,2}, {3};
 c = {"abc"}, {"d"};
 d = {100000000,2000000000,300000000}, {1};
 e = "a\nb", "\000\n";
group: g {
 dimensions: n = 4;
 variables: float x(n) ; x:att = 1.f; double y(/n);
 :gr = 1;
 data: x = 1.5,2.5;
 group: h { variables: int z ; data: z = 4 ; }
}
group: em { }
}
`

// unlimitedDump is the output of netcdf-c 4.9.0 for unlimitedText, except for c and e:
// ncgen joins the two lists of c, and ncdump splits the strings of e so that ncgen
// reads too many.
const unlimitedDump = `netcdf x {
dimensions:
	u = UNLIMITED ; // (2 currently)
	v = UNLIMITED ; // (3 currently)
	n = 3 ;
	m = 2 ;
variables:
	int a(u, v, n) ;
	int b(m, v) ;
	char c(u, v) ;
	int d(u, v, m) ;
	char e(m, n) ;

// global attributes:
		:ga = "x" ;
data:

 a =
  {1, 2, 3,
  4, 5, 6,
  _, _, _},
  {7, 8, 9,
  _, _, _,
  _, _, _} ;

 b =
  {1, 2, _},
  {3, _, _} ;

 c =
  {"abc"},
  {"d"} ;

 d =
  {100000000, 2000000000,
  300000000, _,
  _, _},
  {1, _,
  _, _,
  _, _} ;

 e =
  "a\nb",
  "\000\n" ;

group: g {
  dimensions:
  	n = 4 ;
  variables:
  	float x(n) ;
  		x:att = 1.f ;
  	double y(/n) ;

  // group attributes:
  		:gr = 1 ;
  data:

   x = 1.5, 2.5, _, _ ;

   y = _, _, _ ;

  group: h {
    variables:
    	int z ;
    data:

     z = 4 ;
    } // group h
  } // group g

group: em {
  } // group em
}
`

func TestUnlimitedAndGroups(t *testing.T) {
	t.Parallel()
	if d := diff(dump(t, generate(t, unlimitedText), nil), unlimitedDump); d != "" {
		t.Error(d)
	}
	if d := diff(dump(t, generate(t, unlimitedDump), nil), unlimitedDump); d != "" {
		t.Error("the dump changes when read back:", d)
	}
}

// TestRaggedChars checks nested lists of strings along unlimited dimensions.
func TestRaggedChars(t *testing.T) {
	t.Parallel()
	got := dump(t, generate(t, `netcdf x {
dimensions: u = UNLIMITED ; v = UNLIMITED ; w = UNLIMITED ;
variables: char c(u, v, w) ;
data: c = {{"1", "two"}}, {{"three"},{"four","xy"}} ;
}`), nil)
	want := " c =\n  {{\"1two\"},\n  {\"\"}},\n  {{\"three\"},\n  {\"fourxy\"}} ;\n}\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("got %s", got)
	}
}

// TestCharRows checks that arrays of characters are read back unchanged.
func TestCharRows(t *testing.T) {
	t.Parallel()
	ds := generate(t, `netcdf x {
dimensions: n = 7 ; m = 2 ; u = UNLIMITED ;
variables: char a(n) ; char b(m, n) ; char c(u) ; char d(n) ; d:_FillValue = "x" ; char e ; char f(n) ;
data:
 a = "a\n\000b\n" ;
 b = "é\tb", '\0', '\377' ;
 c = "one\n", "two" ;
 d = "ab\000\000", "c" ;
 f = "", 'a', 'b' ;
}`)
	got := dump(t, ds, nil)
	_, data, _ := strings.Cut(got, "data:\n")
	want := `
 a = "a\n",
    "\000b\n" ;

 b =
  "\303\251\tb",
  "\000\377" ;

 c = "one\n",
    "two" ;

 d = "ab\000\000cxx" ;

 e = "" ;

 f = "\000ab" ;
}
`
	if d := diff(data, want); d != "" {
		t.Error(d)
	}
	if d := diff(dump(t, generate(t, got), nil), got); d != "" {
		t.Error("the dump changes when read back:", d)
	}
}

const smallText = `netcdf small {
dimensions:
	time = UNLIMITED ;
	x = 3 ;
variables:
	double time(time) ;
	float temp(time, x) ;
		temp:units = "K" ;
		temp:_FillValue = -9.f ;
		temp:_Storage = "chunked" ;
		temp:_ChunkSizes = 1, 3 ;
		temp:_Shuffle = "true" ;
		temp:_DeflateLevel = 4 ;
		temp:_Endianness = "big" ;
	byte flag ;
	short raw(x) ;
		raw:_NoFill = "true" ;
		raw:_Filter = "32015,3" ;
	string who(x) ;

// global attributes:
		:title = "small" ;
		:_Format = "netCDF-4" ;
data:

 time = 0.333333333333333333, 1e-7 ;

 temp = 1.23456789, 2, _, 4 ;

 flag = -127 ;

 raw = 1 ;

 who = "a", NIL, "c" ;
group: g {
variables:
	int x(x) ;
	int temp ;
data:
 x = 7, 8, 9 ;
 temp = 5 ;
}
}
`

// TestOptions checks each option of Write on one dataset.
func TestOptions(t *testing.T) {
	t.Parallel()
	ds := generate(t, smallText)
	header := `netcdf small {
dimensions:
	time = UNLIMITED ; // (2 currently)
	x = 3 ;
variables:
	double time(time) ;
	float temp(time, x) ;
		temp:units = "K" ;
		temp:_FillValue = -9.f ;
	byte flag ;
	short raw(x) ;
	string who(x) ;

// global attributes:
		:title = "small" ;
`
	group := `
group: g {
  variables:
  	int x(x) ;
  	int temp ;
`
	const end = "  } // group g\n}\n"
	cases := []struct {
		name string
		opts cdl.WriteOptions
		want string
	}{
		{"all", cdl.WriteOptions{}, header + `data:

 time = 0.333333333333333, 1e-07 ;

 temp =
  1.234568, 2, _,
  4, _, _ ;

 flag = -127 ;

 raw = 1, _, _ ;

 who = "a", NIL, "c" ;
` + group + "  data:\n\n   x = 7, 8, 9 ;\n\n   temp = 5 ;\n" + end},
		{"-h", cdl.WriteOptions{HeaderOnly: true}, header + group + end},
		{"-c", cdl.WriteOptions{Coords: true}, header + "data:\n\n time = 0.333333333333333, 1e-07 ;\n" + group + "  data:\n\n   x = 7, 8, 9 ;\n" + end},
		{"-v simple", cdl.WriteOptions{Vars: []string{"temp"}}, header + "data:\n\n temp =\n  1.234568, 2, _,\n  4, _, _ ;\n" + group + "  data:\n\n   temp = 5 ;\n" + end},
		{"-v path", cdl.WriteOptions{Vars: []string{"/g/temp", "flag"}}, header + "data:\n\n flag = -127 ;\n" + group + "  data:\n\n   temp = 5 ;\n" + end},
		{"-p", cdl.WriteOptions{FloatDigits: 3, DoubleDigits: 4, Vars: []string{"time", "/temp"}}, header + "data:\n\n time = 0.3333, 1e-07 ;\n\n temp =\n  1.23, 2, _,\n  4, _, _ ;\n" + group + "  data:\n" + end},
		{"full", cdl.WriteOptions{FullPrecision: true, Vars: []string{"time", "/temp"}}, header + "data:\n\n time = 0.3333333333333333, 1e-07 ;\n\n temp =\n  1.2345679, 2, _,\n  4, _, _ ;\n" + group + "  data:\n" + end},
	}
	for _, c := range cases {
		c.opts.Name = "small"
		if d := diff(dump(t, ds, &c.opts), c.want); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	if got := dump(t, ds, &cdl.WriteOptions{HeaderOnly: true, Name: "a b"}); !strings.HasPrefix(got, `netcdf a\ b {`) {
		t.Errorf("Name: want an escaped name, got %.30s", got)
	}
	var b strings.Builder
	err := cdl.Write(t.Context(), &b, ds, &cdl.WriteOptions{Vars: []string{"nosuch"}})
	if ncerr.KindOf(err) != ncerr.ErrNoVar || b.Len() > 0 {
		t.Errorf("unknown variable: want ErrNoVar and no output, got %v, %q", err, b.String())
	}
}

// TestSpecial checks the special attributes, and that CDL with these attributes generates
// the same dataset.
func TestSpecial(t *testing.T) {
	t.Parallel()
	ds := generate(t, smallText)
	got := dump(t, ds, &cdl.WriteOptions{HeaderOnly: true, Special: true, Name: "small"})
	want := `netcdf small {
dimensions:
	time = UNLIMITED ; // (2 currently)
	x = 3 ;
variables:
	double time(time) ;
		time:_Storage = "chunked" ;
		time:_ChunkSizes = CHUNK ;
		time:_Endianness = "little" ;
	float temp(time, x) ;
		temp:units = "K" ;
		temp:_FillValue = -9.f ;
		temp:_Storage = "chunked" ;
		temp:_ChunkSizes = 1, 3 ;
		temp:_Shuffle = "true" ;
		temp:_DeflateLevel = 4 ;
		temp:_Codecs = "[{\"elementsize\":4,\"id\":\"shuffle\"},{\"id\":\"zlib\",\"level\":4}]" ;
		temp:_Endianness = "big" ;
	byte flag ;
		flag:_Storage = "contiguous" ;
	short raw(x) ;
		raw:_Storage = "chunked" ;
		raw:_ChunkSizes = 3 ;
		raw:_Filter = "32015,3" ;
		raw:_Codecs = "[{\"id\":\"zstd\",\"level\":3}]" ;
		raw:_Endianness = "little" ;
		raw:_NoFill = "true" ;
	string who(x) ;
		who:_Storage = "chunked" ;
		who:_ChunkSizes = 3 ;

// global attributes:
		:title = "small" ;
		:_NCProperties = PROPS ;
		:_SuperblockVersion = 2 ;
		:_IsNetcdf4 = 1 ;
		:_Format = "netCDF-4" ;
`
	for _, name := range []string{"time:_ChunkSizes = ", ":_NCProperties = "} { // values differ between releases
		_, rest, _ := strings.Cut(got, name)
		value, _, _ := strings.Cut(rest, " ;")
		word := map[bool]string{true: "CHUNK", false: "PROPS"}[strings.HasPrefix(name, "time")]
		want = strings.Replace(want, name+word, name+value, 1)
		if value == "" {
			t.Errorf("the dump has no value for %s", name)
		}
	}
	got, _, _ = strings.Cut(got, "\ngroup:")
	if d := diff(got, want); d != "" {
		t.Error(d)
	}
	all := &cdl.WriteOptions{Special: true, Name: "small"}
	first := dump(t, ds, all)
	again := dump(t, generate(t, first), all)
	if d := diff(again, first); d != "" {
		t.Error("the dump changes when read back:", d)
	}
}

// TestUnreadable checks that damaged variables of a dataset are reported and omitted,
// and that everything else is printed.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	if err := cdl.Generate(t.Context(), mustParse(t, smallText), "mem:x", r.create()); err != nil {
		t.Fatal(err)
	}
	r.without = "zstd"
	ds := r.open(t, "mem:x")
	if _, err := ds.Map().Put(t.Context(), "temp/1.0", driver.Bytes([]byte("no zlib stream")), nil); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var reported []string
	err := cdl.Write(t.Context(), &b, ds, &cdl.WriteOptions{OnProblem: func(p dataset.Problem) {
		reported = append(reported, p.Path)
		if p.Err == nil {
			t.Error("OnProblem was called with a nil error")
		}
	}})
	if err == nil || !errors.Is(err, ncerr.ErrNoFilter) || ncerr.Exit(err) == 0 {
		t.Errorf("want ErrNoFilter, got %v", err)
	}
	for _, part := range []string{`"/temp"`, `"/raw"`, `"zstd"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not contain %s: %v", part, err)
		}
	}
	if got := strings.Join(reported, " "); got != "/temp /raw" {
		t.Errorf("want problems of /temp and /raw, got %q", got)
	}
	got := b.String()
	for _, name := range []string{" temp =\n", " raw ="} {
		if strings.Contains(got, "\n"+name) {
			t.Errorf("Write printed %q:\n%s", name, got)
		}
	}
	for _, part := range []string{"float temp(time, x)", " who = ", "   temp = 5 ;", " flag = -127", "} // group g\n}\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("Write did not print %q:\n%s", part, got)
		}
	}
}

// TestSlabs dumps variables of several slabs with short rows, long rows and a single row. It
// then damages the last chunk, so that the dump fails in the middle.
func TestSlabs(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"(n, m)", "(m, n)", "(nm)"} {
		text := "netcdf x { dimensions: n = 1200 ; m = 1003 ; nm = 1203600 ; variables: double v" + shape + " ; v:_ChunkSizes = CHUNKS ; data: v = 1, 2, 3 ; }"
		chunks := "100, 100"
		if shape == "(nm)" {
			chunks = "100000"
		}
		ds := generate(t, strings.Replace(text, "CHUNKS", chunks, 1))
		_, data, _ := strings.Cut(dump(t, ds, nil), "data:\n")
		if n := strings.Count(data, "_"); n != 1203600-3 {
			t.Errorf("%s: want %d fill values, got %d", shape, 1203600-3, n)
		}
		if n := strings.Count(data, ";"); n != 1 {
			t.Errorf("%s: want 1 semicolon, got %d", shape, n)
		}
		for _, line := range strings.Split(data, "\n") {
			if len(line) > 80 {
				t.Errorf("%s: want at most 80 columns, got %d: %s", shape, len(line), line)
				break
			}
		}
		last := map[string]string{"(n, m)": "11.10", "(m, n)": "10.11", "(nm)": "12"}[shape]
		if _, err := ds.Map().Put(t.Context(), "v/"+last, driver.Bytes([]byte("short")), nil); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		err := cdl.Write(t.Context(), &b, ds, nil)
		if ncerr.KindOf(err) == 0 || !strings.Contains(b.String(), "\n// the rest of v cannot be read\n") {
			t.Errorf("%s: want an error and a comment about it, got %v", shape, err)
		}
		if _, err := cdl.Parse(strings.NewReader(b.String()), "cut", nil); err == nil {
			t.Errorf("%s: Parse accepted the incomplete text", shape)
		}
	}
}

// TestWriteStops checks that Write stops if the context is done or the writer fails.
func TestWriteStops(t *testing.T) {
	t.Parallel()
	ds := generate(t, smallText)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cdl.Write(ctx, &strings.Builder{}, ds, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	full := errors.New("disk full")
	if err := cdl.Write(t.Context(), brokenWriter{full}, ds, nil); !errors.Is(err, full) {
		t.Errorf("want the error of the writer, got %v", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }
