package cdl

import (
	"slices"
	"strings"
)

// symbol identifies a declaration by owner (a *Group or a *Var), kind and name.
type symbol struct {
	owner any
	kind  byte // 'd', 'v', 'g', 't' or 'a'
	name  string
}

// declare records a declaration. It returns false if the owner already has a declaration
// of that kind and name.
func (p *parser) declare(owner any, kind byte, name string, what any) bool {
	key := symbol{owner, kind, name}
	if _, there := p.names[key]; there {
		return false
	}
	p.names[key] = what
	return true
}

func (p *parser) findVar(g *Group, name string) *Var {
	v, _ := p.names[symbol{g, 'v', name}].(*Var)
	return v
}

func (p *parser) findDim(g *Group, name string) *Dim {
	d, _ := p.names[symbol{g, 'd', name}].(*Dim)
	return d
}

func (p *parser) findGroup(g *Group, name string) *Group {
	sub, _ := p.names[symbol{g, 'g', name}].(*Group)
	return sub
}

// variable returns the variable whose name in g, or whose absolute path, is name.
func (p *parser) variable(g *Group, name token) (*Var, error) {
	at, base := g, name.text
	if name.kind == tokPath {
		at, base = p.group(name.text)
	}
	if at != nil {
		if v := p.findVar(at, base); v != nil {
			return v, nil
		}
	}
	return nil, p.fail(name.pos, "variable %q does not exist", shorten(name.text))
}

// group follows an absolute path except for its last element. It returns the group and
// the last element. The group is nil if it does not exist.
func (p *parser) group(path string) (*Group, string) {
	at := p.file.Root
	segs := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for _, seg := range segs[:len(segs)-1] {
		if at = p.findGroup(at, seg); at == nil {
			return nil, ""
		}
	}
	return at, segs[len(segs)-1]
}

// resolveDims resolves the dimension references in g and its subgroups. A name without
// a slash is looked up in the group of the variable and then in the groups above.
func (p *parser) resolveDims(g *Group, above []*Group) error {
	scope := append(slices.Clone(above), g)
	for _, v := range g.Vars {
		for i := range v.Dims {
			ref := &v.Dims[i]
			if ref.Dim = p.dim(ref.Path, scope); ref.Dim == nil {
				return p.fail(ref.Pos, "dimension %q does not exist", shorten(ref.Path))
			}
		}
	}
	for _, sub := range g.Groups {
		if err := p.resolveDims(sub, scope); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) dim(path string, scope []*Group) *Dim {
	if strings.HasPrefix(path, "/") {
		if g, name := p.group(path); g != nil {
			return p.findDim(g, name)
		}
		return nil
	}
	for i := len(scope) - 1; i >= 0; i-- {
		if d := p.findDim(scope[i], path); d != nil {
			return d
		}
	}
	return nil
}
