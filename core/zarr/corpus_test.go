package zarr_test

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// corpora returns the directory of a set of stores written by other programs.
func corpora(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("NCZARR_CORPORA")
	if root == "" {
		dir, err := os.Getwd()
		for err == nil && dir != filepath.Dir(dir) {
			if _, serr := os.Stat(filepath.Join(dir, "go.mod")); serr == nil {
				break
			}
			dir = filepath.Dir(dir)
		}
		root = filepath.Join(dir, "..", "shared", "corpora")
	}
	p := filepath.Join(root, name)
	if _, err := os.Stat(p); err != nil {
		t.Skipf("corpus %s is missing: set NCZARR_CORPORA", name)
	}
	return p
}

// nodesOf groups documents by the path of their node; "" is the root.
func nodesOf(docs map[string][]byte) map[string]zarr.Docs {
	nodes := map[string]zarr.Docs{}
	for key, b := range docs {
		dir, name := path.Split(key)
		dir = strings.Trim(dir, "/")
		if !zarr.IsZarrDoc(name) {
			continue
		}
		if nodes[dir] == nil {
			nodes[dir] = zarr.Docs{}
		}
		nodes[dir][name] = b
	}
	return nodes
}

// store reads all metadata documents of a directory or a zip file.
func store(t testing.TB, name string) map[string]zarr.Docs {
	t.Helper()
	docs := map[string][]byte{}
	var fsys fs.FS = os.DirFS(name)
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.OpenReader(name)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = z.Close() }()
		for _, f := range z.File {
			if !zarr.IsZarrDoc(path.Base(f.Name)) {
				continue
			}
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if docs[f.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		return nodesOf(docs)
	}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && zarr.IsZarrDoc(d.Name()) {
			docs[p], err = fs.ReadFile(fsys, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return nodesOf(docs)
}

// TestCorpora parses all groups and arrays of the corpora. It writes each array in its
// own layout and checks that the result parses to the same Array.
func TestCorpora(t *testing.T) {
	t.Parallel()
	stores := []string{corpora(t, "nczarr") + "/ref_data.zarr", corpora(t, "zarr-v2") + "/data.zarr"}
	for _, dir := range []string{"nczarr", "zarr-v2"} {
		zips, err := filepath.Glob(corpora(t, dir) + "/*.zip")
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, zips...)
	}
	arrays := 0
	for _, s := range stores {
		for p, docs := range store(t, s) {
			if _, ok := docs[".zarray"]; !ok {
				if _, err := zarr.ParseGroup(p, docs, zarr.LayoutNewest); err != nil {
					t.Errorf("%s: parse a group: %v", s, err)
				}
				continue
			}
			arrays++
			a, err := zarr.ParseArray(p, docs, zarr.ParseHint{})
			if err != nil {
				t.Errorf("%s: parse an array: %v", s, err)
				continue
			}
			if len(a.Warnings) > 0 && !strings.Contains(s, "noshape") {
				t.Errorf("%s: %s: unexpected warnings %q", s, p, a.Warnings)
			}
			checkRoundTrip(t, a)
		}
	}
	if arrays < 100 {
		t.Errorf("want at least 100 arrays, got %d", arrays)
	}
}

// checkRoundTrip writes a in its own layout, parses the result and compares both arrays.
func checkRoundTrip(t testing.TB, a *zarr.Array) {
	t.Helper()
	docs, err := a.Docs(zarr.WriteOptions{Layout: a.Layout, IsRoot: true})
	if err != nil {
		t.Errorf("write: %v", err)
		return
	}
	b, err := zarr.ParseArray("v", docs, zarr.ParseHint{Layout: a.Layout})
	if err != nil {
		t.Errorf("parse: %v", err)
		return
	}
	diffArrays(t, a, b)
}

// TestNoShape parses two damaged arrays of netcdf-c. One has dimension names but an empty
// shape; the other has no shape.
func TestNoShape(t *testing.T) {
	t.Parallel()
	docs := store(t, corpora(t, "nczarr")+"/ref_noshape.file.zip")["ref_noshape.file/v"]
	a, err := zarr.ParseArray("v", docs, zarr.ParseHint{})
	if err != nil || !a.Scalar || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "1 names for 0 dimensions") {
		t.Errorf("want a scalar and one warning, got %+v, %v", a, err)
	}
	docs = zarr.Docs{".zarray": []byte(`{"zarr_format": 2, "dtype": "<i4", "chunks": [], "fill_value": -1}`)}
	_, err = zarr.ParseArray("v", docs, zarr.ParseHint{})
	if ncerr.KindOf(err) != ncerr.ErrMetadata || !strings.Contains(err.Error(), `"/v/.zarray"`) || !strings.Contains(err.Error(), "shape: the member is missing") {
		t.Errorf("want ErrMetadata about the missing shape, got %v", err)
	}
}

