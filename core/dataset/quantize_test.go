package dataset_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

const groomAttr = "_QuantizeBitGroomNumberOfSignificantDigits"

// Values of a quantized variable are rounded when they are written, in both byte
// orders, from other Go types, and after the dataset was reopened. The caller's values
// are not modified, and fill values are preserved.
func TestQuantizedWrites(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:q", o)
	x := dim(t, ds.Root(), "x", 3, false)
	for name, order := range map[string]dtype.Order{"le": dtype.Little, "be": dtype.Big} {
		spec := &dataset.VarSpec{Type: dtype.NCFloat, Dims: []*dataset.Dim{x}, Order: order, Fill: []float32{-1.2345678}, Quantize: dtype.Quantization{Mode: dtype.BitGroom, Digits: 3}}
		v := define(t, ds.Root(), name, spec)
		src := []float32{1.11111111, 1, -1.2345678}
		write(t, v, v.All(), src)
		if src[0] != 1.11111111 {
			t.Error("the caller's values were changed")
		}
	}
	closeDataset(t, ds)
	again := update(t, "mem:q", o)
	for _, name := range []string{"le", "be"} {
		v := variable(t, again, name)
		if a, err := v.Attr(groomAttr); err != nil || a.Type != dtype.NCInt || !slices.Equal(a.Value.([]int32), []int32{3}) {
			t.Errorf("%s: want 3 digits, got attribute %+v, %v", name, a, err)
		}
		want := []uint32{0x3f8e3000, 0x3f800fff, math.Float32bits(-1.2345678)}
		checkBits(t, v, want)
		write(t, v, v.All(), []float64{1.11111111, 1, float64(float32(-1.2345678))})
		checkBits(t, v, want)
	}
}

func checkBits(t *testing.T, v *dataset.Var, want []uint32) {
	t.Helper()
	got, err := dataset.Get[float32](t.Context(), v, v.All())
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if b := math.Float32bits(got[i]); b != want[i] {
			t.Errorf("%s, value %d: want %#x, got %#x", v.Path(), i, want[i], b)
		}
	}
}

// A copy does not round values a second time, for any block size, unless
// CopyOptions.Quantize requests it. In that case only the attribute of the new rounding
// is written.
func TestCopyOfQuantized(t *testing.T) {
	t.Parallel()
	o := memory()
	ds := create(t, "mem:q", o)
	x := dim(t, ds.Root(), "x", 9, false)
	spec := &dataset.VarSpec{Type: dtype.NCDouble, Dims: []*dataset.Dim{x}, Chunks: []int64{3}, Quantize: dtype.Quantization{Mode: dtype.BitGroom, Digits: 3}}
	v := define(t, ds.Root(), "v", spec)
	write(t, v, v.All(), []float64{1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7, 8.8, 9.9})
	want, err := dataset.Get[float64](t.Context(), v, v.All())
	if err != nil {
		t.Fatal(err)
	}
	for name, round := range map[string]bool{"kept": false, "rounded": true} {
		opts := &dataset.CopyOptions{Memory: 24}
		if round {
			opts.Quantize = func(*dataset.Var) (dtype.Quantization, bool, error) {
				return dtype.Quantization{Mode: dtype.BitRound, Digits: 4}, true, nil
			}
		}
		dst := create(t, "mem:"+name, o)
		if err := dataset.Copy(t.Context(), dst.Root(), ds.Root(), opts); err != nil {
			t.Fatal(err)
		}
		made := variable(t, dst, "v")
		got, err := dataset.Get[float64](t.Context(), made, chunk.All(made.Shape()))
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(got, want) == round {
			t.Errorf("%s: unexpected values %v", name, got)
		}
		if _, err := made.Attr(groomAttr); (err == nil) == round || len(made.Attrs()) != 1 {
			t.Errorf("%s: unexpected attributes %+v", name, made.Attrs())
		}
	}
}

func TestQuantizeIsChecked(t *testing.T) {
	t.Parallel()
	ds := create(t, "mem:q", memory())
	for name, tc := range map[string]struct {
		spec dataset.VarSpec
		want error
	}{
		"int":      {dataset.VarSpec{Type: dtype.NCInt, Quantize: dtype.Quantization{Mode: dtype.BitRound, Digits: 3}}, ncerr.ErrBadType},
		"digits":   {dataset.VarSpec{Type: dtype.NCFloat, Quantize: dtype.Quantization{Mode: dtype.BitGroom, Digits: 9}}, ncerr.ErrInvalid},
		"conflict": {dataset.VarSpec{Type: dtype.NCFloat, Quantize: dtype.Quantization{Mode: dtype.BitGroom, Digits: 2}, Attrs: []dataset.Attr{{Name: groomAttr, Type: dtype.NCInt, Value: []int32{3}}}}, ncerr.ErrInvalid},
	} {
		if _, err := ds.Root().DefineVar(t.Context(), name, &tc.spec); !errors.Is(err, tc.want) {
			t.Errorf("%s: want %v, got %v", name, tc.want, err)
		}
	}
}
