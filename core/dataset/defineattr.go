package dataset

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// checkAttr checks an attribute of v.
func (v *Var) checkAttr(a Attr) error {
	if err := checkAttr(a); err != nil {
		return err
	}
	if a.Name != fillAttr {
		return nil
	}
	n := 1
	if s, ok := a.Value.(string); ok {
		n = len(s)
	} else if a.Value != nil {
		n = dtype.Len(a.Value)
	}
	if a.Type != v.nc || n != 1 {
		return ncerr.Errorf(ncerr.ErrBadType, "", "", "_FillValue must be one value of type %s, not %d of type %s", v.nc, n, a.Type)
	}
	return nil
}

// checkAttr checks that the name and value of an attribute can be stored.
func checkAttr(a Attr) error {
	if err := checkAttrName(a.Name); err != nil {
		return err
	}
	if _, ok := a.Value.(string); ok && a.Type == dtype.NCChar {
		return nil
	}
	nc, ok := dtype.TypeOf(a.Value)
	if !ok || nc != a.Type {
		return ncerr.Errorf(ncerr.ErrBadType, "set attribute", a.Name, "the type is %s, but the value is a %T", a.Type, a.Value)
	}
	return nil
}

// SetAttr adds an attribute, or replaces the value of an existing one at the same
// position. Errors: ncerr.ErrNameInUse for a name that the format reserves,
// ncerr.ErrBadType, ncerr.ErrReadOnly.
func (g *Group) SetAttr(a Attr) error {
	if err := g.checkChangeable("set attribute", a.Name); err != nil {
		return err
	}
	if err := checkAttr(a); err != nil {
		return err
	}
	g.ds.mu.Lock()
	defer g.ds.mu.Unlock()
	g.attrs = setAttr(g.attrs, a)
	g.changes.add()
	return nil
}

// DeleteAttr removes an attribute. It fails with ncerr.ErrNoAttr if the attribute does
// not exist.
func (g *Group) DeleteAttr(name string) error {
	if err := g.checkChangeable("delete attribute", name); err != nil {
		return err
	}
	g.ds.mu.Lock()
	defer g.ds.mu.Unlock()
	attrs, err := deleteAttr(g.attrs, name)
	if err == nil {
		g.attrs = attrs
		g.changes.add()
	}
	return err
}

// SetAttr is like [Group.SetAttr]. It fails with ncerr.ErrInvalid for the attribute
// _FillValue, which can only be set when the variable is defined.
//
// Source: netcdf-c NC_ELATEFILL.
func (v *Var) SetAttr(a Attr) error {
	if err := v.checkAlterable("set attribute"); err != nil {
		return err
	}
	ds := v.group.ds
	if err := ds.checkChangeable("set attribute", a.Name); err != nil {
		return err
	}
	if a.Name == fillAttr {
		return ncerr.Errorf(ncerr.ErrInvalid, "set attribute", a.Name, "the fill value can only be set when the variable is defined")
	}
	if err := checkAttr(a); err != nil {
		return err
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	v.attrs = setAttr(v.attrs, a)
	v.changes.add()
	return nil
}

// DeleteAttr removes an attribute. It fails with ncerr.ErrNoAttr if the attribute does
// not exist.
func (v *Var) DeleteAttr(name string) error {
	if err := v.checkAlterable("delete attribute"); err != nil {
		return err
	}
	ds := v.group.ds
	if err := ds.checkChangeable("delete attribute", name); err != nil {
		return err
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	attrs, err := deleteAttr(v.attrs, name)
	if err == nil {
		v.attrs = attrs
		v.changes.add()
	}
	return err
}

// setAttr returns attrs with the attribute a added or replaced. It copies the list,
// because callers may hold the old one.
func setAttr(attrs []Attr, a Attr) []Attr {
	attrs = slices.Clone(attrs)
	for i := range attrs {
		if attrs[i].Name == a.Name {
			attrs[i] = a
			return attrs
		}
	}
	return append(attrs, a)
}

func deleteAttr(attrs []Attr, name string) ([]Attr, error) {
	if _, err := findAttr(attrs, name); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(attrs), func(a Attr) bool { return a.Name == name }), nil
}

// checkAttrName refuses names that are empty, not valid UTF-8 or reserved by the format.
//
// Source: netcdf-c libnczarr, reserved attributes (NC_ENAMEINUSE).
func checkAttrName(name string) error {
	switch {
	case name == "" || !utf8.ValidString(name):
		return ncerr.Errorf(ncerr.ErrBadName, "set attribute", name, "the name is empty or not valid UTF-8")
	case name == maxStrLenAttr || name == defaultMaxStrLenAttr:
		return nil
	case name == "_ARRAY_DIMENSIONS" || name == "_NCProperties" || strings.HasPrefix(strings.ToLower(name), "_nczarr_"):
		return ncerr.Errorf(ncerr.ErrNameInUse, "set attribute", name, "the name is reserved by the format")
	}
	return nil
}

// intAttr returns the value of an attribute with a single integer, or 0.
func intAttr(a Attr) int {
	out := []int64{0}
	raw, t, ok := dtype.View(a.Value)
	if !ok || dtype.Len(a.Value) != 1 || dtype.Decode(out, raw, t) != nil {
		return 0
	}
	return int(out[0])
}
