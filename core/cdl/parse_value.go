package cdl

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// parseData reads "name = values ;".
func (p *parser) parseData(g *Group) error {
	name := p.tok
	if name.kind != tokIdent && name.kind != tokPath {
		return p.unexpected("name of a variable")
	}
	v, err := p.variable(g, name)
	if err != nil {
		return err
	}
	if v.HasData {
		return p.fail(name.pos, "variable %q has data already", name.text)
	}
	if err := p.advance(); err != nil {
		return err
	}
	if err := p.expect("="); err != nil {
		return err
	}
	v.HasData, v.DataPos = true, name.pos
	if v.Data, err = p.parseValues(0); err != nil {
		return err
	}
	return p.expect(";")
}

// parseValues reads constants separated by commas, perhaps none.
func (p *parser) parseValues(depth int) ([]Value, error) {
	if depth > maxListDepth {
		return nil, fail(ncerr.ErrLimit, p.name, p.tok.pos, "lists nested more than %d deep", maxListDepth)
	}
	values := []Value{}
	if p.is(";") || p.is("}") {
		return values, nil
	}
	for {
		v, err := p.parseValue(depth)
		if err != nil {
			return nil, err
		}
		if len(values) == cap(values) { // long lists: fewer copies than append makes
			values = slices.Grow(values, max(4, len(values)))
		}
		values = append(values, v)
		if more, err := p.accept(","); !more || err != nil {
			return values, err
		}
	}
}

func (p *parser) parseValue(depth int) (Value, error) {
	tok := p.tok
	val := Value{Pos: tok.pos}
	switch {
	case tok.kind == tokValue:
		val = tok.val
	case p.is("{"):
		return p.parseList(depth)
	case tok.kind == tokIdent && tok.text == "_":
		val.Kind = Fill
	case tok.kind == tokIdent && (tok.text == "NIL" || tok.text == "nil" || tok.text == "Nil"):
		val.Kind = Nil
	case tok.kind == tokIdent:
		special, ok := specialFloat(tok.text)
		if !ok {
			return val, p.unexpected("value")
		}
		special.Pos = tok.pos
		val = special
	default:
		return val, p.unexpected("value")
	}
	return val, p.advance()
}

func (p *parser) parseList(depth int) (Value, error) {
	val := Value{Pos: p.tok.pos, Kind: List}
	if err := p.advance(); err != nil {
		return val, err
	}
	sub, err := p.parseValues(depth + 1)
	if err != nil {
		return val, err
	}
	val.Sub = &sub
	return val, p.expect("}")
}
