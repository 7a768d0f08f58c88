// Package dtype describes the elements of arrays: kind, size and byte order, their
// netCDF atomic types, fill values, and the conversion between stored bytes and Go
// slices.
//
// It imports only core/ncerr. core/zarr (metadata documents) and core/dataset (reading and
// writing) use it.
package dtype

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Kind is the class of an element type.
type Kind uint8

// The kinds. The values are sent to plugins: append new ones at the end.
const (
	Invalid   Kind = iota
	Bool           // one byte, 0 or 1 (v2 "|b1")
	Int            // signed integer
	Uint           // unsigned integer
	Float          // IEEE 754 binary16, binary32 or binary64
	Complex        // two floats of half the size
	Char           // netCDF char, one byte of a string (v2 ">S1", "<U1" of old NCZarr)
	Bytes          // fixed-length byte string, padded with NULs (v2 "|Sn")
	Unicode        // fixed-length UCS-4 string (v2 "<Un"); Size is 4n
	Datetime       // 64-bit count since 1970 in Unit
	Timedelta      // 64-bit count in Unit
	Raw            // opaque bytes (v2 "|Vn")
	String         // variable-length UTF-8 string; Size is 0
	VlenBytes      // variable-length bytes; Size is 0
)

// Order is the byte order of elements wider than one byte.
type Order uint8

// The byte orders. The values are sent to plugins: append new ones at the end.
const (
	OrderNone Order = iota // no byte order: one-byte types, byte strings and raw bytes
	Little
	Big
)

// Native is the byte order of this machine.
var Native = nativeOrder()

// Type is an element type. It is comparable. The zero Type is invalid.
type Type struct {
	Kind  Kind
	Size  int    // bytes of one element; 0 for variable length
	Order Order  // OrderNone for types without a byte order
	Unit  string // NumPy unit of Datetime and Timedelta, such as "ns" or "25s"; otherwise empty
}

// MaxSize is the maximum size of one element in bytes.
const MaxSize = 1 << 24

// Fixed reports whether elements have a fixed size.
func (t Type) Fixed() bool { return t.Size > 0 }

// WithOrder returns t with byte order o. Types without a byte order are unchanged.
func (t Type) WithOrder(o Order) Type {
	if t.Order != OrderNone {
		t.Order = o
	}
	return t
}

// Width returns the number of bytes to reverse as one unit when the byte order changes:
// half the size for complex, 4 for Unicode, 1 for types without a byte order, and
// otherwise the size.
func (t Type) Width() int {
	switch t.Kind {
	case Complex:
		return t.Size / 2
	case Unicode:
		return 4
	case Int, Uint, Float, Datetime, Timedelta:
		return t.Size
	}
	return 1
}

// NC is a netCDF external type. The values equal those of nc_type in netcdf.h.
type NC uint8

// The netCDF atomic types.
const (
	NCNone   NC = 0
	NCByte   NC = 1
	NCChar   NC = 2
	NCShort  NC = 3
	NCInt    NC = 4
	NCFloat  NC = 5
	NCDouble NC = 6
	NCUByte  NC = 7
	NCUShort NC = 8
	NCUInt   NC = 9
	NCInt64  NC = 10
	NCUInt64 NC = 11
	NCString NC = 12
)

var ncNames = [...]string{"none", "byte", "char", "short", "int", "float", "double", "ubyte", "ushort", "uint", "int64", "uint64", "string"}

// String returns the CDL keyword: "byte", "char", "short" and so on.
func (n NC) String() string {
	if int(n) < len(ncNames) {
		return ncNames[n]
	}
	return "nc_type " + strconv.Itoa(int(n))
}

// Valid reports whether n is one of the netCDF atomic types.
func (n NC) Valid() bool { return n >= NCByte && n <= NCString }

// Size returns the size of one value in bytes. It is 0 for NCString.
func (n NC) Size() int { return n.Type(Little).Size }

// Type returns the element type of n in byte order o. For NCString, its Kind is String.
func (n NC) Type(o Order) Type {
	switch n {
	case NCByte:
		return Type{Kind: Int, Size: 1}
	case NCUByte:
		return Type{Kind: Uint, Size: 1}
	case NCChar:
		return Type{Kind: Char, Size: 1}
	case NCShort:
		return Type{Kind: Int, Size: 2, Order: o}
	case NCUShort:
		return Type{Kind: Uint, Size: 2, Order: o}
	case NCInt:
		return Type{Kind: Int, Size: 4, Order: o}
	case NCUInt:
		return Type{Kind: Uint, Size: 4, Order: o}
	case NCInt64:
		return Type{Kind: Int, Size: 8, Order: o}
	case NCUInt64:
		return Type{Kind: Uint, Size: 8, Order: o}
	case NCFloat:
		return Type{Kind: Float, Size: 4, Order: o}
	case NCDouble:
		return Type{Kind: Float, Size: 8, Order: o}
	case NCString:
		return Type{Kind: String}
	}
	return Type{}
}

