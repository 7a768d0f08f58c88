package cdl_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// ncml prints a dataset as NcML and checks that it is well-formed.
func ncml(t *testing.T, ds *dataset.Dataset, location string, opts *cdl.WriteOptions) (string, error) {
	t.Helper()
	var b strings.Builder
	err := cdl.WriteNcML(t.Context(), &b, ds, location, opts)
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
	}
	return b.String(), err
}

// TestNcMLDifferential compares WriteNcML with ncdump -x, which supports only files of
// the classic model.
func TestNcMLDifferential(t *testing.T) {
	t.Parallel()
	needTools(t)
	inputs, err := filepath.Glob(filepath.Join(corpus(t, "cdl"), "input", "*.cdl"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("want CDL files, got error %v", err)
	}
	compared := 0
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".cdl")
		out := filepath.Join(t.TempDir(), name+".nc")
		if strings.HasPrefix(name, "big") || typesOnly[name] || otherValue[name] != "" ||
			exec.Command("ncgen", "-k", "nc3", "-o", out, path).Run() != nil && exec.Command("ncgen", "-k", "nc5", "-o", out, path).Run() != nil {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		ds := generate(t, string(text))
		for _, o := range []option{{"-x", cdl.WriteOptions{}}, {"-x -h", cdl.WriteOptions{HeaderOnly: true}}, {"-xc -p 4,5", cdl.WriteOptions{Coords: true, FloatDigits: 4, DoubleDigits: 5}}} {
			want, err := exec.Command("ncdump", append(strings.Fields(o.args), out)...).Output()
			if err != nil {
				t.Fatalf("%s: ncdump %s: %v", name, o.args, err)
			}
			got, err := ncml(t, ds, out, &o.opts)
			if illegal := strings.Contains(string(want), "&#0;") || strings.Contains(string(want), "&#1;"); illegal && ncerr.KindOf(err) == ncerr.ErrConvert {
				continue // not well-formed XML
			}
			if err != nil {
				t.Errorf("%s %s: %v", name, o.args, err)
			}
			fixed := strings.NewReplacer(`"nan"`, `"NaN"`, `"inf"`, `"Infinity"`, `"-inf"`, `"-Infinity"`).Replace(string(want))
			if d := diff(got, fixed); d != "" {
				t.Errorf("%s %s: %s", name, o.args, d)
			}
		}
		compared++
	}
	if compared < 15 {
		t.Errorf("want at least 15 texts to compare, got %d", compared)
	}
}

// TestNcML checks output that ncdump does not support.
func TestNcML(t *testing.T) {
	t.Parallel()
	ds := generate(t, `netcdf x {
dimensions: u = UNLIMITED ; v = UNLIMITED ; n = 2 ; \<a\"b = 1 ;
variables: int64 big(u, n) ; big:m = -9223372036854775808, 9223372036854775807LL ; big:f = NaNf, -Infinityf, 1.f ;
 string s(v) ; string s:list = "a|b", "c<d" ; string s:one = "x" ; double \<a\"b ;
 :bad = "\001" ; :empty = "" ; :text = "é <&>\"'\n" ; :u = 18446744073709551615ULL, 1ULL ;
group: g\&h { dimensions: k = 3 ; variables: float x(k, n) ; :title = "in" ; }
}`)
	got, err := ncml(t, ds, `a&"b`, nil)
	if ncerr.KindOf(err) != ncerr.ErrConvert || !strings.Contains(err.Error(), `"/:bad"`) {
		t.Errorf("want ErrConvert for /:bad, got %v", err)
	}
	want := `<?xml version="1.0" encoding="UTF-8"?>
<netcdf xmlns="https://www.unidata.ucar.edu/namespaces/netcdf/ncml-2.2" location="a&amp;&quot;b">
  <dimension name="u" length="0" isUnlimited="true" />
  <dimension name="v" length="0" isUnlimited="true" />
  <dimension name="n" length="2" />
  <dimension name="&lt;a&quot;b" length="1" />
  <attribute name="empty" value="" />
  <attribute name="text" value="é &lt;&amp;&gt;&quot;'&#xA;" />
  <attribute name="u" type="uint64" value="18446744073709551615 1" />
  <variable name="big" shape="u n" type="int64">
    <attribute name="m" type="int64" value="-9223372036854775808 9223372036854775807" />
    <attribute name="f" type="float" value="NaN -Infinity 1." />
  </variable>
  <variable name="s" shape="v" type="string">
    <attribute name="list" type="string" separator=";" value="a|b;c&lt;d" />
    <attribute name="one" type="string" value="x" />
  </variable>
  <variable name="&lt;a&quot;b" type="double">
  </variable>
  <group name="g&amp;h">
    <dimension name="k" length="3" />
    <attribute name="title" value="in" />
    <variable name="x" shape="k n" type="float">
    </variable>
  </group>
</netcdf>
`
	if d := diff(got, want); d != "" {
		t.Error(d)
	}
}
