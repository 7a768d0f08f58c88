package cdl

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// parseData parses "name = values ;".
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
		return p.fail(name.pos, "variable %q already has data", name.text)
	}
	if err := p.advance(); err != nil {
		return err
	}
	if !p.is("=") {
		return p.unexpected(`"="`)
	}
	v.HasData, v.DataPos = true, name.pos
	v.data = extent{pos: p.lex.pos, offset: p.lex.offset()}
	p.enum = v.Enum
	if err := p.advance(); err != nil {
		return err
	}
	if err := p.scanValues(&v.data, 0); err != nil {
		return err
	}
	return p.expect(";")
}

// scanValues skips the values of a variable. It records their number and the length of
// the longest string in s.
func (p *parser) scanValues(s *extent, depth int) error {
	if err := p.checkDepth(depth); err != nil || p.is(";") || p.is("}") {
		return err
	}
	for {
		if p.is("{") {
			err := p.advance()
			if err == nil {
				err = p.scanValues(s, depth+1)
			}
			if err == nil {
				err = p.expect("}")
			}
			if err != nil {
				return err
			}
		} else {
			s.longest = max(s.longest, len(p.tok.val.Text))
			s.count++
			if done, more, err := p.skipPlain(); done {
				if more && err == nil {
					continue
				}
				return err
			}
			if _, err := p.parseValue(depth); err != nil {
				return err
			}
		}
		if more, err := p.accept(","); !more || err != nil {
			return err
		}
	}
}

// skipPlain consumes a constant and a comma after it. If the current token is not a
// constant, skipPlain consumes nothing and done is false. more reports whether a comma
// followed the constant.
func (p *parser) skipPlain() (done, more bool, err error) {
	if p.tok.kind != tokValue {
		return false, false, nil
	}
	comma, number := p.lex.nextPlain(&p.tok)
	if number {
		return true, true, nil
	}
	if err := p.advance(); err != nil || comma {
		return true, comma, err
	}
	more, err = p.accept(",")
	return true, more, err
}

func (p *parser) checkDepth(depth int) error {
	if depth > maxListDepth {
		return fail(ncerr.ErrLimit, p.name, p.tok.pos, "lists are nested deeper than the limit of %d levels", maxListDepth)
	}
	return nil
}

// Values returns the values of v, a variable of f, in the data section. It returns nil
// if the data section does not contain v. Each value uses up to 100 bytes of memory.
// The errors are the same as for [Parse].
func (f *File) Values(v *Var) ([]Value, error) {
	if !v.HasData {
		return nil, nil
	}
	p, err := f.reread(v)
	if err != nil {
		return nil, err
	}
	return p.parseValues(0)
}

// reread returns a parser positioned at the values of v.
func (f *File) reread(v *Var) (*parser, error) {
	p := &parser{lex: newLexer(f.src, v.data.offset, v.data.pos, f.Name), name: f.Name, enum: v.Enum}
	return p, p.advance()
}

// parseValues parses a possibly empty list of constants separated by commas.
func (p *parser) parseValues(depth int) ([]Value, error) {
	values := []Value{}
	if err := p.checkDepth(depth); err != nil {
		return nil, err
	}
	if p.is(";") || p.is("}") {
		return values, nil
	}
	for {
		if p.file != nil { // the limit does not apply to values of variables
			if err := p.count(&p.values, maxAttrValues, "values of attributes"); err != nil {
				return nil, err
			}
		}
		v, err := p.parseValue(depth)
		if err != nil {
			return nil, err
		}
		if len(values) == cap(values) { // this copies large lists less often than append
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
		special, ok := p.enum.constant(tok.text)
		if !ok {
			special, ok = specialFloat(tok.text)
		}
		switch {
		case !ok && p.enum != nil:
			return val, p.fail(tok.pos, "%q is not a member of type %q", tok.text, p.enum.Name)
		case !ok:
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
