package zarr

import (
	"fmt"
	"math"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
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

	fields []Field        // the fields of a nested structure
	shape  jsontext.Value // the shape of a field that is an array
}

// maxFields is the maximum number of fields.
const maxFields = 4096

// structured parses a dtype that is a list of fields. Each field is [name, type], or
// [name, type, shape] if it is an array.
//
// Source: Zarr v2, "Data type encoding".
func (n *node) structured(a *Array, v jsontext.Value, layout Layout) (err error) {
	size := 0
	a.Fields, size, err = n.fieldList("dtype", v, func(i int, e jsontext.Value) (Field, int, error) {
		f, width, err := fieldOf(e, layout, 0)
		if err != nil {
			err = n.bad(ArrayDoc, "dtype", "field %d: %v", i, err)
		}
		return f, width, err
	})
	a.DType = dtype.Type{Kind: dtype.Raw, Size: size}
	return err
}

// fieldList parses list, the fields of a structured data type, which follow each other
// without gaps. member names the list in errors. parse parses one field and returns its
// size in bytes.
func (n *node) fieldList(member string, list jsontext.Value, parse func(i int, e jsontext.Value) (Field, int, error)) (fields []Field, size int, err error) {
	seen := map[string]bool{}
	err = list.Elems(func(i int, e jsontext.Value) error {
		if i == maxFields {
			return ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "%s has more than the limit of %d fields", member, maxFields)
		}
		f, width, err := parse(i, e)
		if err != nil {
			return err
		}
		if seen[f.Name] {
			return n.bad(ArrayDoc, member, "duplicate field %q", f.Name)
		}
		seen[f.Name] = true
		f.Offset = size
		if size += width; size > dtype.MaxSize {
			return ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "%s: an element has more than the limit of %d bytes", member, dtype.MaxSize)
		}
		fields = append(fields, f)
		return nil
	})
	if err == nil && size == 0 {
		err = n.bad(ArrayDoc, member, "the list of fields is empty")
	}
	return fields, size, err
}

// fieldOf parses one field of a structure in depth others and returns its size in bytes. If
// the field can be skipped but not read, it sets f.Err.
func fieldOf(e jsontext.Value, layout Layout, depth int) (f Field, size int, err error) {
	name, typ, shape, ok := fieldParts(e)
	if !ok || !validName(name.Text()) {
		return f, 0, fmt.Errorf("expected [name, type], found %s", clip(e))
	}
	if typ.Kind() == jsontext.Array {
		f = Field{Name: name.Text(), Err: errNested}
		f.fields, size, err = nestedFields(typ, layout, depth+1)
	} else {
		f, size, err = simpleField(name.Text(), typ.Text(), layout)
	}
	if err != nil || shape == "" {
		return f, size, err
	}
	count, ok := lengthOf(shape)
	if !ok || count > dtype.MaxSize || size*count > dtype.MaxSize {
		return f, 0, fmt.Errorf("field %q: invalid shape %s", f.Name, clip(shape))
	}
	f.shape = shape
	f.Err = ncerr.Errorf(ncerr.ErrUnsupported, "", "", "each value of the field is an array of shape %s", clip(shape))
	return f, size * count, nil
}

// errNested is the Err of a field that is a structure.
var errNested = ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the field is itself structured")

