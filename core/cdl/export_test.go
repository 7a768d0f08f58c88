package cdl

// What the black-box tests need to see of the inside.

// AppendG is appendG.
var AppendG = appendG

// EscapeName is escapeName.
var EscapeName = escapeName

// Same and Same32 are same and same32.
var (
	Same   = same
	Same32 = same32
)

// AttrText formats the value of an attribute as Write does by default.
func AttrText(value any) string {
	f := formatter{digits: [2]int{7, 15}}
	return string(f.appendAttr(nil, value))
}

// FloatText formats a value with the digits given, and more when exact.
func FloatText(v float64, bits, digits int, exact bool) string {
	f := formatter{digits: [2]int{digits, digits}, exact: exact}
	return string(f.appendFloat(nil, v, bits))
}

// Infer gives the type that the values of an attribute decide.
func Infer(a *Attr) (string, error) {
	nc, err := converter{name: "x"}.inferType(a)
	return nc.String(), err
}
