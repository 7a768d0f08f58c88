package ncurl_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// want holds the fields of a Location that the tables check.
type want struct {
	driver, path, endpoint string
	format                 ncurl.Format
	mode                   string
	noXarray               bool
	region                 string
}

func check(t *testing.T, text string, env *ncurl.Env, w want) *ncurl.Location {
	t.Helper()
	l, err := ncurl.Parse(text, env)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	got := want{l.Driver, l.Path, l.Endpoint, l.Format, strings.Join(l.Mode, ","), !l.Xarray, l.Region}
	if got != w {
		t.Errorf("Parse(%q)\nwant %+v\n got %+v", text, w, got)
	}
	again, err := ncurl.Parse(l.String(), env)
	if err != nil {
		t.Fatalf("Parse(%q), the canonical form of %q: %v", l.String(), text, err)
	}
	if !l.Equal(again) {
		t.Errorf("Parse(%q) is not idempotent\nfirst %+v\n then %+v", text, l, again)
	}
	return l
}

func checkError(t *testing.T, text string, env *ncurl.Env, kind ncerr.Kind, phrase string) {
	t.Helper()
	l, err := ncurl.Parse(text, env)
	if err == nil {
		t.Fatalf("Parse(%q) = %q, want an error with %q", text, l, phrase)
	}
	if ncerr.KindOf(err) != kind {
		t.Errorf("Parse(%q): kind %v, want %v: %v", text, ncerr.KindOf(err).Name(), kind.Name(), err)
	}
	if !strings.Contains(err.Error(), phrase) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Parse(%q): want one line with %q, got %q", text, phrase, err)
	}
}

