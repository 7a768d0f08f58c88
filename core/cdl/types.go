package cdl

import (
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// parseType parses a declaration of the types section after its first word, including
// the semicolon.
//
// Source: the grammar of netcdf-c ncgen.
func (p *parser) parseType(g *Group, first token) error {
	name := first
	class := "vlen"
	switch {
	case first.text == "compound" || first.text == "struct" || first.text == "structure":
		name, class = p.tok, "compound" // the declaration is "compound NAME {"
	case first.text == "opaque" || p.is("("):
		if first.text == "opaque" {
			class = "opaque"
		}
		for range 3 { // tokens of "opaque(5) NAME" or "int(*) NAME"
			if err := p.advance(); err != nil {
				return err
			}
		}
		name = p.tok
	case p.tok.kind == tokIdent && p.tok.text == "enum":
		return p.parseEnum(g, first)
	default:
		return p.unexpected("type declaration")
	}
	if name.kind != tokIdent {
		return p.unexpected("name of a type")
	}
	if p.mapTypes {
		return fail(ncerr.ErrUnsupported, p.name, name.pos, "type %q is user-defined (%s): NCZarr does not support such types, and no type of NCZarr represents its values without loss", name.text, class)
	}
	return p.refuseType(name)
}

// refuseType returns the error for a type that is not mapped.
func (p *parser) refuseType(name token) error {
	return fail(ncerr.ErrUnsupported, p.name, name.pos, "type %q is user-defined, which NCZarr does not support", name.text)
}

// parseEnum parses "enum NAME { member = 1, ... } ;" after the base type.
func (p *parser) parseEnum(g *Group, base token) error {
	nc, known := typeNames[base.text]
	if !known || nc.Size() == 0 || isFloat(nc) || nc == dtype.NCChar || nc == dtype.NCString || base.kind == tokPath {
		return p.fail(base.pos, "the base type of an enum must be an integer type, not %q", base.text)
	}
	if err := p.advance(); err != nil {
		return err
	}
	name, err := p.ident("name of a type")
	if err != nil {
		return err
	}
	if !p.mapTypes {
		return p.refuseType(name)
	}
	e := &Enum{Pos: name.pos, Name: name.text, Base: nc, at: map[string]int{}}
	if !p.declare(g, 't', name.text, e) {
		return p.fail(name.pos, "type %q is already declared", name.text)
	}
	if p.enums[name.text] == nil {
		p.enums[name.text] = e
	}
	if err := p.expect("{"); err != nil {
		return err
	}
	for more := true; more; {
		if err := p.parseMember(e); err != nil {
			return err
		}
		if more, err = p.accept(","); err != nil {
			return err
		}
	}
	if err := p.expect("}"); err != nil {
		return err
	}
	return p.expect(";")
}

// parseMember parses "name = constant". The name becomes a word of flag_meanings.
func (p *parser) parseMember(e *Enum) error {
	name, err := p.ident("name of a member")
	if err != nil {
		return err
	}
	switch {
	case strings.ContainsAny(name.text, " \t\n\r\v\f"):
		return fail(ncerr.ErrUnsupported, p.name, name.pos, "member %q of type %q contains white space: the name would become two words in flag_meanings", name.text, e.Name)
	case e.find(name.text) != nil:
		return p.fail(name.pos, "member %q is already declared", name.text)
	}
	if err := p.expect("="); err != nil {
		return err
	}
	if p.tok.kind != tokValue {
		return p.unexpected("integer")
	}
	bits, why := bitsOf(p.tok.val, uint(8*e.Base.Size())) // the width is from 8 to 64
	if why != "" {
		return fail(ncerr.ErrConvert, p.name, p.tok.pos, "%s", why)
	}
	width := 64 - 8*e.Base.Size()
	if bits = bits << width >> width; !isUnsigned(e.Base) {
		bits = uint64(int64(bits<<width) >> width) // sign extension; only the bits matter
	}
	e.at[name.text] = len(e.Members)
	e.Members = append(e.Members, Member{name.text, bits})
	return p.advance()
}

func (e *Enum) find(name string) *Member {
	if i, ok := e.at[name]; ok {
		return &e.Members[i]
	}
	return nil
}

// constant returns the value of a member, named as member or type.member. A nil Enum
// has no members.
func (e *Enum) constant(name string) (Value, bool) {
	if e == nil {
		return Value{}, false
	}
	m := e.find(name)
	if m == nil {
		if short, ok := strings.CutPrefix(name, e.Name+"."); ok {
			m = e.find(short)
		}
	}
	if m == nil {
		return Value{}, false
	}
	return Value{Kind: Number, Type: e.Base, Bits: m.Bits}, true
}

// lookupType returns the type with the given name or absolute path: a keyword, or an
// enum of this group, of a group above, or of any other group.
//
// Source: netcdf-c ncgen, which searches the whole tree for types.
func (p *parser) lookupType(name token) (dtype.NC, *Enum, bool) {
	if name.kind == tokPath {
		if g, base := p.group(name.text); g != nil {
			return enumType(p.findType(g, base))
		}
		return 0, nil, false
	}
	if nc, ok := typeNames[name.text]; ok {
		return nc, nil, true
	}
	for i := len(p.scope) - 1; i >= 0; i-- {
		if e := p.findType(p.scope[i], name.text); e != nil {
			return enumType(e)
		}
	}
	return enumType(p.enums[name.text])
}

func enumType(e *Enum) (dtype.NC, *Enum, bool) {
	if e == nil {
		return 0, nil, false
	}
	return e.Base, e, true
}

func (p *parser) findType(g *Group, name string) *Enum {
	e, _ := p.names[symbol{g, 't', name}].(*Enum)
	return e
}

// flags returns the attributes flag_values and flag_meanings for the members of an enum.
//
// Source: CF conventions 1.11, section 3.5, "Flags".
func (e *Enum) flags() (values, meanings *Attr) {
	values = &Attr{Pos: e.Pos, Name: "flag_values", Type: e.Base}
	words := make([]string, 0, len(e.Members))
	for _, m := range e.Members {
		values.Values = append(values.Values, Value{Pos: e.Pos, Kind: Number, Type: e.Base, Bits: m.Bits})
		words = append(words, m.Name)
	}
	text := Value{Pos: e.Pos, Kind: Text, Text: strings.Join(words, " ")}
	return values, &Attr{Pos: e.Pos, Name: "flag_meanings", Type: dtype.NCChar, Values: []Value{text}}
}
