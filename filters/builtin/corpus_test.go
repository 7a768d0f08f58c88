package builtin_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/builtin"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
)

// noFixtures lists the codecs that have no fixture in the corpus, or only fixtures
// whose values are Python objects.
var noFixtures = []string{"base64", "bitround", "cast_value", "categorize", "fletcher32", "jenkins_lookup3", "json2", "msgpack2", "scale_offset", "szip", "vlen-array", "vlen-bytes", "vlen-utf8", "zarr.packbits"}

// lossy lists the codecs of the corpus that do not restore the encoded values exactly.
var lossy = []string{"astype", "fixedscaleoffset", "quantize"}

// TestCorpus checks that the built-in codecs decode everything that numcodecs wrote, and
// that the values survive another round trip.
func TestCorpus(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(filtertest.Corpora(t), "numcodecs")
	p := builtin.Provider()
	for _, d := range p.Describe() {
		t.Run(d.ID, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(noFixtures, d.ID) {
				return // TestRegistry covers it
			}
			var configs []string
			for _, pattern := range []string{"codec.*", "*/codec.*"} {
				found, err := filepath.Glob(filepath.Join(dir, d.ID, pattern, "config.json"))
				if err != nil {
					t.Fatal(err)
				}
				configs = append(configs, found...)
			}
			if len(configs) == 0 {
				t.Fatalf("the corpus has no fixture of %q: add the codec to noFixtures if it never will", d.ID)
			}
			n := 0
			for _, path := range configs {
				config, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				n += checkFolder(t, d.ID, filepath.Dir(path), config)
			}
			t.Logf("%d arrays", n)
		})
	}
}

func checkFolder(t *testing.T, id, dir string, config json.RawMessage) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "encoded.*.dat"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s, %v", dir, err)
	}
	for _, f := range files {
		number := strings.Split(filepath.Base(f), ".")[1]
		a := filtertest.ReadNPY(t, filepath.Join(dir, "..", "array."+number+".npy"))
		enc, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		c, out := filtertest.Open(t, builtin.Provider(), id, string(config), a.Spec())
		dst := make([]byte, len(a.Data))
		n, err := c.Decode(t.Context(), dst, enc)
		if slices.Contains(lossy, id) {
			// Decoding does not restore the encoded value, so compare the encoded bytes.
			// TestRegistry compares decoded values.
			buf := make([]byte, out.MaxBytes)
			if m, e := c.Encode(t.Context(), buf, a.Data); err != nil || e != nil || n != len(dst) || !bytes.Equal(buf[:m], enc) {
				t.Errorf("%s: encodes differently than numcodecs, %v, %v", f, err, e)
			}
			continue
		}
		if id == "shuffle" && strings.Contains(string(config), `"elementsize": 0`) {
			// numcodecs does not shuffle if the size is 0. NetCDF-C always writes 0 and
			// means the size of the elements. The filter follows netCDF-C, because such
			// files exist.
			if !bytes.Equal(enc, a.Data) || err != nil {
				t.Errorf("%s: %v", f, err)
			}
			continue
		}
		if err != nil || n != len(dst) || !bytes.Equal(dst, a.Data) {
			t.Errorf("%s: decode: got %d of %d bytes, or wrong bytes, %v", f, n, len(dst), err)
		}
		buf := make([]byte, out.MaxBytes)
		m, err := c.Encode(t.Context(), buf, a.Data)
		if err != nil {
			t.Errorf("%s: encode: %v", f, err)
			continue
		}
		if n, err := c.Decode(t.Context(), dst, buf[:m]); err != nil || n != len(dst) || !bytes.Equal(dst, a.Data) {
			t.Errorf("%s: round trip: got %d of %d bytes, or wrong bytes, %v", f, n, len(dst), err)
		}
	}
	return len(files)
}
