package cdl

import (
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// parseDims parses "= 5, y = UNLIMITED" after the name of the first dimension.
func (p *parser) parseDims(g *Group, name token) error {
	for {
		if name.kind != tokIdent {
			return p.fail(name.pos, "%q is not a valid name of a dimension", name.text)
		}
		d := &Dim{Pos: name.pos, Name: name.text}
		if !p.declare(g, 'd', name.text, d) {
			return p.fail(name.pos, "dimension %q is already declared", name.text)
		}
		if err := p.expect("="); err != nil {
			return err
		}
		v := p.tok.val
		switch {
		case p.tok.kind == tokIdent && (p.tok.text == "UNLIMITED" || p.tok.text == "unlimited"):
			d.Unlimited = true
		case p.tok.kind != tokValue || v.Kind != Number && v.Kind != Hex || isFloat(v.Type):
			return p.unexpected("length or UNLIMITED")
		case int64(v.Bits) < 0:
			return p.fail(p.tok.pos, "length %s of dimension %q is out of range", v.text(), d.Name)
		default:
			d.Len = int64(v.Bits)
		}
		if err := p.advance(); err != nil {
			return err
		}
		g.Dims = append(g.Dims, d)
		more, err := p.accept(",")
		if !more || err != nil {
			return err
		}
		if name, err = p.ident("name of a dimension"); err != nil {
			return err
		}
	}
}

// parseTyped parses the declaration after a type. The declaration is a list of variables
// or an attribute of a variable.
func (p *parser) parseTyped(g *Group, section string, typ token) error {
	nc, enum, known := p.lookupType(typ)
	if !known {
		return p.fail(typ.pos, "%q is not a type", typ.text)
	}
	if p.tok.kind == tokSection { // "int data:att": a variable with the name of a section
		name := p.tok
		if p.findVar(g, name.text) == nil {
			return p.unexpected("name of a variable")
		}
		return p.fail(name.pos, `an attribute of %q must be written "%s :name"`, name.text, name.text)
	}
	name := p.tok
	if err := p.advance(); err != nil {
		return err
	}
	if p.is(":") {
		v, err := p.variable(g, name)
		if err != nil {
			return err
		}
		return p.parseAttr(v, &v.Attrs, nc, enum)
	}
	if section != "variables" || name.kind == tokPath {
		return p.unexpected(`":"`)
	}
	return p.parseVars(g, nc, enum, name)
}

// parseVars parses variables of type nc, starting after the name of the first.
func (p *parser) parseVars(g *Group, nc dtype.NC, enum *Enum, name token) error {
	for {
		if err := p.count(&p.nodes, maxNodes, "variables and groups"); err != nil {
			return err
		}
		v := &Var{Pos: name.pos, Name: name.text, Type: nc, Enum: enum}
		if !p.declare(g, 'v', name.text, v) {
			return p.fail(name.pos, "variable %q is already declared", name.text)
		}
		if err := p.parseShape(v); err != nil {
			return err
		}
		g.Vars = append(g.Vars, v)
		more, err := p.accept(",")
		if !more || err != nil {
			return err
		}
		if name, err = p.ident("name of a variable"); err != nil {
			return err
		}
	}
}

// parseShape parses the dimensions in parentheses. A scalar has no parentheses.
func (p *parser) parseShape(v *Var) error {
	open, err := p.accept("(")
	if !open || err != nil {
		return err
	}
	for {
		if p.tok.kind != tokIdent && p.tok.kind != tokPath {
			return p.unexpected("name of a dimension")
		}
		if len(v.Dims) == maxRank {
			return fail(ncerr.ErrLimit, p.name, p.tok.pos, "variable %[2]q has more than the limit of %[1]d dimensions", maxRank, shorten(v.Name))
		}
		if err := p.count(&p.kept, maxNames, "names"); err != nil {
			return err
		}
		v.Dims = append(v.Dims, DimRef{Pos: p.tok.pos, Path: p.tok.text})
		if err := p.advance(); err != nil {
			return err
		}
		if more, err := p.accept(","); err != nil {
			return err
		} else if !more {
			return p.expect(")")
		}
	}
}
