package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStrings creates strings of fixed and variable length with nczctl gen, and lets
// peers read them. No string may be truncated, and a string must stay a string where possible.
func TestStrings(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	dir := t.TempDir()
	long := fmt.Sprintf("%0200d", 7)
	cdl := filepath.Join(dir, "x.cdl")
	text := "netcdf x {\ndimensions:\n\tn = 5 ;\nvariables:\n\tstring s(n) ;\ndata:\n s = \"a\", \"\", \"日本\", \"two words\", \"" + long + "\" ;\n}\n"
	if err := os.WriteFile(cdl, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := digest(t, []string{"a", "", "日本", "two words", long})
	for _, tc := range []struct{ mode, how, readers string }{
		{"zarr", "auto", "zarr xarray"},
		{"zarr", "fixed", "zarr xarray netcdf4"},
		{"nczarr", "auto", "zarr xarray netcdf4"},
		{"nczarr", "vlen", "zarr xarray"},
	} {
		t.Run(tc.mode+" "+tc.how, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, tc.mode+tc.how+".zarr")
			ctl(t, "gen", "--strings", tc.how, "-o", "file://"+path+"#mode="+tc.mode, cdl)
			copied := filepath.Join(dir, tc.mode+tc.how+"-copy.zarr")
			ctl(t, "copy", path, "file://"+copied+"#mode=zarr")
			for reader := range strings.FieldsSeq(tc.readers) {
				need(t, packages[reader]...)
				checkStrings(t, must(t, "read.py", "--with", reader, "--format", tc.mode, path), want)
			}
			checkStrings(t, must(t, "read.py", "--with", "zarr", copied), want)
		})
	}
}

func checkStrings(t *testing.T, described []byte, want string) {
	t.Helper()
	var doc document
	if err := json.Unmarshal(described, &doc); err != nil {
		t.Fatal(err)
	}
	if v := doc.Variables["/s"]; v == nil || v.SHA256 != want {
		t.Errorf("a peer reads %+v", v)
	}
}
