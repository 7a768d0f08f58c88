package builtin_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/filters/builtin"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
)

// endsLater is a context that ends after a number of calls to Err.
type endsLater struct {
	context.Context // the parent
	left            int
}

func (e *endsLater) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterrupted checks that encoders and decoders that may take minutes for a chunk
// stop when the context is done. Decoders must stop even while their input produces no
// output.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 1<<18)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ { // the numbers need not be secret
		noise[i] = byte(r.Uint32()) // truncation is intended
	}
	typ, err := dtype.Parse("|u1")
	if err != nil {
		t.Fatal(err)
	}
	empty := func(one string) []byte { return bytes.Repeat([]byte(one), 10000) }
	for name, c := range map[string]struct {
		id, params string
		src        []byte // input of Decode; nil for encoded noise
	}{
		"bz2":           {"bz2", `{}`, nil},
		"bz2, empty":    {"bz2", `{}`, empty("BZh9\x17rE8P\x90\x00\x00\x00\x00")},
		"xz":            {"lzma", `{}`, nil},
		"xz, empty":     {"lzma", `{}`, empty("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4F\x00\x00\x00\x00\x1c\xdfD!\x1f\xb6\xf3}\x01\x00\x00\x00\x00\x04YZ")},
		"alone":         {"lzma", `{"format":2}`, nil},
		"LZMA1":         {"lzma", `{"format":3,"filters":[{"id":4611686018427387905}]}`, nil},
		"LZMA2, stored": {"lzma", `{"format":3,"filters":[{"id":33}]}`, append(append([]byte("\x01\x00\x00x"), bytes.Repeat([]byte("\x02\x00\x00x"), 10000)...), 0)},
	} {
		codec, out := filtertest.Open(t, builtin.Provider(), c.id, c.params, driver.Spec{DType: typ, Shape: []int{len(noise)}, MaxBytes: int64(len(noise))})
		dst, src := make([]byte, len(noise)), c.src
		if src == nil {
			src = make([]byte, out.MaxBytes)
			if _, err := codec.Encode(&endsLater{t.Context(), 2}, src, noise); err != context.Canceled { //nolint:errorlint // the contract is to return the identical error
				t.Errorf("%s, encoding: want context.Canceled, got %v", name, err)
			}
			n, err := codec.Encode(t.Context(), src, noise) // the codec still works after an interrupted call
			if err != nil {
				t.Fatal(err)
			}
			src = src[:n]
		}
		if _, err := codec.Decode(t.Context(), dst, src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := codec.Decode(&endsLater{t.Context(), 3}, dst, src); err != context.Canceled { //nolint:errorlint // the contract is to return the identical error
			t.Errorf("%s, decoding: want context.Canceled, got %v", name, err)
		}
	}
}