// simpleField returns the field with the given name and the Zarr v2 dtype text, and its
// size in bytes.
func simpleField(name, text string, layout Layout) (f Field, size int, err error) {
	f.Name = name
	f.Type, err = dtype.Parse(text)
	size = f.Type.Size
	switch {
	case err != nil:
	case isChar(f.Type, text, layout):
		f.Type = dtype.NCChar.Type(dtype.OrderNone)
	case !f.Type.Fixed():
		err = fmt.Errorf("field %q: %s has no fixed size", name, f.Type)
	case f.Type.NC() == dtype.NCNone:
		f.Err = ncerr.Errorf(ncerr.ErrUnsupported, "", "", "netCDF has no type for elements of %s", f.Type)
	}
	return f, size, err
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

// nestedFields parses the fields of a structure in depth others, which follow each other
// without gaps, and returns the size of the structure in bytes.
func nestedFields(v jsontext.Value, layout Layout, depth int) (fields []Field, size int, err error) {
	if depth > maxNesting {
		return nil, 0, fmt.Errorf("the structures are nested deeper than %d levels", maxNesting)
	}
	seen := map[string]bool{}
	err = v.Elems(func(i int, e jsontext.Value) error {
		if i == maxFields {
			return fmt.Errorf("the structure has more than the limit of %d fields", maxFields)
		}
		f, width, err := fieldOf(e, layout, depth)
		if err == nil && seen[f.Name] {
			err = fmt.Errorf("duplicate field %q in a nested structure", f.Name)
		}
		seen[f.Name] = true
		f.Offset = size
		if size += width; err == nil && size > dtype.MaxSize {
			err = fmt.Errorf("the structure has more than the limit of %d bytes", dtype.MaxSize)
		}
		fields = append(fields, f)
		return err
	})
	return fields, size, err
}

// structV3 parses the configuration of the data type struct, or of its older form
// structured. Each field is an object with name and data_type, or [name, data_type]. order
// is the byte order that the codec "bytes" specifies, or "" if it specifies none. A missing
// byte order is an error only if the type of a field needs one. The limit on the nesting of
// documents also limits the nesting of structures.
//
// Source: zarr-extensions, "struct" and "structured".
func (n *node) structV3(v jsontext.Value, order string, layout Layout) (fields []Field, size int, err error) {
	list := v.Get("configuration").Get("fields")
	if list.Kind() != jsontext.Array {
		return nil, 0, n.bad(V3Doc, "data_type", "fields: expected an array of fields, found %s", orMissing(list))
	}
	return n.fieldList("data_type", list, func(i int, e jsontext.Value) (f Field, size int, err error) {
		name, typ := e.Get("name"), e.Get("data_type")
		if e.Kind() == jsontext.Array {
			name, typ, _, _ = fieldParts(e)
		}
		if name.Kind() != jsontext.String || !validName(name.Text()) || e.Kind() == jsontext.Array && e.Len() != 2 {
			return f, 0, n.bad(V3Doc, "data_type", "field %d: expected an object with name and data_type, found %s", i, clip(e))
		}
		text, err := n.typeV3(typ)
		if err != nil {
			return f, 0, err
		}
		switch text {
		case "string", "bytes":
			return f, 0, n.bad(V3Doc, "data_type", "field %q: elements of variable length cannot be part of a structure", clip(name.Text()))
		case structType:
			f = Field{Name: name.Text(), Err: errNested}
			f.fields, size, err = n.structV3(typ, order, layout)
			return f, size, err
		}
		text, ordered := strings.CutPrefix(text, "*")
		if ordered && order == "" {
			return f, 0, n.needsEndian()
		}
		if ordered {
			text = order + text
		}
		if f, size, err = simpleField(name.Text(), text, layout); err != nil {
			err = n.bad(V3Doc, "data_type", "%v", err)
		}
		return f, size, err
	})
}

// structFill parses the fill value of a structure of Zarr v3: an object with a member for
// each field, or, in older arrays, the base64 form of a little-endian element.
//
// Source: zarr-extensions, "struct"; zarr-python 3.4.2, Structured.from_json_scalar.
func (n *node) structFill(a *Array, v jsontext.Value) ([]byte, bool) {
	if v.Kind() == jsontext.String {
		b, ok := fillRaw(a.DType, v)
		if ok {
			swapBig(b, a.Fields)
		}
		return b, ok
	}
	return n.objectFill(a.Fields, v, a.Layout)
}

func (n *node) objectFill(fields []Field, v jsontext.Value, layout Layout) (b []byte, ok bool) {
	if v.Kind() != jsontext.Object {
		return nil, false
	}
	members := memberMap(v)
	for _, f := range fields {
		value, there := members[f.Name]
		var part []byte
		switch {
		case !there:
			return nil, false
		case f.fields != nil:
			part, ok = n.objectFill(f.fields, value, layout)
		default:
			part, ok = n.fillOf(&Array{Layout: layout, DType: f.Type}, value)
		}
		if !ok {
			return nil, false
		}
		b = append(b, part...)
	}
	return b, true
}

// swapBig swaps the bytes of the big-endian numbers in b, which holds one element.
func swapBig(b []byte, fields []Field) {
	for _, f := range fields {
		switch {
		case f.fields != nil:
			swapBig(b[f.Offset:], f.fields)
		case f.Type.Order == dtype.Big:
			dtype.SwapBytes(b[f.Offset:f.Offset+f.Type.Size], f.Type.Width())
		}
	}
}

// complexFields returns the two parts of a complex number.
func complexFields(t dtype.Type) []Field {
	half := dtype.Type{Kind: dtype.Float, Size: t.Size / 2, Order: t.Order}
	return []Field{{Name: "real", Type: half}, {Name: "imag", Type: half, Offset: half.Size}}
}
