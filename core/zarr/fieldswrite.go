package zarr

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// isStruct reports whether the elements are structures.
func (a *Array) isStruct() bool { return a.DType.Kind == dtype.Raw && len(a.Fields) > 0 }

// SameFields reports whether two structures have the same fields.
func SameFields(a, b []Field) bool {
	return slices.EqualFunc(a, b, func(x, y Field) bool {
		return x.Name == y.Name && x.Type == y.Type && x.Offset == y.Offset && x.shape == y.shape && SameFields(x.fields, y.fields)
	})
}

// fieldOrder returns the byte order of the numbers in a structure, which is
// dtype.OrderNone if no field has one. It fails if Zarr v3, where the codec "bytes" states
// one order for all fields, cannot describe the structure.
func fieldOrder(fields []Field) (order dtype.Order, err error) {
	for _, f := range fields {
		if f.shape != "" {
			return order, ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", "each value of the field %q is an array, which Zarr v3 does not allow in a structure", f.Name)
		}
		one := f.Type.Order
		if f.fields != nil {
			if one, err = fieldOrder(f.fields); err != nil {
				return order, err
			}
		}
		switch {
		case order == dtype.OrderNone:
			order = one
		case one != dtype.OrderNone && one != order:
			return order, ncerr.Errorf(ncerr.ErrUnsupported, "write metadata", "", "its fields have different byte orders, which Zarr v3 does not allow")
		}
	}
	return order, nil
}

// writeStructV3 writes the data type struct; it is the reverse of structV3.
//
// Source: zarr-extensions, "struct"; zarr-python 3.4.2.
func writeStructV3(w *jsontext.Writer, fields []Field) (err error) {
	extensionV3(w, structType, func() {
		w.Key("fields").Open('[')
		for _, f := range fields {
			w.Open('{')
			w.Key("name").String(f.Name)
			w.Key("data_type")
			if err == nil {
				err = writeTypeV3(w, f.array(nil))
			}
			w.Close()
		}
		w.Close()
	})
	return err
}

// writeStructFillV3 writes the fill value of a structure; it is the reverse of objectFill.
func writeStructFillV3(w *jsontext.Writer, fields []Field, fill []byte) error {
	w.Open('{')
	defer w.Close()
	for i, f := range fields {
		end := len(fill)
		if i+1 < len(fields) {
			end = fields[i+1].Offset
		}
		w.Key(f.Name)
		if err := writeFillV3(w, f.array(fill[f.Offset:end])); err != nil {
			return err
		}
	}
	return nil
}

// array returns an array whose elements are values of the field. fill is one element.
func (f *Field) array(fill []byte) *Array {
	a := &Array{DType: f.Type, Fill: fill, HasFill: fill != nil}
	if f.fields != nil {
		a.DType, a.Fields = dtype.Type{Kind: dtype.Raw, Size: len(fill)}, f.fields
	}
	return a
}

// fields writes the dtype of a structure in Zarr v2; it is the reverse of structured.
func (o *output) fields(w *jsontext.Writer, fields []Field) error {
	w.Open('[')
	defer w.Close()
	for _, f := range fields {
		w.Open('[')
		w.String(f.Name)
		if f.fields != nil {
			if err := o.fields(w, f.fields); err != nil {
				return err
			}
		} else {
			text, err := o.dtypeText(f.Type)
			if err != nil {
				return err
			}
			w.String(text)
		}
		if f.shape != "" {
			w.Value(f.shape)
		}
		w.Close()
	}
	return nil
}
