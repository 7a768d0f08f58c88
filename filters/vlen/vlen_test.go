package vlen_test

import (
	"encoding/json"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

func spec(kind dtype.Kind, n int) driver.Spec {
	return driver.Spec{DType: dtype.Type{Kind: kind}, Shape: []int{n}, MaxBytes: 1 << 12}
}

// stored is the numcodecs encoding of "ab", "" and "\u00e9".
const stored = "\x03\x00\x00\x00\x02\x00\x00\x00ab\x00\x00\x00\x00\x02\x00\x00\x00\xc3\xa9"

func TestStoredForm(t *testing.T) {
	t.Parallel()
	c, _ := filtertest.Open(t, vlen.Provider(), vlen.UTF8, `{}`, spec(dtype.String, 3))
	dst := make([]byte, 1<<12)
	n, err := c.Decode(t.Context(), dst, []byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	v, err := driver.ParseValues(dst[:n], 3)
	if err != nil || string(v.At(0)) != "ab" || len(v.At(1)) != 0 || string(v.At(2)) != "é" {
		t.Errorf("want ab, an empty string and é, got %q, %v", dst[:n], err)
	}
	enc := make([]byte, 1<<12)
	if k, err := c.Encode(t.Context(), enc, dst[:n]); err != nil || string(enc[:k]) != stored {
		t.Errorf("want %q, got %q, %v", stored, enc[:k], err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id, params, src string
		kind            ncerr.Kind
	}{
		"no count":         {vlen.UTF8, `{}`, "\x03", ncerr.ErrCorrupt},
		"other count":      {vlen.UTF8, `{}`, "\x02" + stored[1:], ncerr.ErrCorrupt},
		"cut":              {vlen.UTF8, `{}`, stored[:len(stored)-1], ncerr.ErrCorrupt},
		"cut length":       {vlen.UTF8, `{}`, stored[:11], ncerr.ErrCorrupt},
		"more":             {vlen.UTF8, `{}`, stored + "x", ncerr.ErrCorrupt},
		"not UTF-8":        {vlen.UTF8, `{}`, stored[:len(stored)-1] + "x", ncerr.ErrCorrupt},
		"no whole numbers": {vlen.Array, `{"dtype":"<i4"}`, stored, ncerr.ErrCorrupt},
	} {
		codec, _ := filtertest.Open(t, vlen.Provider(), c.id, c.params, spec(dtype.String, 3))
		if _, err := codec.Decode(t.Context(), make([]byte, 1<<12), []byte(c.src)); ncerr.KindOf(err) != c.kind {
			t.Errorf("%s: want %v, got %v", name, c.kind, err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id, params string
		in         driver.Spec
		kind       ncerr.Kind
	}{
		"string":           {vlen.UTF8, `{}`, spec(dtype.String, 3), 0},
		"string as bytes":  {vlen.Bytes, `{}`, spec(dtype.String, 3), 0},
		"bytes":            {vlen.Bytes, `{}`, spec(dtype.VlenBytes, 3), 0},
		"bytes as string":  {vlen.UTF8, `{}`, spec(dtype.VlenBytes, 3), ncerr.ErrUnsupported},
		"numbers":          {vlen.UTF8, `{}`, driver.Spec{DType: dtype.Type{Kind: dtype.Int, Size: 4, Order: dtype.Little}, Shape: []int{3}, MaxBytes: 12}, ncerr.ErrUnsupported},
		"huge":             {vlen.UTF8, `{}`, driver.Spec{DType: dtype.Type{Kind: dtype.String}, Shape: []int{1 << 40, 1 << 40}, MaxBytes: 12}, ncerr.ErrLimit},
		"arrays":           {vlen.Array, `{"dtype":"<f8"}`, spec(dtype.VlenBytes, 3), 0},
		"no item type":     {vlen.Array, `{}`, spec(dtype.VlenBytes, 3), ncerr.ErrInvalid},
		"arrays of arrays": {vlen.Array, `{"dtype":"|O"}`, spec(dtype.VlenBytes, 3), ncerr.ErrInvalid},
	} {
		_, _, err := vlen.Provider().Open(c.id, json.RawMessage(c.params), c.in)
		if ncerr.KindOf(err) != c.kind {
			t.Errorf("%s: want %v, got %v", name, c.kind, err)
		}
	}
}

func FuzzDecodeVlen(f *testing.F) {
	f.Add([]byte(stored))
	text, _ := filtertest.Open(f, vlen.Provider(), vlen.UTF8, `{}`, spec(dtype.String, 3))
	f.Fuzz(func(t *testing.T, src []byte) {
		dst, back := make([]byte, 1<<12), make([]byte, 1<<12)
		n, err := text.Decode(t.Context(), dst, src)
		if err != nil {
			if k := ncerr.KindOf(err); k != ncerr.ErrCorrupt && k != ncerr.ErrShortBuffer {
				t.Fatalf("unexpected kind of %v", err)
			}
			return
		}
		if k, err := text.Encode(t.Context(), back, dst[:n]); err != nil || string(back[:k]) != string(src) {
			t.Errorf("want %q, got %q, %v", src, back[:k], err)
		}
	})
}
