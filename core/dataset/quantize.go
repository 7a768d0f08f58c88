package dataset

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Quantization returns how values are rounded when they are written. It is stored in
// the attribute with the name [dtype.QuantizeMode.Attr], which DefineVar adds if the
// spec has a quantization. The zero Quantization means no rounding.
//
// Source: netcdf-c libnczarr/zvar.c, NCZ_ensure_quantizer.
func (v *Var) Quantization() dtype.Quantization {
	v.group.ds.mu.RLock()
	defer v.group.ds.mu.RUnlock()
	return v.quantization()
}

// quantization is like Quantization. The caller holds Dataset.mu. It ignores invalid
// attributes.
func (v *Var) quantization() dtype.Quantization {
	for mode := dtype.BitGroom; mode.Attr() != ""; mode++ {
		a, err := findAttr(v.attrs, mode.Attr())
		q := dtype.Quantization{Mode: mode, Digits: intAttr(a)}
		if err == nil && q.Check(v.nc) == nil && v.meta.DType.Size == v.nc.Size() {
			return q
		}
	}
	return dtype.Quantization{}
}

// defineQuantization checks the quantization of a new variable and adds the attribute
// that records it.
func (v *Var) defineQuantization(spec *VarSpec) error {
	q := spec.Quantize
	if err := q.Check(v.nc); err != nil {
		return err
	}
	found := v.quantization()
	if q.Mode == dtype.QuantizeNone || q == found {
		return nil
	}
	if found.Mode != dtype.QuantizeNone {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "the attribute %q and the VarSpec specify different quantizations", found.Mode.Attr())
	}
	v.attrs = setAttr(v.attrs, Attr{Name: q.Mode.Attr(), Type: dtype.NCInt, Value: []int32{int32(q.Digits)}}) // Digits is at most 52
	return nil
}

// quantized returns src as values of v's type, rounded as q specifies. It does not
// modify src.
func (v *Var) quantized(src any, q dtype.Quantization) (any, error) {
	var out any
	switch s := src.(type) {
	case []float32:
		out = slices.Clone(s)
	case []float64:
		out = slices.Clone(s)
	}
	if nc, _ := dtype.TypeOf(src); nc != v.nc {
		out = dtype.MakeSlice(v.nc, dtype.Len(src))
		raw, t, _ := dtype.View(out)
		if err := dtype.Encode(raw, t, src); err != nil {
			return nil, err
		}
	}
	fill, _ := v.Fill()
	return out, q.Quantize(out, fill)
}
