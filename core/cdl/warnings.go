package cdl

import "fmt"

// Warnings returns one line for each NIL in an attribute. [Build] stores an empty string
// in its place, because Zarr attributes cannot represent absent strings.
func (f *File) Warnings() []string {
	var list []string
	check := func(attrs []*Attr) {
		for _, a := range attrs {
			for _, v := range a.Values {
				if v.Kind == Nil {
					list = append(list, fmt.Sprintf("%s:%d:%d: attribute %q: NIL is stored as \"\", because attributes cannot represent absent strings", f.Name, v.Pos.Line, v.Pos.Col, a.Name))
				}
			}
		}
	}
	var walk func(g *Group)
	walk = func(g *Group) {
		check(g.Attrs)
		for _, v := range g.Vars {
			check(v.Attrs)
		}
		for _, sub := range g.Groups {
			walk(sub)
		}
	}
	walk(f.Root)
	return list
}
