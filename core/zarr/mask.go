package zarr

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Mask describes what a copy of an array must change so that readers treat the same
// elements as missing. The zero value changes nothing.
type Mask struct {
	// NoFill requests a null fill value.
	NoFill bool
	// Attr, if not nil, is the attribute _FillValue to add.
	Attr *Attr
}

// MaskIn returns the changes for a copy of a, which was parsed, in layout to. Without the
// attribute _FillValue, xarray treats elements that equal fill_value as missing in Zarr v2,
// and no elements in Zarr v3, where every array has a fill_value. Therefore a fill value of
// zero or of empty text becomes null in Zarr v2, and the fill value of numbers becomes an
// attribute in Zarr v3. isField states that the copy holds one field of the elements of an
// array, and a is then that field: a field alone does not mark missing elements.
//
// Values that xarray does not treat as missing need no change: NaN, and times. xarray
// refuses _FillValue of text in Zarr v3. Other fill values stay in a copy to Zarr v2, because
// absent chunks, GDAL and netCDF need them. Between layouts of NCZarr, netCDF's default fill
// value does not change, because it marks missing values without an attribute.
//
// Source: xarray 2026.9.0, ZarrStore.open_store_variable and FillValueCoder.
func (a *Array) MaskIn(to Layout, isField bool) Mask {
	from := a.Layout
	if !a.HasFill || slices.ContainsFunc(a.Attrs, func(at Attr) bool { return at.Name == fillAttr }) {
		return Mask{}
	}
	isZero, isText := a.isZeroFill(), a.DType.NC() == dtype.NCChar || a.DType.NC() == dtype.NCString
	isDefault := isText && isZero || a.isDefaultFill()
	switch {
	case a.DType.Kind == dtype.Datetime, a.DType.Kind == dtype.Timedelta, a.DType.Kind == dtype.Char && to.NCZarr():
	case to.Format() == 2 && from.NCZarr() && to.NCZarr() && isDefault:
	case to.Format() == 2 && (isField || from.Format() == 3):
		return Mask{NoFill: isZero}
	case to.Format() == 2: // in pure Zarr, null is the only form of an empty byte string
		return Mask{NoFill: isZero && a.DType.Kind == dtype.Bytes && !from.NCZarr()}
	case isField, isText, from.Format() == 3, from.NCZarr() && to.NCZarr() && isDefault:
	default:
		return Mask{Attr: a.maskAttr()}
	}
	return Mask{}
}

// isZeroFill reports whether the fill value is zero, which may be negative, or empty text.
func (a *Array) isZeroFill() bool {
	fill := bytes.Clone(a.Fill)
	if k := a.DType.Kind; k == dtype.Float || k == dtype.Complex { // clear the signs
		width := a.DType.Width()
		for at := 0; at+width <= len(fill); at += width {
			if a.DType.Order == dtype.Big {
				fill[at] &= 0x7F
			} else {
				fill[at+width-1] &= 0x7F
			}
		}
	}
	return len(bytes.Trim(fill, "\x00")) == 0
}

// isDefaultFill reports whether the fill value is netCDF's default of the element type.
// netcdf-c writes the default of floats with six digits.
func (a *Array) isDefaultFill() bool {
	fill, err := dtype.FillBytes(a.DType, dtype.DefaultFill(a.DType.NC()))
	if err != nil || a.DType.Kind != dtype.Float {
		return err == nil && bytes.Equal(fill, a.Fill)
	}
	x, y := make([]float64, 1), make([]float64, 1)
	return dtype.Decode(x, fill, a.DType) == nil && dtype.Decode(y, a.Fill, a.DType) == nil && math.Abs(y[0]/x[0]-1) < 1e-5
}

// maskAttr returns the attribute _FillValue of Zarr v3 for the fill value of a, or nil for a
// NaN and for types without such an attribute.
func (a *Array) maskAttr() *Attr {
	t := a.DType
	if t.Kind == dtype.Complex {
		return a.complexMaskAttr()
	}
	values := dtype.MakeSlice(t.NC(), 1)
	if values == nil || dtype.Decode(values, a.Fill, t) != nil || isNaN(t, a.Fill) {
		return nil
	}
	return &Attr{Name: fillAttr, Type: t.NC(), Value: values}
}

// complexMaskAttr is maskAttr for complex numbers, whose attribute is a list of the real and
// the imaginary part, each as the base64 of a little-endian float64.
func (a *Array) complexMaskAttr() *Attr {
	half := dtype.Type{Kind: dtype.Float, Size: a.DType.Size / 2, Order: a.DType.Order}
	parts := make([]float64, 2)
	if dtype.Decode(parts, a.Fill, half) != nil || math.IsNaN(parts[0]) || math.IsNaN(parts[1]) {
		return nil
	}
	var list []string
	for _, f := range parts {
		list = append(list, base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))))
	}
	return &Attr{Name: fillAttr, Type: dtype.NCString, Value: list}
}

// Masked returns a copy of a with layout to. If the layout has another Zarr version, the copy
// has the changes of [Array.MaskIn], and the fill value that null becomes if the layout
// requires one.
func (a *Array) Masked(to Layout) *Array {
	m, out := a.MaskIn(to, false), *a
	if out.Layout = to; a.Layout.Format() == to.Format() {
		return &out
	}
	switch {
	case m.NoFill:
		out.Fill, out.HasFill = nil, false
	case m.Attr != nil:
		out.Attrs = append(slices.Clone(a.Attrs), *m.Attr)
	}
	if !out.HasFill && to.Format() == 2 && !to.NCZarr() { // as it is parsed
		out.Fill, out.HasFill = nullFill(a.DType)
	}
	if !out.HasFill && to.NeedsFill() {
		out.Fill, out.HasFill = make([]byte, a.DType.Size), true
	}
	return &out
}
