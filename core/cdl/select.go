package cdl

import (
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// minLine is the shortest LineLength.
const minLine = 10

// Check returns an error if ds does not fit the options: ncerr.ErrNoVar for an unknown
// name in Vars, ncerr.ErrNoGroup for an unknown name in Groups, and ncerr.ErrInvalid for
// a LineLength below 10. Write calls Check itself.
func (o *WriteOptions) Check(ds *dataset.Dataset) error {
	if n := o.LineLength; n != 0 && n < minLine {
		return ncerr.Errorf(ncerr.ErrInvalid, "dump", "", "line length %d is less than the minimum of %d", n, minLine)
	}
	for _, name := range o.Groups {
		if !anyGroup(ds.Root(), name) {
			return ncerr.New(ncerr.ErrNoGroup, "find group", name, nil)
		}
	}
	for _, name := range o.Vars {
		if !anyVar(ds.Root(), name) && !isUnopened(ds, name) {
			return ncerr.UnknownName(ncerr.ErrNoVar, "find variable", name, varNames(nil, ds.Root()))
		}
	}
	return nil
}

// varNames appends the names of the variables in g and its subgroups.
func varNames(names []string, g *dataset.Group) []string {
	for _, v := range g.Vars() {
		names = append(names, v.Name())
	}
	for _, sub := range g.Groups() {
		names = varNames(names, sub)
	}
	return names
}

// Selects reports whether the options select the values of v.
func (o *WriteOptions) Selects(v *dataset.Var) bool {
	if o.HeaderOnly || o.Coords && !isCoord(v) || !o.selectsGroup(v.Group()) {
		return false
	}
	return len(o.Vars) == 0 || slices.ContainsFunc(o.Vars, func(name string) bool { return matchesVar(name, v) })
}

// selectsGroup reports whether the options select data of g.
func (o *WriteOptions) selectsGroup(g *dataset.Group) bool {
	return len(o.Groups) == 0 || slices.ContainsFunc(o.Groups, func(name string) bool { return matchesGroup(name, g) })
}

// lineMax returns the maximum column of values on a line: the line length minus the width
// of the delimiter.
func (o *WriteOptions) lineMax() int {
	if o.LineLength == 0 {
		return 78
	}
	return o.LineLength - 2
}

func anyGroup(g *dataset.Group, name string) bool {
	return matchesGroup(name, g) || slices.ContainsFunc(g.Groups(), func(sub *dataset.Group) bool { return anyGroup(sub, name) })
}

// matchesGroup reports whether a name of Groups refers to g. The name is a simple name
// or the path from the root of the dataset.
//
// Source: netcdf-c ncdump, option -g.
func matchesGroup(name string, g *dataset.Group) bool {
	root := g.Dataset().Root()
	switch {
	case name == "" || name == "/":
		return g == root
	case strings.HasPrefix(name, "/"):
		return pathIn(root, g.Path()) == name
	}
	return g != root && g.Name() == name
}

// pathIn returns a path relative to the root of the dataset, which may be a group of a
// larger dataset.
func pathIn(root *dataset.Group, path string) string {
	return strings.TrimPrefix(path, strings.TrimSuffix(root.Path(), "/"))
}

func anyVar(g *dataset.Group, name string) bool {
	if slices.ContainsFunc(g.Vars(), func(v *dataset.Var) bool { return matchesVar(name, v) }) {
		return true
	}
	return slices.ContainsFunc(g.Groups(), func(sub *dataset.Group) bool { return anyVar(sub, name) })
}

// isUnopened reports whether name refers to a node that could not be opened.
func isUnopened(ds *dataset.Dataset, name string) bool {
	return slices.ContainsFunc(ds.Problems(), func(q dataset.Problem) bool {
		return strings.HasSuffix(q.Path, "/"+strings.TrimPrefix(name, "/"))
	})
}

// matchesVar reports whether a name of Vars refers to v. The name is a simple name, an
// absolute path, or the end of a path.
//
// Source: netcdf-c ncdump, option -v. Unlike ncdump, matchesVar also accepts the absolute
// path of a variable in the root group.
func matchesVar(name string, v *dataset.Var) bool {
	switch {
	case !strings.Contains(name, "/"):
		return name == v.Name()
	case strings.HasPrefix(name, "/"):
		return name == v.Path() || name == pathIn(v.Group().Dataset().Root(), v.Path())
	}
	return strings.HasSuffix(v.Path(), "/"+name)
}

// isCoord reports whether v is a coordinate variable: it has one dimension, and the
// name of a dimension visible in its group.
//
// Source: netcdf-c ncdump, option -c.
func isCoord(v *dataset.Var) bool {
	if v.Rank() != 1 {
		return false
	}
	_, err := v.Group().Dim(v.Name())
	return err == nil
}
