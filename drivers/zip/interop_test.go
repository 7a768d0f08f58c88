package zip_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// tree returns a small dataset as files.
func tree() map[string]string {
	return map[string]string{
		".zgroup": `{"zarr_format": 2}`, ".zattrs": "{}", "v/.zarray": `{"shape": [4]}`, "v/0": "\x00\x01\x02\x03",
		"group with spaces/.zgroup": "{}", "été/0.0": strings.Repeat("soft ", 3000), "empty": "",
	}
}

// TestInfoZip checks that the driver reads archives that zip -r creates inside a tree and
// in its parent directory, and that unzip reads the rewritten archives.
func TestInfoZip(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTree(t, filepath.Join(dir, "data.zarr"), tree())
	tool(t, filepath.Join(dir, "data.zarr"), "zip", "-q", "-r", "../within.zip", ".")
	tool(t, dir, "zip", "-q", "-r", "parent.zip", "data.zarr")
	tool(t, dir, "zip", "-q", "-0", "-r", "stored.zip", "data.zarr")
	tool(t, dir, "zip", "-q", "-fz", "-r", "zip64.zip", "data.zarr")
	for name, prefix := range map[string]string{"within.zip": "", "parent.zip": "data.zarr/", "stored.zip": "data.zarr/", "zip64.zip": "data.zarr/"} {
		path := filepath.Join(dir, name)
		m := openZip(t, path, driver.Update, "")
		if m.Prefix() != prefix {
			t.Errorf("%s: unexpected prefix %q", name, m.Prefix())
		}
		want := tree()
		wantContent(t, m, want)
		put(t, m, "v/1", "new")
		remove(t, m, "v/0")
		want["v/1"] = "new"
		delete(want, "v/0")
		flush(t, m)
		wantContent(t, m, want)
		tool(t, dir, "unzip", "-tq", name)
		out := filepath.Join(dir, name+".out")
		tool(t, dir, "unzip", "-q", name, "-d", out)
		if got := readTree(t, filepath.Join(out, prefix)); !maps.Equal(got, want) {
			t.Errorf("%s: unzip extracts %q", name, sortedKeys(got))
		}
	}
}

const makeArchives = `
import io, os, sys, zipfile
tree = {os.path.relpath(os.path.join(d, f), "data").replace(os.sep, "/"): open(os.path.join(d, f), "rb").read()
        for d, _, fs in os.walk("data") for f in fs}
def make(name, mode="w", method=zipfile.ZIP_STORED, force=False, comment=b"", only=None):
    with zipfile.ZipFile(name, mode, method) as z:
        for k in only or sorted(tree):
            with z.open(zipfile.ZipInfo(k) if method == zipfile.ZIP_STORED else k, "w", force_zip64=force) as f:
                f.write(tree[k])
        z.comment = comment
make("stored.zip")
make("deflated.zip", method=zipfile.ZIP_DEFLATED)
make("zip64.zip", method=zipfile.ZIP_DEFLATED, force=True)
make("comment.zip", comment=b"a comment " * 500)
with open("stub.zip", "wb") as f: f.write(b"MZ stub " * 100)
make("stub.zip", mode="a")
data = open("stored.zip", "rb").read()
with open("junk.zip", "wb") as f: f.write(b"junk " * 1000 + data)
import warnings
warnings.simplefilter("ignore")
right = tree["v/0"]
tree["v/0"] = b"old content"
make("twice.zip")
tree["v/0"] = right
make("twice.zip", mode="a", only=["v/0"])
class Pipe(io.RawIOBase):
    def __init__(self, f): self.f = f
    def writable(self): return True
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
with open("streamed.zip", "wb") as f: make(Pipe(f), method=zipfile.ZIP_DEFLATED)
`

const readArchive = `
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
for i in z.infolist(): print(i.filename, z.read(i).hex(), sep="\t")
`

// python runs a program with python3. It skips the test if python3 is not installed.
func python(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	return tool(t, dir, "python3", append([]string{"-X", "utf8", "-c", program}, args...)...)
}

