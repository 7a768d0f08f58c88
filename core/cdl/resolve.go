package cdl

import (
	"slices"
	"strings"
)

// symbol is a name of one kind in its owner, a *Group or a *Var.
type symbol struct {
	owner any
	kind  byte // 'd', 'v', 'g', 't' or 'a'
	name  string
}

// declare records a name; false when the owner has it already.
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

// variable finds the variable a name or absolute path means.
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
	return nil, p.fail(name.pos, "there is no variable %q", shorten(name.text))
}

// group walks an absolute path up to its last segment: the group and the
// last name; nil when a group is not there.
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

// resolveDims finds the dimension of every reference below g: a bare name is
// searched in the variable's group and then upward.
func (p *parser) resolveDims(g *Group, above []*Group) error {
	scope := append(slices.Clone(above), g)
	for _, v := range g.Vars {
		for i := range v.Dims {
			ref := &v.Dims[i]
			if ref.Dim = p.dim(ref.Path, scope); ref.Dim == nil {
				return p.fail(ref.Pos, "there is no dimension %q", shorten(ref.Path))
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
