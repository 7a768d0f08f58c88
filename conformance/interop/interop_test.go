package interop_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadPeers reads datasets written by peers. Every variable must have equal values
// or be reported as unsupported with a reason. No variable may have a wrong value.
func TestReadPeers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, args, known string }{
		{"zarr/types", "--case types", ""},
		{"zarr/types zip", "--case types --storage zip", ""},
		{"zarr/layout", "--case layout", ""},
		{"zarr/layout consolidated", "--case layout --consolidated", ""},
		{"zarr/layout zip", "--case layout --storage zip --consolidated", ""},
		{"zarr/codecs", "--case codecs", ""},
		{"zarr/codecs zip", "--case codecs --storage zip", ""},
		{"xarray/file", "--consolidated", ""},
		{"xarray/zip", "--storage zip", ""},
		{"netcdf4/nczarr", "--format nczarr", ""},
		{"netcdf4/zarr", "--format zarr", ""},
		{"netcdf4/noxarray", "--format noxarray", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			peer, _, _ := strings.Cut(tc.name, "/")
			need(t, packages[peer]...)
			path, want := sample(t, append([]string{"write.py", "--with", peer}, strings.Fields(tc.args)...)...)
			url := path
			if strings.Contains(tc.args, "noxarray") {
				url = "file://" + path + "#mode=noxarray"
			}
			got := encode(t, describe(t, url, strings.Contains(tc.name, "nczarr")))
			same(t, want, got, "", known(tc.known)...)
		})
	}
}

// TestImplicitGroups checks that the arrays of groups written by zarr-python are
// readable after the .zgroup of every group except the root is removed.
func TestImplicitGroups(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	path, want := ownSample(t, "write.py", "--with", "zarr", "--case", "layout")
	removed := 0
	err := filepath.WalkDir(path, func(name string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(name) == ".zgroup" && filepath.Dir(name) != path {
			removed++
			err = os.Remove(name)
		}
		return err
	})
	if err != nil || removed == 0 {
		t.Fatalf("want removed .zgroup documents, got %d, %v", removed, err)
	}
	same(t, want, encode(t, describe(t, path, false)), "", "/empty: missing") // the group is empty
}

// TestAttributesAreUnchanged checks that zarr-python reads unchanged attributes from
// copies, including attributes that netCDF cannot represent.
func TestAttributesAreUnchanged(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	dir := t.TempDir()
	src := filepath.Join(dir, "src.zarr")
	want := must(t, "attrs.py", "write", src)
	for name, args := range map[string][]string{"copy.zarr": {"copy"}, "copy.zip": {"copy"}, "all.zarr": {"copy", "--consolidated"}} {
		dst := filepath.Join(dir, name)
		ctl(t, append(args, src, dst+"#mode=zarr")...)
		read := []string{"read", dst}
		if name == "all.zarr" {
			read = []string{"read", "--consolidated", dst}
		}
		if got := must(t, "attrs.py", read...); !bytes.Equal(got, want) {
			t.Errorf("%s: want %s\ngot  %s", name, want, got)
		}
	}
}

// TestCodecsBoundToATypeAreCopied checks that zarr-python reads equal values from
// copies of arrays whose filters state or need an element type that NCZarr lacks, and
// that filters that do not fit are omitted with a warning.
func TestCodecsBoundToATypeAreCopied(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	dir := t.TempDir()
	src := filepath.Join(dir, "src.zarr")
	want := must(t, "typed.py", "write", src)
	for name, warned := range map[string][]string{"pure.zarr#mode=zarr": nil, "nc.zarr": {"delta", "fixedscaleoffset", "quantize", "astype"}} {
		place, _, _ := strings.Cut(name, "#")
		out, err := exec.CommandContext(t.Context(), nczctl, "--isolation=inproc", "copy", src, filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
			continue
		}
		if got := must(t, "typed.py", "read", filepath.Join(dir, place)); !bytes.Equal(got, want) {
			t.Errorf("%s: want %s\ngot  %s", name, want, got)
		}
		for _, array := range warned {
			if !strings.Contains(string(out), `"/`+array+`"`) && !strings.Contains(string(out), "/"+array+" ") {
				t.Errorf("%s: no warning about %s: %s", name, array, out)
			}
		}
		if got := strings.Count(string(out), "another element type"); got != len(warned) {
			t.Errorf("%s: want %d warnings, got %s", name, len(warned), out)
		}
	}
}

