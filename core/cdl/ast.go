package cdl

import (
	"strconv"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Pos is a place in a CDL text. Line and Col count from 1; Col counts bytes.
type Pos struct{ Line, Col int32 }

// File is a parsed CDL text. It is plain data: not safe for concurrent change.
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
	// HasData says that the data section has a line for the variable, Data
	// what it lists; DataPos is where.
	HasData bool
	DataPos Pos
	Data    []Value
}

// Attr is an attribute as written. Type is dtype.NCNone when the values
// decide.
type Attr struct {
	Pos    Pos
	Name   string
	Type   dtype.NC
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
