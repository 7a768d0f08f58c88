package driver

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Description describes a codec. The catalog, help output, documentation and the mapping
// of HDF5 filters are derived from descriptions.
type Description struct {
	// ID is the numcodecs (Zarr v2) id, such as "zlib" or "blosc".
	ID string `json:"id"`
	// V3 is the Zarr v3 name, or empty.
	V3 string `json:"v3,omitempty"`
	// Aliases are other names of the codec.
	Aliases []string `json:"aliases,omitempty"`
	// HDF5 is the HDF5 filter number, or 0 if no HDF5 filter has the same encoded
	// bytes.
	HDF5 int `json:"hdf5,omitempty"`
	// Summary is a description in one line.
	Summary string `json:"summary"`
	// Encode and Decode report which directions the codec supports.
	Encode bool `json:"encode"`
	Decode bool `json:"decode"`
	// Lossy is set if decoding does not restore the encoded data exactly. LossNote, if
	// not empty, describes the loss if it affects only details of the values, such as the
	// payloads of NaNs.
	Lossy    bool   `json:"lossy,omitempty"`
	LossNote string `json:"loses,omitempty"`
	// Transform is the codec kind of Zarr v3.
	Transform Transform `json:"transform,omitempty"`
	// Preparation is set if a bytes-to-bytes codec only prepares or checks data. Zarr
	// v2 never stores such a codec as the compressor.
	Preparation bool `json:"prepares,omitempty"`
	// Objects is the kind of variable-length elements that the codec encodes as
	// the first step of a chain. It is empty if the codec encodes only elements of
	// fixed size.
	Objects Objects `json:"objects,omitempty"`
	// Params are the parameters. The codec rejects any other parameter.
	Params []Param `json:"params,omitempty"`
}

// Transform describes the input and the output of a codec when it encodes. The Kind of
// the Spec that Open returns for an array must agree with the transform. The output of a
// BytesToBytes codec has the element type of the input, or none. The output of an
// ArrayToArray codec has the element type that its DTypeParam specifies. Without such a
// parameter it has the element type of the input, unless the codec packs several elements
// into one.
type Transform string

// The transforms, which are the codec kinds of Zarr v3.
const (
	Unstated     Transform = "" // unknown: the plugin uses protocol 1.1 or older
	ArrayToArray Transform = "array to array"
	ArrayToBytes Transform = "array to bytes"
	BytesToBytes Transform = "bytes to bytes"
)

// Objects is a kind of variable-length elements.
type Objects string

// The kinds of variable-length elements.
const (
	NoObjects Objects = ""
	Text      Objects = "text"
	Bytes     Objects = "bytes"
	Arrays    Objects = "arrays" // arrays of numbers
)

// Param describes a parameter of a codec.
type Param struct {
	Name string    `json:"name"`
	Type ParamType `json:"type"`
	// Min and Max are the range of an integer. If both are 0, the range is the same as
	// for int32.
	Min int64 `json:"min,omitempty"`
	Max int64 `json:"max,omitempty"`
	// Choices are the possible values of a TextParam. If Choices is empty, any string is
	// possible.
	Choices []string `json:"choices,omitempty"`
	// Default is the value of an absent parameter. A string is written without quotes. If
	// Default is empty, Doc describes the effect of omitting the parameter.
	Default  string `json:"default,omitempty"`
	Required bool   `json:"required,omitempty"`
	// Input, if set, is a property of the input elements. The value of the parameter must
	// equal that property.
	Input InputProperty `json:"input,omitempty"`
	// HDF5 is the position of the value among the parameters of the HDF5 filter, counted
	// from 1, or 0 if the filter has no such parameter. The HDF5 filter represents a
	// choice by its index. HDF5Default is the default in HDF5 if it differs.
	HDF5        int    `json:"hdf5,omitempty"`
	HDF5Default string `json:"hdf5_default,omitempty"`
	// Doc is a description in one line.
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
	DTypeParam ParamType = "dtype" // an element type in the notation of NumPy
	ListParam  ParamType = "list"  // a JSON list

	ObjectParam ParamType = "object" // a JSON object
)

// InputProperty is a property of the input elements that a parameter repeats. Readers
// differ in how they treat a missing parameter of this kind. A codec with such a
// parameter cannot be reused for elements of another type.
type InputProperty string

// The properties of input elements.
const (
	NoProperty InputProperty = ""
	InputType  InputProperty = "type" // the type, in a DTypeParam
	InputSize  InputProperty = "size" // the size in bytes, in an IntParam; 0 if unknown
)

// The limits on descriptions.
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

