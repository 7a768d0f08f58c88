package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRefusedNames checks that a copy to NCZarr warns exactly about the names of variables,
// groups and dimensions for which netcdf-c does not open the copy.
func TestRefusedNames(t *testing.T) {
	t.Parallel()
	need(t, packages["netcdf4"]...)
	const array = `{"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "fill_value": 0, "order": "C", "compressor": null, "filters": null}`
	refused := 0
	for _, name := range []string{"-a", "~a", "@", "a~(b)", "_a", "1a", "ä", "a\u0308", "xe\u0301", "\u212b", "日本"} {
		for _, kind := range []string{"variable", "group", "dimension"} {
			dir := t.TempDir()
			docs := map[string]string{".zgroup": `{"zarr_format": 2}`}
			switch kind {
			case "variable":
				docs[name+"/.zarray"] = array
			case "group":
				docs[name+"/.zgroup"] = docs[".zgroup"]
			case "dimension":
				docs["v/.zarray"], docs["v/.zattrs"] = array, `{"_ARRAY_DIMENSIONS": ["`+name+`"]}`
			}
			for key, text := range docs {
				at := filepath.Join(dir, "src", key)
				err := os.MkdirAll(filepath.Dir(at), 0o700)
				if err == nil {
					err = os.WriteFile(at, []byte(text), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			to := filepath.Join(dir, "copy")
			out, err := exec.CommandContext(t.Context(), nczctl, "--isolation=inproc", "copy", filepath.Join(dir, "src"), to+"#mode=nczarr").CombinedOutput()
			if err != nil {
				t.Fatalf("%q: %v: %s", name, err, out)
			}
			_, err = tool(t, "read.py", "--with", "netcdf4", "--format", "nczarr", to)
			if warned := strings.Contains(string(out), "netcdf-c cannot open"); warned != (err != nil) {
				t.Errorf("%s %q: warned: %v, netcdf-c: %v", kind, name, warned, err)
			} else if warned {
				refused++
			}
		}
	}
	if refused != 15 {
		t.Errorf("want 15 refused names, got %d", refused)
	}
}
