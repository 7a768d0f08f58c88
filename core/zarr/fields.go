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
	// Name is the name of the field; "real" and "imag" for complex numbers.
	Name string
	// Type is the element type of the field. It is invalid if Err is set.
	Type dtype.Type
	// Offset is the position of the field in an element, in bytes.
	Offset int
	// Err explains why the field cannot be read. It is nil for a readable field, and
	// ncerr.ErrUnsupported for a nested structure, an array or a type that netCDF does
	// not have.
	Err error
}

// maxFields is the maximum number of fields.
const maxFields = 4096

// structured parses a dtype that is a list of fields. Each field is [name, type], or
// [name, type, shape] if it is an array. Fields follow each other without gaps.
//
// Source: Zarr v2, "Data type encoding".
func (n *node) structured(a *Array, v jsontext.Value, layout Layout) error {
	seen := map[string]bool{}
	size := 0
	err := v.Elems(func(i int, e jsontext.Value) error {
		if i == maxFields {
			return ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "dtype has more than the limit of %d fields", maxFields)
		}
		f, width, err := fieldOf(e, layout)
		if err != nil {
			return n.bad(ArrayDoc, "dtype", "field %d: %v", i, err)
		}
		if seen[f.Name] {
			return n.bad(ArrayDoc, "dtype", "duplicate field %q", f.Name)
		}
		seen[f.Name] = true
		f.Offset = size
		if size += width; size > dtype.MaxSize {
			return ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "dtype: an element has more than the limit of %d bytes", dtype.MaxSize)
		}
		a.Fields = append(a.Fields, f)
		return nil
	})
	if err != nil {
		return err
	}
	if size == 0 {
		return n.bad(ArrayDoc, "dtype", "the list of fields is empty")
	}
	a.DType = dtype.Type{Kind: dtype.Raw, Size: size}
	return nil
}

// fieldOf parses one field and returns its size in bytes. If the field can be skipped but
// not read, it sets f.Err.
func fieldOf(e jsontext.Value, layout Layout) (f Field, size int, err error) {
	name, typ, shape, ok := fieldParts(e)
	if !ok || !validName(name.Text()) {
		return f, 0, fmt.Errorf("expected [name, type], found %s", clip(e))
	}
	f.Name = name.Text()
	if typ.Kind() == jsontext.Array {
		size, err = sizeOf(typ, 0)
		f.Err = ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the field is itself structured")
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
		return f, 0, fmt.Errorf("field %q: invalid shape %s", f.Name, clip(shape))
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

// lengthOf returns the product of the lengths in shape, which may be a single number.
func lengthOf(shape jsontext.Value) (int, bool) {
	n := int64(1)
	ok := each(shape, func(e jsontext.Value) bool {
		k, ok := e.Int64()
		n *= k
		return ok && k > 0 && k <= math.MaxInt32 && n <= dtype.MaxSize
	})
	return int(n), ok
}

// maxNesting is the maximum depth of nested structures.
const maxNesting = 16

// sizeOf returns the size in bytes of a nested structure.
func sizeOf(v jsontext.Value, depth int) (size int, err error) {
	if depth > maxNesting {
		return 0, fmt.Errorf("the structures are nested deeper than %d levels", maxNesting)
	}
	err = v.Elems(func(_ int, e jsontext.Value) error {
		name, typ, shape, ok := fieldParts(e)
		if !ok {
			return fmt.Errorf("expected [name, type], found %s", clip(e))
		}
		width, count := 0, 1
		if typ.Kind() == jsontext.Array {
			width, err = sizeOf(typ, depth+1)
		} else if t, bad := dtype.Parse(typ.Text()); bad != nil || !t.Fixed() {
			err = fmt.Errorf("field %q: invalid data type %s", name.Text(), clip(typ))
		} else {
			width = t.Size
		}
		if shape != "" {
			if count, ok = lengthOf(shape); !ok {
				err = fmt.Errorf("field %q: invalid shape %s", name.Text(), clip(shape))
			}
		}
		if size += width * count; err == nil && size > dtype.MaxSize {
			err = fmt.Errorf("the structure has more than the limit of %d bytes", dtype.MaxSize)
		}
		return err
	})
	return size, err
}

// complexFields returns the two parts of a complex number.
func complexFields(t dtype.Type) []Field {
	half := dtype.Type{Kind: dtype.Float, Size: t.Size / 2, Order: t.Order}
	return []Field{{Name: "real", Type: half}, {Name: "imag", Type: half, Offset: half.Size}}
}
