package cdl

import (
	"io"
	"math"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Pos is a place in a CDL text. Line and Col count from 1; Col counts bytes.
type Pos struct{ Line, Col int32 }

// File is a parsed CDL text. It is plain data: not safe for concurrent change.
// The values of variables stay in the text: see [Parse].
type File struct {
	// Name is what the text was called when it was parsed; errors begin with it.
	Name string
	// Dataset is the name after the word netcdf.
	Dataset string
	// CutStrings makes Build cut strings of a variable that are longer than
	// its fixed size, silently, as netcdf-c does. Parse leaves it unset: such
	// strings are refused.
	CutStrings bool
	Root       *Group

	src io.ReaderAt
}

// Group is one group; the root has an empty name.
type Group struct {
	Pos    Pos
	Name   string
	Dims   []*Dim
	Vars   []*Var
	Attrs  []*Attr
	Groups []*Group
}

// Dim is a declared dimension. Len is 0 when it is unlimited.
type Dim struct {
	Pos       Pos
	Name      string
	Len       int64
	Unlimited bool
}

// DimRef is a dimension in a variable's declaration: the name or absolute
// path as written, and the dimension it means.
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
	// Enum is the user-defined type that Type stands for; nil for none.
	Enum *Enum
	// HasData says that the data section has a line for the variable; DataPos
	// is where. File.Values gives what it lists.
	HasData bool
	DataPos Pos

	data extent
}

// Enum is a user-defined type that names integers. ParseOptions.MapTypes lets
// texts have them.
type Enum struct {
	Pos     Pos
	Name    string
	Base    dtype.NC
	Members []Member

	at map[string]int // index in Members by name
}

// Member is a name of an Enum; Bits is its value, as in a Value of type Base.
type Member struct {
	Name string
	Bits uint64
}

// extent is where in a text the values of a variable are, and what was seen in
// passing.
type extent struct {
	pos     Pos
	offset  int64 // of the byte at pos
	count   int64 // values, not counting lists
	longest int   // bytes of the longest string
}

// Attr is an attribute as written. Type is dtype.NCNone when the values
// decide.
type Attr struct {
	Pos    Pos
	Name   string
	Type   dtype.NC
	Enum   *Enum // as for Var
	Values []Value
}

// Kind says what a Value is.
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
	// Bits is the value of a Number, Hex or Char: an int64, a uint64, or the
	// bits of a float64 when Type is NCFloat or NCDouble.
	Bits uint64
	// Text is the content of a Text, unescaped.
	Text string
	// Sub is the content of a List.
	Sub *[]Value
}

// text gives a constant for use in a message.
func (v Value) text() string {
	switch {
	case v.Kind != Number && v.Kind != Hex:
		return strconv.Quote(shorten(v.Text))
	case v.Kind == Hex || isUnsigned(v.Type):
		return strconv.FormatUint(v.Bits, 10)
	case isFloat(v.Type):
		return strconv.FormatFloat(math.Float64frombits(v.Bits), 'g', -1, 64)
	}
	return strconv.FormatInt(int64(v.Bits), 10) // that is how they are kept
}

// String gives "line:column".
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
