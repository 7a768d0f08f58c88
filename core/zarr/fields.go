package zarr

import (
	"fmt"
	"math"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// Field is one member of the elements of a structured or complex array.
type Field struct {
	// Name is the field's own; "real" and "imag" for complex numbers.
	Name string
	// Type is its element type, invalid with Err.
	Type dtype.Type
	// Offset is where it begins in an element, in bytes.
	Offset int
	// Err says why the field cannot be read, nil when it can: ncerr.ErrUnsupported
	// for fields that are structured or arrays themselves, ErrBadType.
	Err error
}

// maxFields is the ceiling on the number of fields.
const maxFields = 4096

// structured reads a dtype that is a list of fields: [name, type], or with a
// shape for a field that is an array. Fields lie one after the other, without
// gaps.
//
// Source: Zarr v2, "Data type encoding".
func (n *node) structured(a *Array, v jsontext.Value, layout Layout) error {
	seen := map[string]bool{}
	size := 0
	err := v.Elems(func(i int, e jsontext.Value) error {
		if i == maxFields {
			return ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "dtype: more than %d fields", maxFields)
		}
		f, width, err := fieldOf(e, layout)
		if err != nil {
			return n.bad(ArrayDoc, "dtype", "field %d: %v", i, err)
		}
		if seen[f.Name] {
			return n.bad(ArrayDoc, "dtype", "field %q stands there twice", f.Name)
		}
		seen[f.Name] = true
		f.Offset = size
		if size += width; size > dtype.MaxSize {
			return ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "dtype: elements of more than %d bytes", dtype.MaxSize)
		}
		a.Fields = append(a.Fields, f)
		return nil
	})
	if err != nil {
		return err
	}
	if size == 0 {
		return n.bad(ArrayDoc, "dtype", "a structure without fields")
	}
	a.DType = dtype.Type{Kind: dtype.Raw, Size: size}
	return nil
}

// fieldOf reads one field and its size; a field that can be skipped, but not
// read, has its reason in Err.
func fieldOf(e jsontext.Value, layout Layout) (f Field, size int, err error) {
	name, typ, shape, ok := fieldParts(e)
	if !ok || !goodName(name.Text()) {
		return f, 0, fmt.Errorf("want [name, type], found %s", clip(e))
	}
	f.Name = name.Text()
	if typ.Kind() == jsontext.Array {
		size, err = sizeOf(typ, 0)
		f.Err = ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the field is structured itself")
	} else if f.Type, err = dtype.Parse(typ.Text()); err == nil {
		size = f.Type.Size
		switch {
		case isChar(f.Type, typ.Text(), layout):
			f.Type = dtype.NCChar.Type(dtype.OrderNone)
		case !f.Type.Fixed():
			err = fmt.Errorf("field %q: %s has no fixed size", f.Name, f.Type)
		case f.Type.NC() == dtype.NCNone:
			f.Err = ncerr.Errorf(ncerr.ErrUnsupported, "", "", "netCDF has no type for elements of %s", f.Type)
		}
	}
	if err != nil || shape == "" {
		return f, size, err
	}
	count, ok := lengthOf(shape)
	if !ok || count > dtype.MaxSize || size*count > dtype.MaxSize {
		return f, 0, fmt.Errorf("field %q: shape %s", f.Name, clip(shape))
	}
	f.Err = ncerr.Errorf(ncerr.ErrUnsupported, "", "", "each value of the field is an array of shape %s", clip(shape))
	return f, size * count, nil
}

func fieldParts(e jsontext.Value) (name, typ, shape jsontext.Value, ok bool) {
	if e.Kind() != jsontext.Array {
		return "", "", "", false
	}
	parts := []*jsontext.Value{&name, &typ, &shape}
	count := 0
	_ = e.Elems(func(i int, v jsontext.Value) error {
		if count++; i < len(parts) {
			*parts[i] = v
		}
		return nil
	})
	ok = count >= 2 && count <= 3 && name.Kind() == jsontext.String && (typ.Kind() == jsontext.String || typ.Kind() == jsontext.Array)
	return name, typ, shape, ok
}

// lengthOf multiplies the lengths of a shape, which may be one number.
func lengthOf(shape jsontext.Value) (int, bool) {
	n := int64(1)
	ok := each(shape, func(e jsontext.Value) bool {
		k, ok := e.Int64()
		n *= k
		return ok && k > 0 && k <= math.MaxInt32 && n <= dtype.MaxSize
	})
	return int(n), ok
}

// maxNesting is the ceiling on structures in structures.
const maxNesting = 16

// sizeOf gives the size in bytes of a nested structure.
func sizeOf(v jsontext.Value, depth int) (size int, err error) {
	if depth > maxNesting {
		return 0, fmt.Errorf("structures are nested more than %d deep", maxNesting)
	}
	err = v.Elems(func(_ int, e jsontext.Value) error {
		name, typ, shape, ok := fieldParts(e)
		if !ok {
			return fmt.Errorf("want [name, type], found %s", clip(e))
		}
		width, count := 0, 1
		if typ.Kind() == jsontext.Array {
			width, err = sizeOf(typ, depth+1)
		} else if t, bad := dtype.Parse(typ.Text()); bad != nil || !t.Fixed() {
			err = fmt.Errorf("field %q: data type %s", name.Text(), clip(typ))
		} else {
			width = t.Size
		}
		if shape != "" {
			if count, ok = lengthOf(shape); !ok {
				err = fmt.Errorf("field %q: shape %s", name.Text(), clip(shape))
			}
		}
		if size += width * count; err == nil && size > dtype.MaxSize {
			err = fmt.Errorf("more than %d bytes", dtype.MaxSize)
		}
		return err
	})
	return size, err
}

// complexFields are the two parts of a complex number.
func complexFields(t dtype.Type) []Field {
	half := dtype.Type{Kind: dtype.Float, Size: t.Size / 2, Order: t.Order}
	return []Field{{Name: "real", Type: half}, {Name: "imag", Type: half, Offset: half.Size}}
}
