package driver

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Description is what a filter says about one of its codecs. Catalogue, help,
// documentation and the mapping of HDF5 filters derive from it.
type Description struct {
	// ID is the numcodecs (Zarr v2) id: "zlib", "blosc".
	ID string `json:"id"`
	// V3 is the Zarr v3 name, or empty.
	V3 string `json:"v3,omitempty"`
	// Aliases are further names under which the codec is opened.
	Aliases []string `json:"aliases,omitempty"`
	// HDF5 is the HDF5 filter number, or 0 if HDF5 has no filter that makes
	// the same bytes.
	HDF5 int `json:"hdf5,omitempty"`
	// Summary is one line for people.
	Summary string `json:"summary"`
	// Encode and Decode say which directions work.
	Encode bool `json:"encode"`
	Decode bool `json:"decode"`
	// Lossy is set if decoding does not restore exactly what was encoded. Loses
	// names what is lost if the values themselves survive.
	Lossy bool   `json:"lossy,omitempty"`
	Loses string `json:"loses,omitempty"`
	// Transform is what the codec takes and makes: the codec kind of Zarr v3.
	Transform Transform `json:"transform,omitempty"`
	// Prepares is set if a bytes-to-bytes codec only prepares or checks data. Zarr
	// v2 never stores such a codec as the compressor.
	Prepares bool `json:"prepares,omitempty"`
	// Objects is the kind of variable-length elements that the codec encodes, as
	// the first of a chain; empty if it does not encode any.
	Objects Objects `json:"objects,omitempty"`
	// Params are the parameters; others are refused.
	Params []Param `json:"params,omitempty"`
}

// Transform is what a codec takes and what it makes of it when encoding.
type Transform string

// The transforms, which are the codec kinds of Zarr v3.
const (
	Unstated     Transform = "" // by a plugin for protocol 1.1 or older
	ArrayToArray Transform = "array to array"
	ArrayToBytes Transform = "array to bytes"
	BytesToBytes Transform = "bytes to bytes"
)

// Objects is a kind of elements of variable length.
type Objects string

// The kinds of elements of variable length.
const (
	NoObjects Objects = ""
	Text      Objects = "text"
	Bytes     Objects = "bytes"
	Arrays    Objects = "arrays" // of numbers
)

// Param describes a parameter of a codec.
type Param struct {
	Name string    `json:"name"`
	Type ParamType `json:"type"`
	// Min and Max are the range of an integer; if both are 0 it is that of 32
	// bits.
	Min int64 `json:"min,omitempty"`
	Max int64 `json:"max,omitempty"`
	// Choices are all values of a text.
	Choices []string `json:"choices,omitempty"`
	// Default is the value used if the parameter is absent; a text has no quotes.
	// If it is empty, Doc describes the effect of leaving the parameter out.
	Default  string `json:"default,omitempty"`
	Required bool   `json:"required,omitempty"`
	// Input is set if the value repeats a property of the elements to be encoded.
	Input InputFact `json:"input,omitempty"`
	// HDF5 is the place of the value among the parameters of the HDF5 filter,
	// counted from 1; 0 if it has none. A choice is given there by its index.
	// HDF5Default is the default there if it is another.
	HDF5        int    `json:"hdf5,omitempty"`
	HDF5Default string `json:"hdf5_default,omitempty"`
	// Doc is one line for people.
	Doc string `json:"doc,omitempty"`
}

// ParamType is the type of a parameter.
type ParamType string

// The types of parameters.
const (
	IntParam   ParamType = "int"
	FloatParam ParamType = "float"
	BoolParam  ParamType = "bool"
	TextParam  ParamType = "text"
	DTypeParam ParamType = "dtype" // an element type as numpy spells it
	ListParam  ParamType = "list"  // a JSON list
)

// InputFact is what a parameter repeats about the elements that go in. Readers
// disagree about such a parameter if it is absent, and codecs with it cannot be
// kept for elements of another type.
type InputFact string

// The facts.
const (
	NoFact    InputFact = ""
	InputType InputFact = "type" // of a DTypeParam
	InputSize InputFact = "size" // in bytes; of an IntParam, and 0 is not stated
)

// The ceilings on descriptions.
const (
	MaxAliases    = 16
	MaxParams     = 64
	MaxChoices    = 64
	MaxHDF5Filter = 1<<16 - 1
	MaxHDF5Params = 32
)

// Has reports whether name is one of the names of the codec.
func (d *Description) Has(name string) bool {
	return name != "" && (name == d.ID || name == d.V3 || slices.Contains(d.Aliases, name))
}