// Names returns the names of the codec. The id is first.
func (d *Description) Names() []string {
	var names []string
	for _, n := range append([]string{d.ID, d.V3}, d.Aliases...) {
		if n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// Compresses reports whether Zarr v2 stores the codec as the compressor if it is the
// last step of a chain.
func (d *Description) Compresses() bool {
	return !d.Preparation && (d.Transform == Unstated || d.Transform == BytesToBytes)
}

// Param returns the parameter with the given name, or nil.
func (d *Description) Param(name string) *Param {
	i := slices.IndexFunc(d.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Params[i]
}

// Check returns an error of kind ncerr.ErrInvalid if the description contradicts
// itself or exceeds a limit.
func (d *Description) Check() error {
	bad := func(format string, args ...any) error {
		return ncerr.Errorf(ncerr.ErrInvalid, "describe codec", d.ID, format, args...)
	}
	switch {
	case d.HDF5 < 0 || d.HDF5 > MaxHDF5Filter:
		return bad("%d is not an HDF5 filter number", d.HDF5)
	case len(d.Aliases) > MaxAliases:
		return bad("the codec has %d aliases, more than the limit of %d", len(d.Aliases), MaxAliases)
	case len(d.Params) > MaxParams:
		return bad("the codec has %d parameters, more than the limit of %d", len(d.Params), MaxParams)
	case !slices.Contains([]Transform{Unstated, ArrayToArray, ArrayToBytes, BytesToBytes}, d.Transform):
		return bad("unknown transform %q", d.Transform)
	case !slices.Contains([]Objects{NoObjects, Text, Bytes, Arrays}, d.Objects):
		return bad("unknown kind of objects %q", d.Objects)
	case d.Objects != NoObjects && d.Transform != ArrayToArray && d.Transform != ArrayToBytes:
		return bad("only a codec that encodes arrays can support elements of variable length")
	case d.Preparation && d.Transform != BytesToBytes:
		return bad("a preparation must be a codec from bytes to bytes")
	}
	names, places := map[string]bool{"": true, "id": true}, map[int]bool{}
	for i := range d.Params {
		p := &d.Params[i]
		if why := p.check(); why != "" {
			return bad("parameter %q: %s", p.Name, why)
		}
		if names[p.Name] || places[p.HDF5] {
			return bad("parameter %q: duplicate name or HDF5 position", p.Name)
		}
		names[p.Name], places[p.HDF5] = true, p.HDF5 != 0
	}
	return nil
}

// check describes the first error in p, or returns "".
func (p *Param) check() string {
	switch {
	case !slices.Contains([]ParamType{IntParam, FloatParam, BoolParam, TextParam, DTypeParam, ListParam, ObjectParam}, p.Type):
		return "unknown type " + strconv.Quote(string(p.Type))
	case p.Min > p.Max || (p.Min != 0 || p.Max != 0) && p.Type != IntParam:
		return "only an integer can have a range, and the minimum must not exceed the maximum"
	case len(p.Choices) > MaxChoices || len(p.Choices) > 0 && p.Type != TextParam:
		return "only a string can have choices, and the limit is " + strconv.Itoa(MaxChoices)
	case p.HDF5 < 0 || p.HDF5 > MaxHDF5Params || p.HDF5 != 0 && p.Type != IntParam && p.Type != BoolParam && len(p.Choices) == 0:
		return "HDF5 position " + strconv.Itoa(p.HDF5) + " is not valid for the type"
	case p.Required && p.Default != "":
		return "a required parameter must not have a default"
	case p.Input == InputType && p.Type != DTypeParam, p.Input == InputSize && p.Type != IntParam, p.Input != NoProperty && p.Input != InputType && p.Input != InputSize:
		return "the type does not match the input property " + strconv.Quote(string(p.Input))
	case !p.accepts(p.Default) || !p.accepts(p.HDF5Default):
		return "the default is not a valid value"
	}
	return ""
}

// accepts reports whether text is empty or a valid value of the parameter.
func (p *Param) accepts(text string) bool {
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

// Values returns the range or the choices as text. It returns "" if all values of the
// type are possible.
func (p *Param) Values() string {
	if p.Min != 0 || p.Max != 0 {
		return strconv.FormatInt(p.Min, 10) + " to " + strconv.FormatInt(p.Max, 10)
	}
	return strings.Join(p.Choices, ", ")
}

// Range returns the range of an integer parameter, including both ends.
func (p *Param) Range() (lo, hi int64) {
	if p.Min == 0 && p.Max == 0 {
		return -1 << 31, 1<<31 - 1
	}
	return p.Min, p.Max
}