func known(lines string) []string {
	if lines == "" {
		return nil
	}
	return strings.Split(lines, ";")
}

// TestGDAL reads arrays that GDAL writes with each of its codecs, including xz with a
// delta filter. All values must be equal. Types and attributes are ignored, because
// GDAL encodes them differently.
func TestGDAL(t *testing.T) {
	t.Parallel()
	need(t, packages["gdal"]...)
	path, want := sample(t, "write.py", "--with", "gdal")
	doc := describe(t, path, false)
	for name := range doc.Variables {
		if !strings.HasPrefix(name, "/codec_") {
			delete(doc.Variables, name)
		}
	}
	if v := doc.Variables["/codec_lzma"]; v == nil || v.SHA256 == "" {
		t.Errorf("the array of lzma is unreadable: %+v", v)
	}
	for _, line := range compare(t, want, encode(t, doc), "") {
		if strings.HasPrefix(line, "/codec_") {
			t.Error(line)
		}
	}
}

// TestForeign reads types and codecs that netCDF lacks. Each array must be read with
// its values or be reported by name.
func TestForeign(t *testing.T) {
	t.Parallel()
	need(t, packages["zarr"]...)
	path, want := sample(t, "write.py", "--with", "zarr", "--case", "foreign")
	got := describe(t, path, false)
	if v := got.Variables["/plain"]; v == nil || v.SHA256 == "" {
		t.Errorf("the plain array is unreadable: %+v", v)
	}
	if v := got.Variables["/type_f"]; v == nil || v.SHA256 != digest(t, []float32{0, 1, 2, 3, 4, 5}) {
		t.Errorf("half floats, which are read as float: %+v", v)
	}
	// Datetimes are integers with attributes that describe them.
	if v := got.Variables["/type_M"]; v == nil || v.SHA256 != digest(t, []int64{0, 1, 2, 3, 4, 5}) || v.Attrs["units"].Value != "seconds since 1970-01-01" {
		t.Errorf("the datetimes have wrong values: %+v", v)
	}
	for part, values := range map[string][]float32{"real": {0, 1, 2, 3, 4, 5}, "imag": make([]float32, 6)} {
		if v := got.Variables["/type_c."+part]; v == nil || v.SHA256 != digest(t, values) {
			t.Errorf("the part %s of complex numbers has wrong values: %+v", part, v)
		}
	}
	if v := got.Variables["/type_pair.b"]; v == nil || v.SHA256 != digest(t, []float64{0, 1, 2, 3, 4, 5}) {
		t.Errorf("a field of a structured type has wrong values: %+v", v)
	}
	for _, line := range compare(t, want, encode(t, got), "type", "/json_attrs:", "/type_b: fill:", "/type_f: sha256:", "/type_M:", "/type_c", "/type_pair") {
		name, _, _ := strings.Cut(line, ":")
		if v := got.Variables[name]; v == nil || !strings.HasPrefix(v.Error, unread) {
			t.Error(line)
		}
	}
}