// TestPythonZipfile checks that the driver reads all forms of archives that Python's
// zipfile writes, and that zipfile reads the rewritten archives.
func TestPythonZipfile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTree(t, filepath.Join(dir, "data"), tree())
	python(t, dir, makeArchives)
	for _, name := range []string{"stored", "deflated", "zip64", "comment", "stub", "junk", "twice", "streamed"} {
		m := openZip(t, filepath.Join(dir, name+".zip"), driver.Update, `{"deflate": 5}`)
		want := tree()
		wantContent(t, m, want)
		put(t, m, "v/1", strings.Repeat("new", 1000))
		put(t, m, "empty", "no more")
		want["v/1"], want["empty"] = strings.Repeat("new", 1000), "no more"
		flush(t, m)
		var lines []string
		for k, v := range want {
			lines = append(lines, k+"\t"+hexOf(v))
		}
		got := strings.Split(strings.TrimSuffix(strings.ReplaceAll(python(t, dir, readArchive, name+".zip"), "\r", ""), "\n"), "\n")
		slices.Sort(lines)
		slices.Sort(got)
		if !slices.Equal(got, lines) {
			t.Errorf("%s: Python reads %.300q", name, got)
		}
	}
}

func hexOf(s string) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		b = append(b, digits[s[i]>>4], digits[s[i]&15])
	}
	return string(b)
}

// TestCorpora reads archives created by other systems and compares the content with
// the members that the standard library finds.
func TestCorpora(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{
		"zarr-v2/data.zipped_from_parent.zarr.zip": "data.zarr/",
		"zarr-v2/data.zipped_from_within.zarr.zip": "",
		"nczarr/ref_byte.zarr.zip":                 "ref_byte.zarr/",
		"nczarr/ref_byte_fill_value_null.zarr.zip": "ref_byte_fill_value_null.zarr/",
		"nczarr/ref_noshape.file.zip":              "ref_noshape.file/",
		"nczarr/ref_oldkeys.file.zip":              "ref_oldkeys.file/",
		"nczarr/ref_power_901_constants_orig.zip":  "",
		"nczarr/ref_quotes_orig.zip":               "ref_quotes/",
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			path := corpus(t, name)
			want := map[string]string{}
			for k, v := range stdContent(t, path) {
				if !strings.HasSuffix(k, "/") {
					want[strings.TrimPrefix(k, prefix)] = v
				}
			}
			m := openZip(t, path, driver.Read, "")
			if m.Prefix() != prefix || len(m.Skipped()) > 0 {
				t.Errorf("unexpected prefix %q or skipped members %v", m.Prefix(), m.Skipped())
			}
			wantContent(t, m, want)
			again := saved(t, fileContent(t, path))
			up := openZip(t, again, driver.Update, "")
			put(t, up, "added/key", "x")
			flush(t, up)
			want["added/key"] = "x"
			wantContent(t, openZip(t, again, driver.Read, ""), want)
		})
	}
	parent, within := openZip(t, corpus(t, "zarr-v2/data.zipped_from_parent.zarr.zip"), driver.Read, ""), openZip(t, corpus(t, "zarr-v2/data.zipped_from_within.zarr.zip"), driver.Read, "")
	if !maps.Equal(content(t, parent), content(t, within)) {
		t.Error("the archives zipped from within and from the parent differ")
	}
}

// TestLargeMember checks that a member of more than 4 GiB, and members after it, can be
// written and read.
func TestLargeMember(t *testing.T) { //nolint:paralleltest // the test needs much memory
	if os.Getenv("NCZARR_BIG") == "" {
		t.Skip("needs 10 GiB of disk; set NCZARR_BIG")
	}
	path := filepath.Join(t.TempDir(), "big.zip")
	m := openZip(t, path, driver.Create, "")
	if _, err := m.Put(t.Context(), "a/big", zeros(1<<32+5), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	put(t, m, "b", "behind")
	flush(t, m)
	tool(t, filepath.Dir(path), "unzip", "-tq", path)
	put(t, m, "c", "copied with the rest")
	flush(t, m)
	again := openZip(t, path, driver.Read, "")
	info, err := again.Stat(t.Context(), "a/big")
	if err != nil || info.Size != 1<<32+5 || get(t, again, "b") != "behind" {
		t.Errorf("want the large member and the one after it, got %+v, %v", info, err)
	}
	b, _, err := again.Get(t.Context(), "a/big", &driver.GetOptions{Range: &driver.Range{Offset: 1<<32 - 1, Length: 6}}, driver.Heap)
	if err != nil || len(b) != 6 {
		t.Errorf("range: want 6 bytes, got %v, %v", b, err)
	}
	if out := python(t, filepath.Dir(path), `import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).read("c").decode())`, path); strings.TrimSpace(out) != "copied with the rest" {
		t.Errorf("python reads %q", out)
	}
}

// zeros is a body of the given number of zero bytes.
type zeros int64

func (z zeros) Size() int64 { return int64(z) }
func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}