// TestModes checks that Parse infers the modes in the table of netcdf-c 4.10, called the
// reference here. The mode list of Parse ends in the chosen storage mode, while the
// reference lists only given storage modes. A comment marks every other difference.
func TestModes(t *testing.T) {
	t.Parallel()
	const aws = "https://s3.us-east-1.amazonaws.com"
	for text, w := range map[string]want{
		"file:///d/x#mode=nczarr,file":   {"file", "/d/x", "", ncurl.NCZarr, "nczarr,file", false, ""},
		"file:///d/x#mode=zarr,file":     {"file", "/d/x", "", ncurl.Zarr, "zarr,file,nczarr", false, ""},
		"file:///d/x#mode=zarr,zip":      {"zip", "/d/x", "", ncurl.Zarr, "zarr,zip,nczarr", false, ""},
		"file:///d/x#mode=v3":            {"file", "/d/x", "", ncurl.Zarr, "v3,zarr,nczarr,file", false, ""},
		"file:///d/x#mode=nczarr,v3":     {"file", "/d/x", "", ncurl.NCZarr, "nczarr,v3,file", false, ""},
		"file:///d/x#mode=v3,zarr":       {"file", "/d/x", "", ncurl.Zarr, "v3,zarr,nczarr,file", false, ""},
		"file:///d/x#mode=xarray":        {"file", "/d/x", "", ncurl.Zarr, "xarray,zarr,nczarr,file", false, ""},
		"file:///d/x#mode=noxarray,file": {"file", "/d/x", "", ncurl.Zarr, "noxarray,file,nczarr,zarr", true, ""},
		"file:///d/x#mode=bytes,zarr":    {"file", "/d/x", "", ncurl.Bytes, "bytes,file", false, ""},
		"s3://b/k#mode=nczarr,s3":        {"s3", "b/k", aws, ncurl.NCZarr, "nczarr,s3", false, "us-east-1"},
		"gs3://b/k#mode=nczarr":          {"s3", "b/k", "https://storage.googleapis.com", ncurl.NCZarr, "nczarr,gs3", false, ""},
		// Differs: the reference treats a web URL without a mode as DAP2.
		"https://h/p": {"http", "/p", "https://h", ncurl.NCZarr, "", false, ""},
		// Differs: the reference treats a storage mode alone, or no mode, as DAP2, even for file:.
		"file:///d/x#mode=file": {"file", "/d/x", "", ncurl.NCZarr, "file", false, ""},
		"file:///d/x#mode=zip":  {"zip", "/d/x", "", ncurl.NCZarr, "zip", false, ""},
		"file:///d/x":           {"file", "/d/x", "", ncurl.NCZarr, "file", false, ""},
		"s3://b/k":              {"s3", "b/k", aws, ncurl.NCZarr, "s3", false, "us-east-1"},
		// Inference, negation and duplicates.
		"file:///x#mode=nczarr,xarray":             {"file", "/x", "", ncurl.Zarr, "nczarr,xarray,zarr,file", false, ""},
		"file:///x#mode=xarray,noxarray":           {"file", "/x", "", ncurl.Zarr, "noxarray,zarr,nczarr,file", true, ""},
		"file:///x#mode=nczarr,noxarray":           {"file", "/x", "", ncurl.Zarr, "nczarr,noxarray,zarr,file", true, ""},
		"file:///x#mode=file,zarr,file,ZARR":       {"file", "/x", "", ncurl.Zarr, "file,zarr,nczarr", false, ""},
		"file:///x#mode=bytes,nczarr,file":         {"file", "/x", "", ncurl.Bytes, "bytes,file", false, ""},
		"file:///x#mode=nczarr&mode=zip":           {"zip", "/x", "", ncurl.NCZarr, "nczarr,zip", false, ""},
		"file:///x#MODE=nczarr&mode=zip,NcZarr":    {"zip", "/x", "", ncurl.NCZarr, "nczarr,zip", false, ""},
		"file:///x#mode=nczarr%2Czip":              {"zip", "/x", "", ncurl.NCZarr, "nczarr,zip", false, ""},
		"file:///x#mode=,nczarr,,zip,":             {"zip", "/x", "", ncurl.NCZarr, "nczarr,zip", false, ""},
		"file:///x#mode=":                          {"file", "/x", "", ncurl.NCZarr, "file", false, ""},
		"file:///x#&&mode=zarr&":                   {"file", "/x", "", ncurl.Zarr, "zarr,nczarr,file", false, ""},
		"[mode=zarr,file]file:///x":                {"file", "/x", "", ncurl.Zarr, "zarr,file,nczarr", false, ""},
		"[mode=zarr][log]file:///x#mode=zip":       {"zip", "/x", "", ncurl.Zarr, "zarr,zip,nczarr", false, ""},
		"file:///x#mode=nczarr,consolidated,file":  {"file", "/x", "", ncurl.NCZarr, "nczarr,consolidated,file", false, ""},
		"file:///x#mode=zarr,consolidated":         {"file", "/x", "", ncurl.Zarr, "zarr,consolidated,nczarr,file", false, ""},
		"https://h/f.nc#mode=bytes":                {"http", "/f.nc", "https://h", ncurl.Bytes, "bytes", false, ""},
		"https://h/f.nc#bytes":                     {"http", "/f.nc", "https://h", ncurl.Bytes, "bytes", false, ""},
		"s3://b/f.nc#mode=bytes":                   {"s3", "b/f.nc", aws, ncurl.Bytes, "bytes,s3", false, "us-east-1"},
		"https://h/b/k#mode=zarr,s3":               {"s3", "b/k", "https://h", ncurl.Zarr, "zarr,s3,nczarr", false, ""},
		"s3://b/k#mode=gs3":                        {"s3", "b/k", "https://storage.googleapis.com", ncurl.NCZarr, "gs3,s3", false, ""},
		"FILE:///x#mode=zip":                       {"zip", "/x", "", ncurl.NCZarr, "zip", false, ""},
		"mem:n":                                    {"mem", "n", "", ncurl.NCZarr, "", false, ""},
		"mem://n/m%20o#mode=zarr":                  {"mem", "n/m o", "", ncurl.Zarr, "zarr,nczarr", false, ""},
		"https://bucket.storage.googleapis.com/k":  {"s3", "bucket/k", "https://storage.googleapis.com", ncurl.NCZarr, "gs3", false, ""},
		"https://storage.googleapis.com/b/k#s3":    {"s3", "b/k", "https://storage.googleapis.com", ncurl.NCZarr, "s3,nczarr", false, ""},
		"https://s3.amazonaws.com/b/k#mode=nczarr": {"s3", "b/k", aws, ncurl.NCZarr, "nczarr,s3", false, "us-east-1"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			check(t, text, nil, w)
		})
	}
}