// TestPeersRead checks that peers read what nczctl writes: copies of a peer's sample
// with other layouts, chunks and codecs.
func TestPeersRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ sample, mode, codec, readers string }{
		{"types", "zarr,file", "none", "zarr xarray tensorstore"},
		{"types", "zarr,zip", "shuffle,zlib:level=5", "zarr xarray"},
		{"types", "nczarr,file", "shuffle,zstd:level=3", "netcdf4"},
		{"layout", "zarr,file", "gzip:level=1", "zarr tensorstore"},
		{"layout", "zarr,zip", "blosc:cname=lz4", "zarr tensorstore"},
		{"layout", "nczarr,file", "zlib:level=4", "netcdf4 zarr"},
		{"layout", "nczarr,zip", "blosc:cname=zstd", "netcdf4 zarr"},
		{"codecs", "zarr,file", "blosc:cname=zstd", "zarr xarray tensorstore"},
		{"codecs", "nczarr,file", "shuffle,zlib:level=1", "netcdf4 zarr xarray"},
	} {
		t.Run(tc.sample+" "+tc.mode+" "+tc.codec, func(t *testing.T) {
			t.Parallel()
			need(t, packages["zarr"]...)
			dst := filepath.Join(t.TempDir(), "dst.zarr")
			src, want := sample(t, "write.py", "--with", "zarr", "--case", tc.sample)
			ctl(t, "copy", "--codec", tc.codec, src, "file://"+dst+"#mode="+tc.mode)
			format, storage, _ := strings.Cut(tc.mode, ",")
			for reader := range strings.FieldsSeq(tc.readers) {
				t.Run(reader, func(t *testing.T) {
					need(t, packages[reader]...)
					got := must(t, "read.py", "--with", reader, "--format", format, "--storage", storage, dst)
					same(t, want, got, "dims,chunks,fill,attrs", "/char: TypeError: the Python binding", "/string: TypeError: the Python binding")
				})
			}
		})
	}
}

// TestRealDatasets converts netCDF files of Debian's ferret-datasets with a peer, reads
// them, and copies them with other chunks and codecs from a directory to an archive and
// back. All values must stay equal to the original.
func TestRealDatasets(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"etopo60", "etopo20", "coads_climatology", "levitus_climatology"} {
		for _, how := range []string{"xarray zarr none", "xarray zarr blosc", "netcdf4 nczarr zlib", "netcdf4 zarr zstd"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				words := strings.Fields(how)
				need(t, append(packages[words[0]], "ferret-datasets")...)
				source := filepath.Join("/usr/share/ferret-vis/data", name+".cdf")
				dir := t.TempDir()
				at := func(file string) string { return filepath.Join(dir, file) }
				want := must(t, "convert.py", "--from", source, "--with", words[0], "--format", words[1], "--codec", words[2], at("a.zarr"))
				check := func(path string, typed bool) {
					t.Helper()
					same(t, want, encode(t, describe(t, path, typed)), "chunks")
				}
				check(at("a.zarr"), words[1] == "nczarr")
				if out := ctl(t, "dump", "-h", at("a.zarr")); len(out) == 0 {
					t.Error("the dump is empty")
				}
				ctl(t, "copy", "--codec", "shuffle,zstd:level=1", at("a.zarr"), at("b.zip"))
				check(at("b.zip"), words[1] == "nczarr")
				ctl(t, "copy", "-d", "1", "-s", at("b.zip"), "file://"+at("c.zarr")+"#mode=zarr")
				check(at("c.zarr"), false)
			})
		}
	}
}

// TestUppercase reads the v2 layout with uppercase keys, which only an old ncgen writes.
func TestUppercase(t *testing.T) {
	t.Parallel()
	need(t, "netcdf-bin")
	dir := t.TempDir()
	text := "netcdf x {\ndimensions:\n\ty = 2 ;\n\tx = 3 ;\nvariables:\n\tint v(y, x) ;\n\t\tv:units = \"m\" ;\n\tdouble s ;\ndata:\n\n v =\n  1, 2, 3,\n  4, 5, 6 ;\n\n s = 2.5 ;\n}\n"
	cdl := filepath.Join(dir, "x.cdl")
	if err := os.WriteFile(cdl, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ncgen", "-4", "-lb", "-o", "file://"+filepath.Join(dir, "x.zarr")+"#mode=nczarr,file", cdl)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ncgen: %v: %s", err, out)
	}
	group, err := os.ReadFile(filepath.Join(dir, "x.zarr", ".zgroup"))
	if err != nil || !strings.Contains(string(group), "_NCZARR_GROUP") {
		t.Fatalf("this ncgen does not write the layout: %s, %v", group, err)
	}
	if got := string(ctl(t, "dump", filepath.Join(dir, "x.zarr"))); got != text {
		t.Errorf("want\n%s\ngot\n%s", text, got)
	}
}
