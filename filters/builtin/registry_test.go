package builtin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// peer runs testdata/registry.py and returns its standard output.
func peer(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python(t), append([]string{filepath.Join("testdata", "registry.py")}, args...)...)
	var msg bytes.Buffer
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("registry.py %v: %v\n%s", args, err, msg.Bytes())
	}
	return out
}

// randomCase is a random test case that testdata/registry.py created with numcodecs.
type randomCase struct {
	Config json.RawMessage
	DType  string
	Shape  []int
	Order  string
	Kind   string
	path   string // without its extension
}

func (d *randomCase) file(t *testing.T, ext string) []byte {
	t.Helper()
	b, err := os.ReadFile(d.path + ext)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (d *randomCase) spec(t *testing.T, size int) driver.Spec {
	t.Helper()
	typ, err := dtype.Parse(d.DType)
	if err != nil {
		t.Fatal(err)
	}
	if d.Kind == "bytes" {
		typ.Kind = dtype.VlenBytes
	}
	in := driver.Spec{DType: typ, Shape: d.Shape, MaxBytes: int64(size)}
	if d.Order == "F" {
		in.Order = driver.F
	}
	return in
}

// TestDescriptions checks the descriptions of the filters, and that their names and HDF5
// numbers are unique.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	seen := map[any]string{}
	for _, d := range builtin.Provider().Describe() {
		if err := d.Check(); err != nil || d.Transform == driver.Unstated || d.Summary == "" {
			t.Errorf("%s: %+v, %v", d.ID, d, err)
		}
		keys := []any{d.HDF5}
		for _, name := range d.Names() {
			keys = append(keys, name)
		}
		for _, key := range keys {
			if other, ok := seen[key]; ok && key != 0 {
				t.Errorf("%v belongs to both %s and %s", key, other, d.ID)
			}
			seen[key] = d.ID
		}
	}
	for number, want := range map[int]string{1: "zlib", 2: "shuffle", 3: "fletcher32", 4: "szip", 307: "bz2", 32001: "blosc", 32015: "zstd"} {
		if seen[number] != want {
			t.Errorf("HDF5 filter %d: want %s, got %s", number, want, seen[number])
		}
	}
}

// TestRegistry tests every id in the registry of numcodecs. The filters must decode the
// output of numcodecs to the same values, and numcodecs must decode the output of the
// filters, unless the id is unsupported for a stated reason.
func TestRegistry(t *testing.T) {
	t.Parallel()
	var ids []string
	dir := t.TempDir()
	if err := json.Unmarshal(peer(t, "make", dir, fmt.Sprint(testseed.New(t)), "40"), &ids); err != nil {
		t.Fatal(err)
	}
	have := builtin.Provider().Describe()
	for _, id := range ids {
		known := slices.IndexFunc(have, func(d driver.Description) bool { return d.ID == id })
		reason, refused := codec.Refused(id)
		switch {
		case known < 0 && !refused:
			t.Errorf("%q of numcodecs is neither built in nor unsupported for a stated reason", id)
		case known >= 0 && refused:
			t.Errorf("%q is built in and refused: %s", id, reason)
		case refused:
			t.Logf("%q is refused: %s", id, reason)
		case !have[known].Encode || !have[known].Decode:
			t.Errorf("%q has only one direction", id)
		default:
			checkID(t, dir, id)
		}
	}
	if out := peer(t, "check", dir); len(out) > 0 {
		t.Errorf("numcodecs does not decode our output:\n%s", out)
	}
}

func checkID(t *testing.T, dir, id string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, id+"-*.json"))
	if err != nil || len(files) == 0 {
		t.Errorf("%q: no cases, %v", id, err)
	}
	for _, f := range files {
		d := randomCase{path: strings.TrimSuffix(f, ".json")}
		if err := json.Unmarshal(d.file(t, ".json"), &d); err != nil {
			t.Fatal(err)
		}
		if err := d.check(t, id); err != nil {
			t.Errorf("%s %s of %s %v: %v", filepath.Base(d.path), d.Config, d.DType, d.Shape, err)
		}
	}
}

// check decodes the output of numcodecs, encodes the values again and checks the result.
// It leaves our encoded bytes in a file for numcodecs.
func (d *randomCase) check(t *testing.T, id string) error {
	t.Helper()
	raw, want := d.file(t, ".raw"), d.file(t, ".dec")
	all := builtin.Provider()
	p, err := codec.Open(t.Context(), []driver.Step{{ID: id, Params: d.Config}}, d.spec(t, max(len(raw), len(want))),
		func(string) (driver.Provider, error) { return all, nil })
	if err != nil {
		return err
	}
	for _, from := range []string{".enc", ".ours"} {
		if from == ".ours" {
			enc := make([]byte, p.MaxEncoded())
			n, err := p.Encode(t.Context(), enc, raw)
			if err != nil {
				return err
			}
			if err := os.WriteFile(d.path+from, enc[:n], 0o600); err != nil {
				return err
			}
		}
		got := make([]byte, p.DecodedSize())
		n, err := p.Decode(t.Context(), got, d.file(t, from))
		if err != nil {
			return fmt.Errorf("decode %s: %w", from, err)
		}
		if !bytes.Equal(got[:n], want) {
			return fmt.Errorf("%s decodes to different values than numcodecs: %.40x, not %.40x", from, got[:n], want)
		}
	}
	return nil
}
