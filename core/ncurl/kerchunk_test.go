package ncurl_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// TestReferences checks which locations are reference files.
func TestReferences(t *testing.T) {
	t.Parallel()
	probe := func(name string) ncurl.PathKind {
		switch name {
		case "/d/refs.json", "/d/refs":
			return ncurl.References
		case "/d/dir.json":
			return ncurl.Directory
		case "/d/other.json":
			return ncurl.OtherFile
		}
		return ncurl.Missing
	}
	for _, c := range []struct {
		text   string
		driver string
		path   string
		refs   bool
		kind   ncerr.Kind
	}{
		{"/d/refs.json", "file", "/d/refs.json", true, 0},
		{"/d/refs", "file", "/d/refs", true, 0},
		{"file:///d/refs#mode=zarr", "file", "/d/refs", true, 0},
		{"/d/dir.json", "file", "/d/dir.json", false, 0},
		{"/d/other.json", "", "", false, ncerr.ErrNotZarr},
		{"/d/other.json#mode=kerchunk", "file", "/d/other.json", true, 0},
		{"/d/dir.json#mode=file,kerchunk", "file", "/d/dir.json", true, 0},
		{"/d/missing.json", "file", "/d/missing.json", true, 0},
		{"/d/missing", "file", "/d/missing", false, 0},
		{"s3://b/k/refs.json", "s3", "b/k/refs.json", true, 0},
		{"s3://b/k/refs.json#mode=nczarr,s3", "s3", "b/k/refs.json", false, 0},
		{"s3://b/k/refs#mode=kerchunk", "s3", "b/k/refs", true, 0},
		{"https://h.example/refs.JSON?sig=x", "http", "/refs.JSON", true, 0},
		{"https://h.example/refs#mode=kerchunk,zarr", "http", "/refs", true, 0},
		{"https://h.example/refs.json#bytes", "http", "/refs.json", false, 0},
		{"/d/refs.json#mode=kerchunk,zip", "", "", false, ncerr.ErrBadURL},
		{"/d/refs.json#mode=kerchunk,bytes", "", "", false, ncerr.ErrBadURL},
		{"/d/refs.json#mode=kerchunk&driver=tape", "", "", false, ncerr.ErrBadURL},
		{"mem:x#mode=kerchunk", "", "", false, ncerr.ErrBadURL},
	} {
		loc, err := ncurl.Parse(c.text, &ncurl.Env{Probe: probe})
		if ncerr.KindOf(err) != c.kind {
			t.Errorf("%s: want %v, got %v", c.text, c.kind, err)
		}
		if err != nil {
			continue
		}
		if loc.Driver != c.driver || loc.Path != c.path || loc.References != c.refs {
			t.Errorf("%s: got %s %s, references %t", c.text, loc.Driver, loc.Path, loc.References)
		}
		again, err := ncurl.Parse(loc.String(), &ncurl.Env{})
		if err != nil || !again.Equal(loc) || again.References != loc.References {
			t.Errorf("%s: %s is not equivalent: %+v, %v", c.text, loc, again, err)
		}
	}
	for _, text := range []string{"/d/x.json", "/d/x#mode=kerchunk", "s3://b/x.json", "s3://b/x#mode=kerchunk"} {
		if loc, err := ncurl.Parse(text, &ncurl.Env{Create: true}); err == nil {
			t.Errorf("%s: a new dataset is %+v", text, loc)
		}
	}
}
