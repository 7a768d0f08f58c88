package cdl

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Exports for the black-box tests.

// AppendG exports appendG.
var AppendG = appendG

// EscapeName exports escapeName.
var EscapeName = escapeName

// Same and Same32 export same and same32.
var (
	Same   = same
	Same32 = same32
)

// AttrText formats the value of an attribute as Write does by default.
func AttrText(value any) string {
	f := formatter{digits: [2]int{7, 15}}
	return string(f.appendAttr(nil, value))
}

// FloatText formats a value with the given digits, and with more if exact requires it.
func FloatText(v float64, bits, digits int, exact bool) string {
	f := formatter{digits: [2]int{digits, digits}, exact: exact}
	return string(f.appendFloat(nil, v, bits))
}

// Infer returns the type inferred from the values of an attribute.
func Infer(a *Attr) (string, error) {
	nc, err := converter{name: "x"}.inferType(a)
	return nc.String(), err
}

// Slabs returns all selections of chunk.NewSlabs.
func Slabs(shape, chunks []int64, limit int64) (list []chunk.Selection) {
	for s := chunk.NewSlabs(shape, chunks, limit); s.Next(); {
		list = append(list, chunk.Selection{Start: slices.Clone(s.Sel.Start), Count: slices.Clone(s.Sel.Count)})
	}
	return list
}

// OwnFormat formats a value with a C_format. ok is false if the format does not fit.
func OwnFormat(format string, nc dtype.NC, v any) (text string, ok bool) {
	own := parseVerb(format, nc)
	if own == nil {
		return "", false
	}
	switch v := v.(type) {
	case int64:
		return string(own.appendInt(nil, v)), true
	case uint64:
		return string(own.appendUint(nil, v)), true
	}
	return string(own.appendFloat(nil, v.(float64))), true
}