// TestMacros checks keys without a value, which abbreviate modes. Differs: the reference
// drops all modes of such a key except the first, so #zarr means NCZarr and #noxarray
// writes dimension names. Parse follows the manual instead.
func TestMacros(t *testing.T) {
	t.Parallel()
	const aws = "https://s3.us-east-1.amazonaws.com"
	for text, w := range map[string]want{
		"file:///x#zarr":          {"file", "/x", "", ncurl.Zarr, "nczarr,zarr,file", false, ""},
		"file:///x#xarray":        {"file", "/x", "", ncurl.Zarr, "zarr,nczarr,file", false, ""},
		"file:///x#noxarray":      {"file", "/x", "", ncurl.Zarr, "nczarr,noxarray,zarr,file", true, ""},
		"file:///x#NoXarray":      {"file", "/x", "", ncurl.Zarr, "nczarr,noxarray,zarr,file", true, ""},
		"file:///x#zarr&mode=zip": {"zip", "/x", "", ncurl.Zarr, "nczarr,zarr,zip", false, ""},
		"file:///x#bytes":         {"file", "/x", "", ncurl.Bytes, "bytes,file", false, ""},
		"https://h/b/k#s3":        {"s3", "b/k", "https://h", ncurl.NCZarr, "s3,nczarr", false, ""},
		"https://h/b/k#s3&zarr":   {"s3", "b/k", "https://h", ncurl.Zarr, "s3,nczarr,zarr", false, ""},
		"https://h/b/k#gs3":       {"s3", "b/k", "https://h", ncurl.NCZarr, "gs3,nczarr", false, ""},
		"s3://b/k#s3":             {"s3", "b/k", aws, ncurl.NCZarr, "s3,nczarr", false, "us-east-1"},
		"x.zarr#noxarray":         {"file", "x.zarr", "", ncurl.Zarr, "nczarr,noxarray,zarr,file", true, ""},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			check(t, text, nil, w)
		})
	}
}