// Names returns the names of the codec, the id first.
func (d *Description) Names() []string {
	var names []string
	for _, n := range append([]string{d.ID, d.V3}, d.Aliases...) {
		if n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// Compresses reports whether Zarr v2 has the codec as compressor if it is the
// last of a chain.
func (d *Description) Compresses() bool {
	return !d.Prepares && (d.Transform == Unstated || d.Transform == BytesToBytes)
}

// Param returns the parameter of that name, or nil.
func (d *Description) Param(name string) *Param {
	i := slices.IndexFunc(d.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Params[i]
}

// Check returns ncerr.ErrInvalid for a description that contradicts itself or
// is beyond a ceiling.
func (d *Description) Check() error {
	bad := func(format string, args ...any) error {
		return ncerr.Errorf(ncerr.ErrInvalid, "describe codec", d.ID, format, args...)
	}
	switch {
	case d.HDF5 < 0 || d.HDF5 > MaxHDF5Filter:
		return bad("%d is not an HDF5 filter number", d.HDF5)
	case len(d.Aliases) > MaxAliases:
		return bad("%d aliases, more than %d", len(d.Aliases), MaxAliases)
	case len(d.Params) > MaxParams:
		return bad("%d parameters, more than %d", len(d.Params), MaxParams)
	case !slices.Contains([]Transform{Unstated, ArrayToArray, ArrayToBytes, BytesToBytes}, d.Transform):
		return bad("unknown transform %q", d.Transform)
	case !slices.Contains([]Objects{NoObjects, Text, Bytes, Arrays}, d.Objects):
		return bad("unknown kind of objects %q", d.Objects)
	case d.Objects != NoObjects && d.Transform != ArrayToArray && d.Transform != ArrayToBytes:
		return bad("elements of variable length are an array, and it takes none")
	case d.Prepares && d.Transform != BytesToBytes:
		return bad("only a codec from bytes to bytes prepares data")
	}
	names, places := map[string]bool{"": true, "id": true}, map[int]bool{}
	for i := range d.Params {
		p := &d.Params[i]
		if why := p.check(); why != "" {
			return bad("parameter %q: %s", p.Name, why)
		}
		if names[p.Name] || places[p.HDF5] {
			return bad("parameter %q: its name or its place in HDF5 is taken", p.Name)
		}
		names[p.Name], places[p.HDF5] = true, p.HDF5 != 0
	}
	return nil
}

// check returns what is wrong with p, or "".
func (p *Param) check() string {
	switch {
	case !slices.Contains([]ParamType{IntParam, FloatParam, BoolParam, TextParam, DTypeParam, ListParam}, p.Type):
		return "unknown type " + strconv.Quote(string(p.Type))
	case p.Min > p.Max || (p.Min != 0 || p.Max != 0) && p.Type != IntParam:
		return "only an integer has a range, from less to more"
	case len(p.Choices) > MaxChoices || len(p.Choices) > 0 && p.Type != TextParam:
		return "only a text has choices, at most " + strconv.Itoa(MaxChoices)
	case p.HDF5 < 0 || p.HDF5 > MaxHDF5Params || p.HDF5 != 0 && p.Type != IntParam && p.Type != BoolParam && len(p.Choices) == 0:
		return "it cannot be at place " + strconv.Itoa(p.HDF5) + " of HDF5"
	case p.Required && p.Default != "":
		return "a required parameter has no default"
	case p.Input == InputType && p.Type != DTypeParam, p.Input == InputSize && p.Type != IntParam, p.Input != NoFact && p.Input != InputType && p.Input != InputSize:
		return "it is not the " + strconv.Quote(string(p.Input)) + " of elements"
	case !p.takes(p.Default) || !p.takes(p.HDF5Default):
		return "its default is not one of its values"
	}
	return ""
}

// takes reports whether text is a value of a parameter with that range or those
// choices, or empty.
func (p *Param) takes(text string) bool {
	if text == "" {
		return true
	}
	switch p.Type {
	case IntParam:
		n, err := strconv.ParseInt(text, 10, 64)
		lo, hi := p.Range()
		return err == nil && n >= lo && n <= hi && text == strconv.FormatInt(n, 10)
	case FloatParam:
		return json.Valid([]byte(text)) && strings.Trim(text, "0123456789+-.eE") == ""
	case BoolParam:
		return text == "true" || text == "false"
	}
	return len(p.Choices) == 0 || slices.Contains(p.Choices, text)
}

// Values describes the range or the choices for people; it is empty if all
// values of the type are possible.
func (p *Param) Values() string {
	if p.Min != 0 || p.Max != 0 {
		return strconv.FormatInt(p.Min, 10) + " to " + strconv.FormatInt(p.Max, 10)
	}
	return strings.Join(p.Choices, ", ")
}

// Range is the range of an integer.
func (p *Param) Range() (lo, hi int64) {
	if p.Min == 0 && p.Max == 0 {
		return -1 << 31, 1<<31 - 1
	}
	return p.Min, p.Max
}
