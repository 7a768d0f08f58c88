package nczarr

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Attr is an attribute: text, or a list of numbers or strings.
//
//	units := v.Attr("units").String()
//	scale, err := v.Attr("scale_factor").Or(1.0).Float64()
type Attr struct {
	Name string
	// Value is a string for text of type char, []string for strings, and a slice of
	// the number type, []int8 to []float64, for numbers. The caller must not change it.
	// Functions that write attributes also accept a single number of those types, and an
	// int or []int, which are stored as int64. Value is nil if the attribute does not
	// exist.
	Value any
}

// Exists reports whether the attribute exists.
func (a Attr) Exists() bool { return a.Value != nil }

// Or returns a if it exists, and otherwise an attribute with the given value.
func (a Attr) Or(value any) Attr {
	if a.Exists() {
		return a
	}
	return Attr{Name: a.Name, Value: value}
}

// Len returns the number of values: 1 for text, 0 if the attribute does not exist.
func (a Attr) Len() int {
	slice, _ := sliceOf(a.Value)
	if _, text := slice.(string); text {
		return 1
	}
	return dtype.Len(slice)
}

// String returns the text without trailing NULs. Several values are joined with ", ".
// It returns "" if the attribute does not exist.
func (a Attr) String() string {
	slice, _ := sliceOf(a.Value)
	switch v := slice.(type) {
	case nil:
		return ""
	case string:
		return strings.TrimRight(v, "\x00")
	case []string:
		return strings.Join(v, ", ")
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(slice), "[]"), " ", ", ")
}

// Strings returns a new slice with the strings, or with the text as its only element.
// Errors: [ErrNoAttr], and [ErrBadType] for numbers.
func (a Attr) Strings() ([]string, error) {
	switch v := a.Value.(type) {
	case nil:
		return nil, ncerr.New(ErrNoAttr, "read attribute", a.Name, nil)
	case string:
		return []string{a.String()}, nil
	case []string:
		return slices.Clone(v), nil
	}
	return nil, ncerr.Errorf(ErrBadType, "read attribute", a.Name, "the value is a number, not text")
}

// Float64s returns the numbers in a new slice. Errors: [ErrNoAttr], and [ErrBadType]
// for text.
func (a Attr) Float64s() ([]float64, error) { return numbers[float64](a) }

// Int64s returns the numbers in a new slice. Errors: [ErrNoAttr], [ErrBadType] for
// text, and [ErrConvert] for a number that is not an integer or does not fit in an int64.
func (a Attr) Int64s() ([]int64, error) {
	if a.Exists() {
		if slice, ok := sliceOf(a.Value); ok {
			if _, _, number := dtype.View(slice); number {
				if out, ok := exact(slice, Int64); ok {
					return out.([]int64), nil //nolint:forcetypeassert // exact returns the Go type of Int64
				}
				return nil, ncerr.Errorf(ErrConvert, "read attribute", a.Name, "%s is not a 64-bit integer", a)
			}
		}
	}
	return numbers[int64](a)
}

// Float64 returns the value of an attribute that holds one number. Errors: those of
// [Attr.Float64s], and [ErrInvalid] if the number of values is not one.
func (a Attr) Float64() (float64, error) { return only(a, a.Float64s) }

// Int64 returns the value of an attribute that holds one integer. Errors: those of
// [Attr.Int64s], and [ErrInvalid] if the number of values is not one.
func (a Attr) Int64() (int64, error) { return only(a, a.Int64s) }

func numbers[T int64 | float64](a Attr) ([]T, error) {
	slice, ok := sliceOf(a.Value)
	if !a.Exists() {
		return nil, ncerr.New(ErrNoAttr, "read attribute", a.Name, nil)
	}
	raw, t, number := dtype.View(slice)
	if !ok || !number {
		return nil, ncerr.Errorf(ErrBadType, "read attribute", a.Name, "the value is text, not a number")
	}
	out := make([]T, dtype.Len(slice))
	return out, ncerr.Wrap("read attribute", a.Name, dtype.Decode(out, raw, t))
}

func only[T any](a Attr, all func() ([]T, error)) (T, error) {
	var zero T
	list, err := all()
	if err == nil && len(list) != 1 {
		err = ncerr.Errorf(ErrInvalid, "read attribute", a.Name, "the attribute has %d values, not one", len(list))
	}
	if err != nil {
		return zero, err
	}
	return list[0], nil
}

// core converts a to an attribute of core/dataset.
func (a Attr) core() (dataset.Attr, error) {
	slice, ok := sliceOf(a.Value)
	nc, typed := dtype.TypeOf(slice)
	if _, text := slice.(string); text {
		nc, typed = Char, true
	}
	if !ok || !typed {
		return dataset.Attr{}, ncerr.Errorf(ErrBadType, "set attribute", a.Name, "a value of type %T cannot be stored; use a string, a number or a slice of them", a.Value)
	}
	return dataset.Attr{Name: a.Name, Type: nc, Value: cloned(slice)}, nil
}

// cloned returns a copy of a slice. It returns text unchanged.
func cloned(slice any) any {
	v := reflect.ValueOf(slice)
	if v.Kind() != reflect.Slice {
		return slice
	}
	return reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v).Interface()
}

// sliceOf returns a slice of length 1 for a number, and text and slices unchanged. It
// returns false if an attribute cannot have a value of that type.
func sliceOf(value any) (any, bool) {
	switch v := value.(type) {
	case int:
		return []int64{int64(v)}, true
	case []int:
		out := make([]int64, len(v))
		for i, x := range v {
			out[i] = int64(x)
		}
		return out, true
	case int8:
		return []int8{v}, true
	case uint8:
		return []uint8{v}, true
	case int16:
		return []int16{v}, true
	case uint16:
		return []uint16{v}, true
	case int32:
		return []int32{v}, true
	case uint32:
		return []uint32{v}, true
	case int64:
		return []int64{v}, true
	case uint64:
		return []uint64{v}, true
	case float32:
		return []float32{v}, true
	case float64:
		return []float64{v}, true
	case string:
		return v, true
	}
	_, ok := dtype.TypeOf(value)
	return value, ok
}

// first returns the first value of a slice. It returns text unchanged.
func first(slice any) any {
	switch v := slice.(type) {
	case []int8:
		return v[0]
	case []uint8:
		return v[0]
	case []int16:
		return v[0]
	case []uint16:
		return v[0]
	case []int32:
		return v[0]
	case []uint32:
		return v[0]
	case []int64:
		return v[0]
	case []uint64:
		return v[0]
	case []float32:
		return v[0]
	case []float64:
		return v[0]
	case []string:
		return v[0]
	}
	return slice
}

// owner is a group or variable of core/dataset.
type owner interface {
	Attr(name string) (dataset.Attr, error)
	SetAttr(a dataset.Attr) error
}

func attrOf(name string, o owner) Attr {
	a, err := o.Attr(name)
	if err != nil {
		return Attr{Name: name}
	}
	return Attr{Name: a.Name, Value: a.Value}
}

func attrs(list []dataset.Attr) []Attr {
	var out []Attr
	for _, a := range list {
		out = append(out, Attr{Name: a.Name, Value: a.Value})
	}
	return out
}

func setAttr(name string, value any, o owner) error {
	a, err := Attr{Name: name, Value: value}.core()
	if err != nil {
		return err
	}
	return o.SetAttr(a)
}
