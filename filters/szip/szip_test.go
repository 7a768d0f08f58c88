package szip_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
	"github.com/seed-695719ce/nczarr/filters/szip"
)

// peer runs testdata/peer.py, or skips the test.
func peer(t *testing.T, args ...string) string {
	t.Helper()
	python := os.Getenv("NCZARR_PEERS_PYTHON")
	if python == "" || exec.CommandContext(t.Context(), python, "-c", "import netCDF4").Run() != nil {
		t.Skip("a Python with netCDF4 is missing; set NCZARR_PEERS_PYTHON")
	}
	var msg bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, append([]string{filepath.Join("testdata", "peer.py")}, args...)...)
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("peer.py %v: %v\n%s", args, err, msg.Bytes())
	}
	return string(out)
}

// TestLibaec checks that we decode the output of libaec, with and without the parameters
// that HDF5 computes, and that libaec decodes our output.
func TestLibaec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	peer(t, "make", dir, fmt.Sprint(testseed.New(t)), "300")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) < 200 {
		t.Fatalf("want at least 200 cases, got %d, %v", len(files), err)
	}
	for _, f := range files {
		if err := check(t, strings.TrimSuffix(f, ".json")); err != nil {
			about, _ := os.ReadFile(f)
			t.Errorf("%s: %v", about, err)
		}
	}
	if out := peer(t, "check", dir); out != "" {
		t.Error(out)
	}
}

func check(t *testing.T, path string) error {
	t.Helper()
	var about struct {
		Config map[string]int
		DType  string
		Shape  []int
	}
	text, err := os.ReadFile(path + ".json")
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	raw, err1 := os.ReadFile(path + ".raw")
	enc, err2 := os.ReadFile(path + ".enc")
	typ, err3 := dtype.Parse(about.DType)
	if err != nil || err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err1, err2, err3)
	}
	full, err := json.Marshal(about.Config)
	if err != nil {
		t.Fatal(err)
	}
	visible := fmt.Sprintf(`{"mask":%d,"pixels-per-block":"%d"}`, about.Config["mask"], about.Config["pixels-per-block"])
	for _, params := range []string{string(full), visible} {
		c, out := filtertest.Open(t, szip.Provider(), szip.ID, params, driver.Spec{DType: typ, Shape: about.Shape, MaxBytes: int64(len(raw))})
		dst := make([]byte, len(raw))
		if n, err := c.Decode(t.Context(), dst, enc); err != nil || !bytes.Equal(dst[:n], raw) {
			return fmt.Errorf("%s: output of libaec decodes to different bytes, %w", params, err)
		}
		ours := make([]byte, out.MaxBytes)
		n, err := c.Encode(t.Context(), ours, raw)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path+".ours", ours[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Decode(t.Context(), dst, ours[:n]); err != nil || !bytes.Equal(dst[:n], raw) {
			return fmt.Errorf("%s: our own output decodes to different bytes, %w", params, err)
		}
	}
	return nil
}

func TestOpen(t *testing.T) {
	t.Parallel()
	in := func(kind dtype.Kind, size, n int) driver.Spec {
		return driver.Spec{DType: dtype.Type{Kind: kind, Size: size, Order: dtype.Little}, Shape: []int{n}, MaxBytes: int64(n * size)}
	}
	for name, c := range map[string]struct {
		params string
		in     driver.Spec
		kind   ncerr.Kind
	}{
		"common":             {`{"mask":141,"pixels-per-block":32}`, in(dtype.Float, 4, 100), 0},
		"numbers as strings": {`{"mask":"4","pixels-per-block":"8"}`, in(dtype.Int, 2, 100), 0},
		"no block":           {`{"mask":4}`, in(dtype.Int, 2, 100), ncerr.ErrInvalid},
		"odd block":          {`{"pixels-per-block":7}`, in(dtype.Int, 2, 100), ncerr.ErrInvalid},
		"large block":        {`{"pixels-per-block":34}`, in(dtype.Int, 2, 100), ncerr.ErrInvalid},
		"small chunk":        {`{"pixels-per-block":32}`, in(dtype.Int, 2, 10), ncerr.ErrUnsupported},
		"complex":            {`{"pixels-per-block":8}`, in(dtype.Complex, 16, 100), ncerr.ErrUnsupported},
	} {
		if _, _, err := szip.Provider().Open(szip.ID, json.RawMessage(c.params), c.in); ncerr.KindOf(err) != c.kind {
			t.Errorf("%s: want %v, got %v", name, c.kind, err)
		}
	}
}

// TestWidePixels checks that a pixel of more bits than the parameter allows is refused
// rather than truncated.
func TestWidePixels(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"|u1", "<i2", ">i2", "<u4", ">u4"} {
		in, err := dtype.Parse(typ)
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, 64*in.Size)
		mask, low := 4, 0 // index of the low byte of a pixel
		if in.Order == dtype.Big {
			mask, low = 4|16, in.Size-1
		}
		bits := map[int]int{1: 7, 2: 10, 4: 20}[in.Size]
		c, out := filtertest.Open(t, szip.Provider(), szip.ID, fmt.Sprintf(`{"mask":%d,"pixels-per-block":8,"bits-per-pixel":%d}`, mask, bits), driver.Spec{DType: in, Shape: []int{64}, MaxBytes: int64(len(raw))})
		enc, back := make([]byte, out.MaxBytes), make([]byte, len(raw))
		raw[9*in.Size+low] = 0x7F
		n, err := c.Encode(t.Context(), enc, raw)
		if err == nil {
			_, err = c.Decode(t.Context(), back, enc[:n])
		}
		if err != nil || !bytes.Equal(raw, back) {
			t.Errorf("%s, pixels of %d bits: %v, or they change in a round trip", typ, bits, err)
		}
		raw[9*in.Size+in.Size-1-low] = 0x80 // the highest bit
		if _, err := c.Encode(t.Context(), enc, raw); ncerr.KindOf(err) != ncerr.ErrConvert {
			t.Errorf("%s, a pixel of %d bits with %d: want ErrConvert, got %v", typ, 8*in.Size, bits, err)
		}
	}
}
