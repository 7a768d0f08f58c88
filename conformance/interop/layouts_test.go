package interop_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// layoutText is a dataset that every reader of every layout supports. Debian's netcdf-c
// 4.9.0 supports neither strings nor unlimited dimensions, and crashes on scalars.
const layoutText = `netcdf x {
dimensions:
	y = 2 ;
	x = 3 ;
variables:
	int v(y, x) ;
		v:units = "m" ;
		v:valid_range = 1, 6 ;
	double d(y) ;
		d:_FillValue = -999.5 ;

// global attributes:
		:title = "T" ;
data:

 v =
  1, 2, 3,
  4, 5, 6 ;

 d = 0.1, _ ;

group: g {
  dimensions:
  	z = 2 ;
  variables:
  	ubyte q(z, x) ;
  		q:note = "in a group" ;
  data:

   q =
  1, 2, 3,
  4, 5, 255 ;
  } // group g
}
`

// TestPeersReadLayouts checks that peers read equal values from every layout that
// nczctl can write.
func TestPeersReadLayouts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ layout, reader, format, ignore string }{
		{"newest", "netcdf4", "nczarr", ""},
		{"4.9.1", "netcdf4", "nczarr", ""},
		{"pure", "netcdf4", "zarr", "dims,attrs"},
		{"pure", "zarr", "zarr", "dims,attrs"},
		{"pure", "xarray", "zarr", "dims,attrs"},
		{"noxarray", "netcdf4", "noxarray", "dims,attrs"},
		{"noxarray", "zarr", "zarr", "dims,attrs"},
	} {
		t.Run(tc.layout+" "+tc.reader, func(t *testing.T) {
			t.Parallel()
			need(t, packages[tc.reader]...)
			path := genLayout(t, tc.layout)
			want := encode(t, describe(t, path, tc.format == "nczarr"))
			got := must(t, "read.py", "--with", tc.reader, "--format", tc.format, path)
			same(t, want, got, tc.ignore)
		})
	}
}

// TestOldNcdump checks that netcdf-c 4.9.0, which writes the uppercase layout, reads
// what nczctl writes in this layout, and that ncdump and nczctl dump print the same.
func TestOldNcdump(t *testing.T) {
	t.Parallel()
	need(t, "netcdf-bin")
	path := genLayout(t, "4.8.1")
	var msg bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "ncdump", "-n", "x", "file://"+path+"#mode=nczarr,file")
	cmd.Stderr = &msg
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("ncdump: %v: %s", err, msg.Bytes())
	}
	if want := string(ctl(t, "dump", "-n", "x", path)); string(got) != want {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

// genLayout creates the dataset of layoutText in a layout and returns its path. For an
// old layout it checks that dump prints layoutText again.
func genLayout(t *testing.T, layout string) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "x.zarr")
	cdl := filepath.Join(dir, "x.cdl")
	if err := os.WriteFile(cdl, []byte(layoutText), 0o666); err != nil {
		t.Fatal(err)
	}
	ctl(t, "gen", "--layout", layout, "-o", path, cdl)
	if strings.HasPrefix(layout, "4.") {
		if got := string(ctl(t, "dump", "-n", "x", path)); got != layoutText {
			t.Fatalf("want\n%s\ngot\n%s", layoutText, got)
		}
	}
	return path
}

// TestOldBigEndian checks that variables that netcdf-c 4.9.0 declared big-endian but
// stored little-endian keep the values that its own ncdump prints.
func TestOldBigEndian(t *testing.T) {
	t.Parallel()
	need(t, "netcdf-bin")
	dir := t.TempDir()
	text := "netcdf x {\ndimensions:\n\tx = 3 ;\nvariables:\n\tint64 v(x) ;\n\t\tv:_Endianness = \"big\" ;\ndata:\n\n v = 1, 2, 3 ;\n}\n"
	cdl := filepath.Join(dir, "x.cdl")
	if err := os.WriteFile(cdl, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.zarr")
	url := "file://" + path + "#mode=nczarr,file"
	if out, err := exec.CommandContext(t.Context(), "ncgen", "-4", "-lb", "-o", url, cdl).CombinedOutput(); err != nil {
		t.Fatalf("ncgen: %v: %s", err, out)
	}
	doc, err := os.ReadFile(filepath.Join(path, "v", ".zarray"))
	if err != nil || !bytes.Contains(doc, []byte(`">i8"`)) {
		t.Fatalf("this ncgen does not write the type: %s, %v", doc, err)
	}
	want, err := exec.CommandContext(t.Context(), "ncdump", url).Output()
	if err != nil || !strings.Contains(string(want), "v = 1, 2, 3 ;") {
		t.Fatalf("ncdump: %v\n%s", err, want)
	}
	if got := ctl(t, "dump", path); !bytes.Equal(got, want) {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

// TestConsolidated checks that nczctl considers the consolidated metadata of zarr-python and
// xarray current, and that both peers read datasets that nczctl consolidated, even after all
// other documents are removed except those of the root, which zarr-python reads first.
func TestConsolidated(t *testing.T) {
	t.Parallel()
	for _, peer := range []string{"zarr", "xarray"} {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			need(t, packages[peer]...)
			args := []string{"write.py", "--with", peer}
			if peer == "zarr" {
				args = append(args, "--case", "layout")
			}
			theirs, _ := sample(t, append(args, "--consolidated")...)
			if got := string(ctl(t, "consolidate", "--check", theirs)); !strings.Contains(got, "is current") {
				t.Errorf("consolidate --check: want current metadata, got %q", got)
			}
			ours, want := ownSample(t, args...)
			if err := os.RemoveAll(filepath.Join(ours, ".zmetadata")); err != nil {
				t.Fatal(err)
			}
			ctl(t, "consolidate", ours)
			for _, pattern := range []string{"*/.z*", "*/*/.z*"} {
				files, err := filepath.Glob(filepath.Join(ours, pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					if err := os.Remove(file); err != nil {
						t.Fatal(err)
					}
				}
			}
			got := must(t, "read.py", "--with", peer, "--format", "zarr", "--consolidated", ours)
			same(t, want, got, "")
			same(t, want, encode(t, describe(t, "file://"+ours+"#mode=zarr,consolidated", false)), "")
		})
	}
}
