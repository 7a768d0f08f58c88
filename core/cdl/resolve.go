package cdl

import (
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// refuseType makes the error for a type declaration that begins with first.
func (p *parser) refuseType(first token) error {
	name := first
	switch {
	case first.text == "compound" || first.text == "struct" || first.text == "structure":
		name = p.tok // compound NAME {
	case first.text == "opaque" || p.is("("):
		for range 3 { // opaque(5) NAME, int(*) NAME
			if err := p.advance(); err != nil {
				return err
			}
		}
		name = p.tok
	case p.tok.kind == tokIdent && p.tok.text == "enum":
		if err := p.advance(); err != nil { // byte enum NAME {
			return err
		}
		name = p.tok
	default:
		return p.unexpected("type declaration")
	}
	if name.kind != tokIdent {
		return p.unexpected("name of a type")
	}
	return fail(ncerr.ErrUnsupported, p.name, name.pos, "type %q is user-defined: NCZarr cannot hold it", name.text)
}

// group walks an absolute path up to its last segment: the group and the
// last name; nil when a group is not there.
func (p *parser) group(path string) (*Group, string) {
	at := p.file.Root
	segs := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for _, seg := range segs[:len(segs)-1] {
		if at = at.findGroup(seg); at == nil {
			return nil, ""
		}
	}
	return at, segs[len(segs)-1]
}

// resolveDims finds the dimension of every reference below g: a bare name is
// searched in the variable's group and then upward.
func (p *parser) resolveDims(g *Group, above []*Group) error {
	scope := append(above[:len(above):len(above)], g)
	for _, v := range g.Vars {
		for i := range v.Dims {
			ref := &v.Dims[i]
			if ref.Dim = p.dim(ref.Path, scope); ref.Dim == nil {
				return p.fail(ref.Pos, "there is no dimension %q", ref.Path)
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
			return g.findDim(name)
		}
		return nil
	}
	for i := len(scope) - 1; i >= 0; i-- {
		if d := scope[i].findDim(path); d != nil {
			return d
		}
	}
	return nil
}
