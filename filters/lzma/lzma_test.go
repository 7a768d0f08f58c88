package lzma_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
	"github.com/seed-695719ce/nczarr/filters/lzma"
)

func spec(n int) driver.Spec {
	return driver.Spec{DType: dtype.Type{Kind: dtype.Uint, Size: 1}, Shape: []int{n}, MaxBytes: int64(n)}
}

// gdal is an xz stream with the filters delta and LZMA2 and without a check, in the form
// that GDAL writes. Python's lzma module produced it.
const (
	gdal = "fd377a585a000000ff12d94102010301002101167920c4eee00027001b5d000067fed3fea11ac14c2840fd96e0249d71d3a3b6d32992b7ab49a0000000012f28bc252f0706729e7a010000000000595a"
	text = "0000000102030507090b0e1114181c2024292e33393f454b5259606870788089929ba5afb9c3ced9"
	x86  = "fd377a585a000004e6d6b4460201040021010c00d67c18af0100270000000102030507090b0e1114181c2024292e33393f454b5259606870788089929ba5afb9c3ced9003f243cb7dd9d942300014028d4524ae51fb6f37d010000000004595a"
)

func TestDelta(t *testing.T) {
	t.Parallel()
	src, err := hex.DecodeString(gdal)
	if err != nil {
		t.Fatal(err)
	}
	for _, params := range []string{`{"format":1,"check":-1,"filters":[{"id":3,"dist":1},{"id":33,"preset":6}]}`, `{"preset":6,"delta":1}`, `{"preset":"6","delta":"1"}`, `{"delta":7}`, `{}`, `{"format":0}`} {
		c, _ := filtertest.Open(t, lzma.Provider(), lzma.ID, params, spec(40))
		dst := make([]byte, 40)
		if n, err := c.Decode(t.Context(), dst, src); err != nil || hex.EncodeToString(dst[:n]) != text {
			t.Errorf("%s: want %s, got %x, %v", params, text, dst[:n], err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]struct {
		kind ncerr.Kind
		text string
	}{
		`{"delta":256}`:                      {},
		`{"delta":0}`:                        {},
		`{"delta":257}`:                      {ncerr.ErrInvalid, "delta"},
		`{"delta":-1}`:                       {ncerr.ErrInvalid, "delta"},
		`{"delta":1,"format":2}`:             {ncerr.ErrInvalid, "only xz"},
		`{"format":1,"filters":[{"id":33}]}`: {},
		`{"format":1,"filters":[{"id":4611686018427387905}]}`:                    {ncerr.ErrInvalid, "LZMA2"},
		`{"format":1,"delta":2,"filters":[{"id":3,"dist":1},{"id":33}]}`:         {ncerr.ErrInvalid, "delta"},
		`{"format":1,"filters":[{"id":3},{"id":3},{"id":3},{"id":3},{"id":33}]}`: {ncerr.ErrInvalid, "three"},
		`{"format":2,"filters":[{"id":4611686018427387905}]}`:                    {ncerr.ErrInvalid, "alone"},
		`{"format":3,"filters":[{"id":4},{"id":33}]}`:                            {ncerr.ErrUnsupported, "BCJ x86"},
		`{"format":3,"filters":[{"id":99},{"id":33}]}`:                           {ncerr.ErrInvalid, "0x63"},
	} {
		_, _, err := lzma.Provider().Open(lzma.ID, json.RawMessage(params), spec(100))
		if ncerr.KindOf(err) != want.kind || err != nil && !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: want %v with %q, got %v", params, want.kind, want.text, err)
		}
	}
}

func TestOtherFilter(t *testing.T) {
	t.Parallel()
	src, err := hex.DecodeString(x86)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := filtertest.Open(t, lzma.Provider(), lzma.ID, `{}`, spec(40))
	if _, err := c.Decode(t.Context(), make([]byte, 40), src); ncerr.KindOf(err) != ncerr.ErrUnsupported || !strings.Contains(err.Error(), "BCJ x86") {
		t.Errorf("want ErrUnsupported with the name of the filter, got %v", err)
	}
}

// script decodes every N.xz to N.out, and encodes N.raw to N.peer with the filters in the
// file name.
const script = `
import lzma, pathlib, sys
for f in sorted(pathlib.Path(sys.argv[1]).glob("*.xz")):
    f.with_suffix(".out").write_bytes(lzma.decompress(f.read_bytes()))
    _, check, delta = f.stem.split("_")
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1}]
    if int(delta):
        filters.insert(0, {"id": lzma.FILTER_DELTA, "dist": int(delta)})
    f.with_suffix(".peer").write_bytes(lzma.compress(f.with_suffix(".raw").read_bytes(), check=int(check), filters=filters))
`

// TestPython checks that Python's lzma module reads our container, for every check, delta
// filters and critical sizes, and that we read its output.
func TestPython(t *testing.T) {
	t.Parallel()
	python := os.Getenv("NCZARR_PEERS_PYTHON")
	if python == "" {
		python = "python3"
	}
	if exec.CommandContext(t.Context(), python, "-c", "import lzma").Run() != nil {
		t.Skip("a Python with lzma is missing; set NCZARR_PEERS_PYTHON")
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	type job struct {
		codec driver.Codec
		raw   []byte
		path  string
	}
	var jobs []job
	for _, n := range []int{0, 1, 2, 3, 4, 4096, 4097, 6144, 6145, 70_000, 300_001} {
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(i/7 + r.IntN(3))
		}
		for _, check := range []int{-1, 0, 1, 4, 10} {
			for _, delta := range []int{0, 1, 4, 256} {
				if n > 10_000 && check > 0 {
					continue
				}
				c, out := filtertest.Open(t, lzma.Provider(), lzma.ID, fmt.Sprintf(`{"preset":1,"check":%d,"delta":%d}`, check, delta), spec(n))
				enc := make([]byte, out.MaxBytes)
				k, err := c.Encode(t.Context(), enc, raw)
				if err != nil {
					t.Fatal(err)
				}
				j := job{c, raw, filepath.Join(dir, fmt.Sprintf("%d_%d_%d", n, check, delta))}
				jobs = append(jobs, j)
				for ext, b := range map[string][]byte{".xz": enc[:k], ".raw": raw} {
					if err := os.WriteFile(j.path+ext, b, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", script, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, j := range jobs {
		out, err := os.ReadFile(j.path + ".out")
		if err != nil || !bytes.Equal(j.raw, out) {
			t.Errorf("%s: Python decodes different bytes, %v", filepath.Base(j.path), err)
		}
		for _, ext := range []string{".xz", ".peer"} {
			src, err := os.ReadFile(j.path + ext)
			if err != nil {
				t.Fatal(err)
			}
			dst := make([]byte, len(j.raw))
			if n, err := j.codec.Decode(t.Context(), dst, src); err != nil || !bytes.Equal(j.raw, dst[:n]) {
				t.Errorf("%s%s: we decode different bytes, %v", filepath.Base(j.path), ext, err)
			}
		}
	}
}