// TestLegacy checks that Parse accepts the spellings of older documents. Differs: the
// reference no longer accepts them.
func TestLegacy(t *testing.T) {
	t.Parallel()
	const aws = "https://s3.us-east-1.amazonaws.com"
	for text, w := range map[string]want{
		"file:///x#mode=NCZarr,nzf":              {"file", "/x", "", ncurl.NCZarr, "nczarr,file", false, ""},
		"file:///x#mode=NCZARR,ZIP":              {"zip", "/x", "", ncurl.NCZarr, "nczarr,zip", false, ""},
		"https://h/f.nc#mode=byterange":          {"http", "/f.nc", "https://h", ncurl.Bytes, "bytes", false, ""},
		"https://h/f.nc#byterange":               {"http", "/f.nc", "https://h", ncurl.Bytes, "bytes", false, ""},
		"s3://b/k#mode=nczarr,s3&awsprofile=no":  {"s3", "b/k", aws, ncurl.NCZarr, "nczarr,s3", false, "us-east-1"},
		"s3://b/k#mode=nczarr, s3&AWS.Profile=x": {"s3", "b/k", aws, ncurl.NCZarr, "nczarr,s3", false, "us-east-1"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			l := check(t, text, nil, w)
			if !slices.ContainsFunc(l.Steps, func(s ncurl.Step) bool { return s.Rule == "legacy" || s.Rule == "macro" }) {
				t.Errorf("Parse(%q): no step for the old spelling: %+v", text, l.Steps)
			}
		})
	}
	l, err := ncurl.Parse("s3://b/k#awsprofile=no", nil)
	if err != nil || !l.Unsigned || l.Profile != "" {
		t.Errorf("awsprofile=no: want unsigned, got %+v, %v", l, err)
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	type row struct{ text, path string }
	for name, c := range map[string]struct {
		env  ncurl.Env
		rows []row
	}{
		"relative to nothing": {ncurl.Env{}, []row{
			{"x.zarr", "x.zarr"},
			{"./a//b/../x.zarr/", "a/x.zarr"},
			{"..", ".."},
			{".", "."},
			{"file:x.zarr", "x.zarr"},
			{"file://x/y", "x/y"},
		}},
		"relative to cwd": {ncurl.Env{Cwd: "/home/u"}, []row{
			{"x.zarr", "/home/u/x.zarr"},
			{"../x", "/home/x"},
			{"/x", "/x"},
			{".", "/home/u"},
			{"file://x/y", "/home/u/x/y"}, // in the reference, two slashes mean a relative path
			{"file:///x/y", "/x/y"},
			{"file:/x/y", "/x/y"},
			{"file:rel", "/home/u/rel"}, // differs: the reference does not accept it as a URL
			{"file:////x", "/x"},        // differs: the reference does not accept it as a URL
			{"~/x", "/home/u/~/x"},      // only the shell expands "~"
			{"a#b", "/home/u/a#b"},
			{"a#mode", "/home/u/a#mode"},
			{"#mode=zip", "/home/u/#mode=zip"},
			{"a%20b", "/home/u/a%20b"},
			{"file:a%20b%23c", "/home/u/a b#c"},
			{"a?b", "/home/u/a?b"},
			{"run12:00.zarr", "/home/u/run12:00.zarr"},
			{`C:\x`, `/home/u/C:\x`},
			{"C:/x", "/home/u/C:/x"},
			{"[a=b]c", "/home/u/[a=b]c"},
			{"ü/\xff", "/home/u/ü/\xff"},
			{"a\nb", "/home/u/a\nb"},
			{"file:///C:/x", "/C:/x"},
			{"file:100%25", "/home/u/100%"},
		}},
		"windows": {ncurl.Env{Windows: true, Cwd: `C:\Users\u`}, []row{
			{`D:\data\x.zarr`, "D:/data/x.zarr"},
			{`d:/data\..\x`, "d:/x"},
			{`d:\`, "d:/"},
			{`d:\..\..\x`, "d:/x"},
			{`..\..\..\..`, "C:/"},
			{`x\y`, "C:/Users/u/x/y"},
			{`\A:\0`, "A:/0"},
			{`\a\..\A:\..\0`, "/0"},
			{`\a\..\A:\0`, "A:/0"},
			{"file:///C:/a%20b", "C:/a b"},
			{"file:C:/x", "C:/x"},
			{`\\srv\share\x`, "//srv/share/x"},
			{"file://x/y", "C:/Users/u/x/y"},
			{`file:\\\C:\x`, "//C:/x"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range c.rows {
				mode := "file"
				if strings.HasPrefix(r.text, "file:") {
					r.text += "#mode=file"
				}
				check(t, r.text, &c.env, want{"file", r.path, "", ncurl.NCZarr, mode, false, ""})
			}
		})
	}
	l, err := ncurl.Parse("~/x", nil)
	if err != nil || len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "~") {
		t.Errorf("~/x: want a warning, got %+v, %v", l, err)
	}
}

func TestPlainPathFragment(t *testing.T) {
	t.Parallel()
	check(t, "a.zarr#mode=zarr,zip", nil, want{"zip", "a.zarr", "", ncurl.Zarr, "zarr,zip,nczarr", false, ""})
	check(t, "a#1#mode=zip", nil, want{"zip", "a#1", "", ncurl.NCZarr, "zip", false, ""})
	check(t, "a#mode=zip&x", nil, want{"file", "a#mode=zip&x", "", ncurl.NCZarr, "file", false, ""})
	l := check(t, "a#log=f.txt", nil, want{"file", "a", "", ncurl.NCZarr, "file", false, ""})
	if v, ok := l.Param("LOG"); !ok || v != "f.txt" {
		t.Errorf("Param(LOG) = %q, %v, want f.txt, true", v, ok)
	}
}

// TestDoubtfulNames checks that Parse rejects names that would silently create a
// directory or a tree of objects although the name suggests another format.
func TestDoubtfulNames(t *testing.T) {
	t.Parallel()
	missing := func(string) ncurl.PathKind { return ncurl.Missing }
	there := func(string) ncurl.PathKind { return ncurl.Directory }
	for _, c := range []struct {
		text   string
		env    ncurl.Env
		phrase string // part of the error, or "" if no error is expected
	}{
		{"d.db#diver=sqlite", ncurl.Env{Create: true, Probe: missing}, `unknown fragment key "diver"; did you mean "driver"?`},
		{"d.db#diver=sqlite", ncurl.Env{Probe: missing}, `did you mean "driver"?`},
		{"d.db#diver=sqlite", ncurl.Env{Create: true}, `did you mean "driver"?`},
		{"d.db#diver=sqlite", ncurl.Env{Create: true, Probe: there}, ""},
		{"d.db#diver=sqlite", ncurl.Env{Probe: there}, ""},
		{"d.db#driver=sqlite&durability=flush", ncurl.Env{Create: true, Probe: missing}, "[drivers.sqlite] durability = VALUE"},
		{"d.db#driver=sqlite&mode", ncurl.Env{Create: true, Probe: missing}, `fragment key "mode" has no value`},
		{"x.zarr#mode=zarr&zip", ncurl.Env{Create: true, Probe: missing}, `unknown fragment key "zip"`},
		{"x#1.zarr", ncurl.Env{Create: true, Probe: missing}, ""},
		{"x#mode", ncurl.Env{Create: true, Probe: missing}, ""},
		{"file:d.db%23diver=sqlite", ncurl.Env{Create: true, Probe: missing}, ""},
		{"out.nc", ncurl.Env{Create: true, Probe: missing}, `not as ".nc"`},
		{"d/OUT.H5", ncurl.Env{Create: true, Probe: missing}, `not as ".h5"`},
		{"out.tar.gz#mode=zarr", ncurl.Env{Create: true, Probe: missing}, `not as ".tar.gz"`},
		{"file:///d/out.nc", ncurl.Env{Create: true, Probe: missing}, `not as ".nc"`},
		{"out.nc#mode=nczarr,file", ncurl.Env{Create: true, Probe: missing}, ""},
		{"out.nc#mode=zip", ncurl.Env{Create: true, Probe: missing}, ""},
		{"out.nc#driver=onefile", ncurl.Env{Create: true, Probe: missing}, ""},
		{"out.nc", ncurl.Env{Probe: there}, ""},
		{".nc", ncurl.Env{Create: true, Probe: missing}, ""},
		{"out.zarr", ncurl.Env{Create: true, Probe: missing}, ""},
		{"s3://b/d.zip", ncurl.Env{Create: true}, `not one ".zip" object`},
		{"s3://b/d.nc", ncurl.Env{Create: true}, `not one ".nc" object`},
		{"https://s3.us-west-1.amazonaws.com/b/d.zip#mode=zarr", ncurl.Env{Create: true}, `not one ".zip" object`},
		{"s3://b/d.zip#mode=nczarr,s3", ncurl.Env{Create: true}, ""},
		{"s3://b/d.zip", ncurl.Env{}, ""},
		{"s3://b/d.zip/x.zarr", ncurl.Env{Create: true}, ""},
	} {
		_, err := ncurl.Parse(c.text, &c.env)
		if (err != nil) != (c.phrase != "") || err != nil && !strings.Contains(err.Error(), c.phrase) {
			t.Errorf("%s (create %v): want %q, got %v", c.text, c.env.Create, c.phrase, err)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		found  ncurl.PathKind
		driver string
		kind   ncerr.Kind
		phrase string
	}{
		{"x", ncurl.Directory, "file", 0, ""},
		{"x.zip", ncurl.Directory, "file", 0, ""},
		{"file:x", ncurl.ZipArchive, "zip", 0, ""},
		{"x", ncurl.Missing, "file", 0, ""},
		{"x.ZIP", ncurl.Missing, "zip", 0, ""},
		{"x", ncurl.NetCDF3, "", ncerr.ErrNotZarr, "netCDF-3"},
		{"x", ncurl.HDF5, "", ncerr.ErrNotZarr, "HDF5"},
		{"x#mode=zarr", ncurl.OtherFile, "", ncerr.ErrNotZarr, "another kind"},
	} {
		calls := 0
		env := &ncurl.Env{Cwd: "/w", Probe: func(p string) ncurl.PathKind {
			calls++
			if want := "/w/x"; !strings.HasPrefix(p, want) {
				t.Errorf("want a probe of %q, got %q", want, p)
			}
			return c.found
		}}
		if c.kind != 0 {
			checkError(t, c.text, env, c.kind, c.phrase)
		} else if l, err := ncurl.Parse(c.text, env); err != nil || l.Driver != c.driver {
			t.Errorf("%q, found %v: %v, %v; want driver %q", c.text, c.found, l, err, c.driver)
		}
		if calls != 1 {
			t.Errorf("%q: want 1 probe, got %d", c.text, calls)
		}
	}
}

// TestNoProbe checks that Parse does not probe if a storage mode is given, for a new
// dataset, or for another scheme.
func TestNoProbe(t *testing.T) {
	t.Parallel()
	probe := func(p string) ncurl.PathKind { t.Errorf("unexpected probe of %q", p); return ncurl.HDF5 }
	for text, driver := range map[string]string{
		"x#mode=zip": "zip", "x#mode=file": "file", "x#mode=bytes": "file", "https://h/x": "http", "mem:x": "mem",
	} {
		if l, err := ncurl.Parse(text, &ncurl.Env{Probe: probe}); err != nil || l.Driver != driver {
			t.Errorf("%q: %v, %v; want driver %q", text, l, err, driver)
		}
	}
	for text, driver := range map[string]string{
		"x": "file", "x.zip": "zip", "x.Zip": "zip", "x.zarr": "file", "x.zip#mode=file": "file", "file:x.zip#mode=zarr": "zip",
	} {
		if l, err := ncurl.Parse(text, &ncurl.Env{Probe: probe, Create: true}); err != nil || l.Driver != driver {
			t.Errorf("create %q: %v, %v; want driver %q", text, l, err, driver)
		}
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]ncurl.PathKind{
		"PK\x03\x04...": ncurl.ZipArchive, "PK\x05\x06": ncurl.ZipArchive, "CDF\x01": ncurl.NetCDF3,
		"CDF\x05aaaa": ncurl.NetCDF3, "CDF\x03": ncurl.OtherFile, "\x89HDF\r\n\x1a\n": ncurl.HDF5,
		"\x89HDF": ncurl.OtherFile, "": ncurl.OtherFile, "PK": ncurl.OtherFile, "{}": ncurl.OtherFile,
	} {
		if got := ncurl.Sniff([]byte(head)); got != want {
			t.Errorf("Sniff(%q) = %v, want %v", head, got, want)
		}
	}
	if s := ncurl.PathKind(200).String(); s != ncurl.OtherFile.String() {
		t.Errorf("an unknown PathKind prints %q", s)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		kind   ncerr.Kind
		phrase string
	}{
		{"", ncerr.ErrBadURL, "empty"},
		{"  ", ncerr.ErrBadURL, "empty"},
		{"a\x00b", ncerr.ErrBadURL, "NUL"},
		{"file:", ncerr.ErrBadURL, "path is empty"},
		{"file://", ncerr.ErrBadURL, "path is empty"},
		{"file:%00", ncerr.ErrBadURL, "NUL"},
		{"file:a%2", ncerr.ErrBadURL, "percent-escape"},
		{"file:a?b", ncerr.ErrBadURL, `"%3F"`},
		{"file:a\nb", ncerr.ErrBadURL, "control character"},
		{"file:a#mode=%zz", ncerr.ErrBadURL, `fragment key "mode"`},
		{"file:a#%zz=1", ncerr.ErrBadURL, "percent-escape"},
		{"file:a#=1", ncerr.ErrBadURL, "without a key"},
		{"[=1]file:a", ncerr.ErrBadURL, "without a key"},
		{"[mode=zarr", ncerr.ErrBadURL, ""}, // the brackets are not closed, so the location is a path
		{"gs://b/k", ncerr.ErrBadURL, `did you mean "gs3"?`},
		{"htp://b/k", ncerr.ErrBadURL, `did you mean "http"?`},
		{"zoh://b/k", ncerr.ErrBadURL, `unknown scheme "zoh" (schemes are file,`},
		{"file:a#mode=nczar", ncerr.ErrBadURL, `unknown mode "nczar"; did you mean "nczarr"?`},
		{"file:a#mode=zipp", ncerr.ErrBadURL, `did you mean "zip"?`},
		{"file:a#mode=qqqqqq", ncerr.ErrBadURL, `unknown mode "qqqqqq" (modes are nczarr,`},
		{"a#mode=zar", ncerr.ErrBadURL, `did you mean "zarr"?`},
		{"file:a#mode=file,zip", ncerr.ErrBadURL, "more than one storage: file, zip"},
		{"file:a#mode=s3", ncerr.ErrBadURL, "not a file"}, // the reference returns NC_EURL
		{"a#mode=gs3", ncerr.ErrBadURL, "not a file"},
		{"file:a#mode=file,s3", ncerr.ErrBadURL, "more than one storage: file, s3"},
		{"s3://b/k#mode=file", ncerr.ErrBadURL, "more than one storage: file, s3"},
		{"https://h/p#mode=file", ncerr.ErrBadURL, "conflicts with the scheme https:"},
		{"mem:x#mode=zip", ncerr.ErrBadURL, "conflicts with the scheme mem:"},
		{"mem:", ncerr.ErrBadURL, "needs a name"},
		{"mem:x#bytes", ncerr.ErrBadURL, "conflicts with mode=bytes"},
		{"file:a#mode=bytes,zip", ncerr.ErrBadURL, "conflicts with mode=zip"},
		{"s3://b/k#mode=zip", ncerr.ErrUnsupported, "zip archive"},
		{"s3://b/k#mode=zip,s3", ncerr.ErrUnsupported, "zip archive"},
		{"https://h/x.zip#mode=zip", ncerr.ErrUnsupported, "zip archive"},
		{"dods://h/p", ncerr.ErrUnsupported, "DAP"},
		{"dap4://h/p", ncerr.ErrUnsupported, "DAP"},
		{"https://h/p#mode=dap2", ncerr.ErrUnsupported, "DAP"},
		{"https://h/p#dap4", ncerr.ErrUnsupported, "DAP"},
		{"file:a#mode=nz4", ncerr.ErrUnsupported, "nz4"},
		{"file:a#mode=netcdf-4", ncerr.ErrUnsupported, "not Zarr"},
		{"file:a#mode=udf3", ncerr.ErrUnsupported, "plugin"},
		{"https:/h/p", ncerr.ErrBadURL, `must be followed by "//"`},
		{"https:///p", ncerr.ErrBadURL, "and the path is missing"},
		{"https://h:0/p", ncerr.ErrBadURL, "port"},
		{"https://h:99999/p", ncerr.ErrBadURL, "port"},
		{"https://h:x/p", ncerr.ErrBadURL, "port"},
		{"https://a..b/p", ncerr.ErrBadURL, "empty label"},
		{"https://a b/p", ncerr.ErrBadURL, "character other than"},
		{"https://bücher.example/p", ncerr.ErrBadURL, "xn--"},
		{"https://[::1/p", ncerr.ErrBadURL, "IPv6"},
		{"https://[127.0.0.1]/p", ncerr.ErrBadURL, "IPv6"},
		{"https://h/p%", ncerr.ErrBadURL, "percent-escape"},
		{"https://h/p?a b", ncerr.ErrBadURL, "query"},
	} {
		if c.text == "[mode=zarr" {
			check(t, c.text, nil, want{"file", c.text, "", ncurl.NCZarr, "file", false, ""})
			continue
		}
		checkError(t, c.text, nil, c.kind, c.phrase)
	}
	checkError(t, "file:a#mode=bytes", &ncurl.Env{Create: true}, ncerr.ErrUnsupported, "read-only")
}

// TestErrorsAreOneLine checks the operation and the key of an error, because programs
// rely on them.
func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	_, err := ncurl.Parse("file:a#mode=zar", nil)
	var e *ncerr.Error
	if !errors.As(err, &e) || e.Op != "parse location" || e.Key != "file:a#mode=zar" {
		t.Errorf("want op and key in the error, got %#v", err)
	}
}

func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	l, err := ncurl.Parse("file:a#log=x&colour=Blue&mode=zarr&moed=zip&zip&show=fetch&colour=red,BLUE", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFrag := []ncurl.Param{{"log", "x"}, {"colour", "Blue,red"}, {"moed", "zip"}, {"zip", ""}, {"show", "fetch"}}
	if !slices.Equal(l.Fragment, wantFrag) {
		t.Errorf("want %v, got %v", wantFrag, l.Fragment)
	}
	wantWarn := []string{
		`unknown fragment key "colour"`,
		`unknown fragment key "moed"; did you mean "mode"?`,
		`unknown fragment key "zip"; did you mean "mode=zip"?`,
	}
	if !slices.Equal(l.Warnings, wantWarn) {
		t.Errorf("want %q, got %q", wantWarn, l.Warnings)
	}
	if _, ok := l.Param("nothing"); ok {
		t.Error("Param returned true for a missing key")
	}
}

func TestConsolidatedVariable(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"": false, "0": false, "00": false, "1": true, "12": true, "true": true, "YES": true, "no": false, "-1": false, "1x": false,
	} {
		env := &ncurl.Env{Vars: map[string]string{"NCZARR_CONSOLIDATED": value}}
		l, err := ncurl.Parse("file:///x#mode=zarr", env)
		if err != nil || l.Consolidated != want || slices.Contains(l.Mode, "consolidated") != want {
			t.Errorf("NCZARR_CONSOLIDATED=%q: %v, %v; want %v", value, l, err, want)
		}
	}
}

func TestSeparator(t *testing.T) {
	t.Parallel()
	env := &ncurl.Env{RC: []ncurl.RCEntry{{Key: "ZARR.DIMENSION_SEPARATOR", Value: "/", Source: ".ncrc:3"}}}
	l, err := ncurl.Parse("x", env)
	if err != nil || l.Separator != "/" || !strings.Contains(l.String(), "dimension_separator=/") {
		t.Errorf("want the separator / of the rc entry, got %v, %v", l, err)
	}
	l, err = ncurl.Parse("x#dimension_separator=.", env)
	if err != nil || l.Separator != "." {
		t.Errorf("want the separator . of the fragment, got %v, %v", l, err)
	}
	// Differs: the reference replaces any other value silently.
	env.RC[0].Value = ":"
	checkError(t, "x", env, ncerr.ErrInvalid, "the rc key ZARR.DIMENSION_SEPARATOR (.ncrc:3)")
}
