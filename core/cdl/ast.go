package cdl

import (
	"io"
	"math"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Pos is a position in a CDL file. Line and Col start at 1; Col is in bytes.
type Pos struct{ Line, Col int32 }

// File is a parsed CDL file. It is not safe for concurrent modification. It does not
// contain the values of variables, which are reread from the input; see [Parse].
type File struct {
	// Name is the name of the input passed to Parse. Errors begin with this name.
	Name string
	// Dataset is the name after the keyword "netcdf".
	Dataset string
	// TruncateStrings makes Build silently truncate strings that exceed the fixed size of
	// their variable, as netcdf-c does. Parse leaves it unset, which makes such strings
	// an error.
	TruncateStrings bool
	Root            *Group

	src io.ReaderAt
}

// Group is a parsed group. The root group has an empty name.
type Group struct {
	Pos    Pos
	Name   string
	Dims   []*Dim
	Vars   []*Var
	Attrs  []*Attr
	Groups []*Group
}

// Dim is a declared dimension. Len is 0 for an unlimited dimension.
type Dim struct {
	Pos       Pos
	Name      string
	Len       int64
	Unlimited bool
}

// DimRef is a reference to a dimension in a variable's declaration: the name or
// absolute path as written, and the dimension it refers to.
type DimRef struct {
	Pos  Pos
	Path string
	Dim  *Dim
}

// Var is a declared variable.
type Var struct {
	Pos   Pos
	Name  string
	Type  dtype.NC
	Dims  []DimRef
	Attrs []*Attr
	// Enum is the user-defined type that Type replaces, or nil.
	Enum *Enum
	// HasData is set if the data section lists values for the variable, at DataPos.
	// File.Values returns them.
	HasData bool
	DataPos Pos

	data extent
}

// Enum is a user-defined enumeration of integers. Parse accepts it only with
// ParseOptions.MapTypes.
type Enum struct {
	Pos     Pos
	Name    string
	Base    dtype.NC
	Members []Member

	at map[string]int // index in Members by name
}

// Member is a member of an Enum. Bits is its value, as in a Value of type Base.
type Member struct {
	Name string
	Bits uint64
}

// extent records the position of the values of a variable in the input, their number and
// the length of the longest string.
type extent struct {
	pos     Pos
	offset  int64 // offset of the byte at pos
	count   int64 // number of values, excluding lists
	longest int   // length of the longest string in bytes
}

// Attr is an attribute as written. Type is dtype.NCNone if the values determine the type.
type Attr struct {
	Pos    Pos
	Name   string
	Type   dtype.NC
	Enum   *Enum // user-defined type that Type replaces; see Var
	Values []Value
}

// Kind is the kind of a Value.
type Kind uint8

// The kinds of values.
const (
	Number Kind = iota // an integer or floating-point constant of Type
	Hex                // a hexadecimal constant without suffix: bits without a type
	Char               // a single character in ' '
	Text               // a string in " "
	Fill               // _
	Nil                // NIL
	List               // { ... }
)

// Value is one constant of an attribute or of the data section.
type Value struct {
	Pos  Pos
	Kind Kind
	// Type is the type of a Number.
	Type dtype.NC
	// Bits is the value of a Number, Hex or Char: an int64, a uint64, or the bits of a
	// float64 if Type is NCFloat or NCDouble.
	Bits uint64
	// Text is the content of a Text, unescaped.
	Text string
	// Sub is the content of a List.
	Sub *[]Value
}

// text formats the constant for messages.
func (v Value) text() string {
	switch {
	case v.Kind != Number && v.Kind != Hex:
		return strconv.Quote(shorten(v.Text))
	case v.Kind == Hex || isUnsigned(v.Type):
		return strconv.FormatUint(v.Bits, 10)
	case isFloat(v.Type):
		return strconv.FormatFloat(math.Float64frombits(v.Bits), 'g', -1, 64)
	}
	return strconv.FormatInt(int64(v.Bits), 10) // signed values are stored as two's complement
}

// String returns "line:column".
func (p Pos) String() string {
	return strconv.Itoa(int(p.Line)) + ":" + strconv.Itoa(int(p.Col))
}

func findAttr(attrs []*Attr, name string) *Attr {
	for _, a := range attrs {
		if a.Name == name {
			return a
		}
	}
	return nil
}