// NC returns the netCDF type that represents elements of t without loss, or NCNone if no
// such type exists. Bool maps to ubyte, float16 to float, strings to char (Kind Char) or
// string, and datetimes to int64.
func (t Type) NC() NC {
	switch t.Kind {
	case Bool:
		return NCUByte
	case Char:
		return NCChar
	case Bytes, Unicode, String, VlenBytes:
		return NCString
	case Datetime, Timedelta:
		return NCInt64
	case Int:
		return [9]NC{1: NCByte, 2: NCShort, 4: NCInt, 8: NCInt64}[t.index()]
	case Uint:
		return [9]NC{1: NCUByte, 2: NCUShort, 4: NCUInt, 8: NCUInt64}[t.index()]
	case Float:
		return [9]NC{2: NCFloat, 4: NCFloat, 8: NCDouble}[t.index()]
	}
	return NCNone
}

// NCZarrNative reports whether NCZarr can store t. NCZarr can store the numbers and char
// of netCDF, and fixed-length byte strings.
func (t Type) NCZarrNative() bool {
	switch t.Kind {
	case Int, Uint, Char, Bytes:
		return true
	}
	return t.Kind == Float && t.Size > 2
}

// index returns the index of t in a table of types by size: t.Size, or 0 if that is not
// from 1 to 8.
func (t Type) index() int {
	if t.Size >= 1 && t.Size <= 8 {
		return t.Size
	}
	return 0
}

// String returns the v2 (NumPy) spelling, such as "<f4", "|S7" or "|O".
func (t Type) String() string {
	order := map[Order]string{OrderNone: "|", Little: "<", Big: ">"}[t.Order]
	switch t.Kind {
	case Bool:
		return "|b1"
	case Int:
		return order + "i" + strconv.Itoa(t.Size)
	case Uint:
		return order + "u" + strconv.Itoa(t.Size)
	case Float:
		return order + "f" + strconv.Itoa(t.Size)
	case Complex:
		return order + "c" + strconv.Itoa(t.Size)
	case Char:
		return ">S1"
	case Bytes:
		return "|S" + strconv.Itoa(t.Size)
	case Unicode:
		return order + "U" + strconv.Itoa(t.Size/4)
	case Datetime, Timedelta:
		text := order + map[Kind]string{Datetime: "M8", Timedelta: "m8"}[t.Kind]
		if t.Unit != "" { // NumPy writes no brackets for the generic unit
			text += "[" + t.Unit + "]"
		}
		return text
	case Raw:
		return "|V" + strconv.Itoa(t.Size)
	case String, VlenBytes:
		return "|O"
	}
	return "invalid"
}

// Parse parses the v2 (NumPy) spelling of an unstructured dtype. A missing order or "="
// means little-endian, and so does "|" with a number wider than one byte. Parse returns
// Bytes of size 1 for ">S1", because core/zarr decides whether the type is a netCDF char.
// It returns String for "|O", because the object codec determines the content. For any
// other string the error is ErrBadType.
//
// Source: Zarr v2, "Data type encoding".
func Parse(s string) (Type, error) {
	bad := func(why string) (Type, error) {
		return Type{}, ncerr.New(ncerr.ErrBadType, "parse dtype", s, fmt.Errorf("%s", why))
	}
	body, order := s, Little
	if s != "" {
		switch s[0] {
		case '<', '=', '|':
			body = s[1:]
		case '>':
			body, order = s[1:], Big
		}
	}
	if body == "" {
		return bad("the data type is empty")
	}
	if body == "O" || body == "O8" {
		return Type{Kind: String}, nil
	}
	code, rest := body[0], body[1:]
	unit := ""
	if code == 'M' || code == 'm' {
		if i := strings.IndexByte(rest, '['); i >= 0 && rest[len(rest)-1] == ']' {
			rest, unit = rest[:i], rest[i+1:len(rest)-1]
		}
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 || n > MaxSize || rest[0] == '+' || rest[0] == '-' {
		return bad("unknown data type")
	}
	t := Type{Size: n, Order: order}
	switch code {
	case 'b':
		t.Kind = Bool
	case 'i':
		t.Kind = Int
	case 'u':
		t.Kind = Uint
	case 'f':
		t.Kind = Float
	case 'c':
		t.Kind = Complex
	case 'M':
		t.Kind, t.Unit = Datetime, unit
	case 'm':
		t.Kind, t.Unit = Timedelta, unit
	case 'S', 'a':
		t.Kind = Bytes
	case 'U':
		t.Kind, t.Size = Unicode, 4*n
	case 'V':
		t.Kind = Raw
	default:
		return bad("unknown data type")
	}
	if !t.sizeOK() || t.Size > MaxSize {
		return bad("invalid size")
	}
	if t.Width() == 1 {
		t.Order = OrderNone
	}
	return t, nil
}

func (t Type) sizeOK() bool {
	switch t.Kind {
	case Bool:
		return t.Size == 1
	case Int, Uint:
		return t.Size == 1 || t.Size == 2 || t.Size == 4 || t.Size == 8
	case Float:
		return t.Size == 2 || t.Size == 4 || t.Size == 8
	case Complex:
		return t.Size == 8 || t.Size == 16
	case Datetime, Timedelta:
		return t.Size == 8
	}
	return t.Size > 0
}