// listing matches the line of a document in the output of netcdf-c's zmapio.
var listing = regexp.MustCompile(`^\[\d+\] (/\S*) : \(\d*\) \|(.*)\|$`)

// zmapText returns the documents in a file of the corpora that holds the output of zmapio.
func zmapText(t *testing.T, name string) map[string]zarr.Docs {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpora(t, "nczarr"), name))
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string][]byte{}
	for line := range strings.Lines(string(b)) {
		if m := listing.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			docs[strings.TrimPrefix(m[1], "/")] = []byte(m[2])
		}
	}
	return nodesOf(docs)
}

// TestGoldenListings checks that documents written by netcdf-c are rewritten byte for
// byte, except for the errors of netcdf-c, which fix corrects.
func TestGoldenListings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layout zarr.Layout
		fix    *strings.Replacer
	}{
		"ref_oldkeys.zmap": {zarr.LayoutLower, strings.NewReplacer()},
		// [0.,0.,1.] is not JSON, so it is written as a string. The listing lacks the
		// attribute _NCProperties but contains its type.
		"ref_jsonconvention.zmap": {zarr.LayoutNewest, strings.NewReplacer(`"varjson3": [0.,0.,1.]`, `"varjson3": "[0.,0.,1.]"`, `"_NCProperties": ">S1", `, "")},
	} {
		nodes := zmapText(t, name)
		if l, err := zarr.DetectLayout(nodes[""], false); err != nil || l != c.layout {
			t.Errorf("%s: want %v, got %v, %v", name, c.layout, l, err)
		}
		for p, docs := range nodes {
			var got zarr.Docs
			opts := zarr.WriteOptions{Layout: c.layout, IsRoot: true}
			if _, ok := docs[".zarray"]; ok {
				a, err := zarr.ParseArray(p, docs, zarr.ParseHint{Layout: c.layout})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				got, err = a.Docs(opts)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			} else if g, err := zarr.ParseGroup(p, docs, zarr.LayoutNewest); err != nil {
				t.Fatalf("%s: %v", name, err)
			} else if got, err = g.Docs(opts); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			sameDocs(t, name+" "+p, c.fix, got, docs)
		}
	}
}

func sameDocs(t *testing.T, what string, fix *strings.Replacer, got, want zarr.Docs) {
	t.Helper()
	for doc, b := range want {
		if w := fix.Replace(string(b)); w != string(got[doc]) {
			t.Errorf("%s/%s:\nwant %s\ngot  %s", what, doc, w, got[doc])
		}
	}
	for doc, b := range got {
		if _, ok := want[doc]; !ok {
			t.Errorf("%s/%s is not in the golden file: %s", what, doc, b)
		}
	}
}

// TestGoldenV1 checks that the documents of NCZarr 1 are rewritten byte for byte, except
// for .zarray, whose end is missing in the listing.
func TestGoldenV1(t *testing.T) {
	t.Parallel()
	nodes := zmapText(t, "ref_blosc_zmap.txt")
	g, err := zarr.ParseGroup("", nodes[""], zarr.LayoutNewest)
	if err != nil {
		t.Fatal(err)
	}
	if g.Layout != zarr.LayoutV1 || g.Superblock != "1.0.0" || !g.Listed || len(g.Dims) != 4 || g.Dims[3] != (zarr.Dim{Name: "dim3", Len: 4}) {
		t.Errorf("unexpected group %+v", g)
	}
	if want := "version=2,netcdf=4.8.1-development,nczarr=1.0.0"; g.NCProperties != want {
		t.Errorf("want %q, got %q", want, g.NCProperties)
	}
	opts := zarr.WriteOptions{Layout: zarr.LayoutV1, IsRoot: true}
	docs, err := g.Docs(opts)
	if err != nil {
		t.Fatal(err)
	}
	sameDocs(t, "root", strings.NewReplacer(), docs, nodes[""])
	v := nodes["var"]
	head := `{"zarr_format": 2,"shape": [4,4,4,4],"dtype": "<f4","chunks": [4,4,4,4],`
	v[".zarray"] = []byte(head + `"order": "C","compressor": null,"filters": null}`)
	a, err := zarr.ParseArray("var", v, zarr.ParseHint{Layout: zarr.LayoutV1})
	if err != nil {
		t.Fatal(err)
	}
	if docs, err = a.Docs(opts); err != nil {
		t.Fatal(err)
	}
	if string(docs[".nczarray"]) != string(v[".nczarray"]) || !strings.HasPrefix(string(docs[".zarray"]), head) {
		t.Errorf("the documents changed: %s", docs)
	}
}
