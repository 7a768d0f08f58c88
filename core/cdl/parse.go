package cdl

import (
	"bytes"
	"io"
	"math"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Limits on the nesting of a CDL file and on the parts that Parse keeps in memory. Parse
// does not keep the values of variables. maxRank is the maximum rank of arrays in nczarr.
const (
	maxGroupDepth = 256
	maxListDepth  = 64
	maxNames      = 1 << 20 // dimensions, variables, attributes, groups, types and their members, references
	maxNodes      = 1 << 17 // variables and groups
	maxAttrs      = 1 << 14 // attributes of one variable or group
	maxAttrValues = 1 << 22 // values of all attributes
	maxRank       = 64
)

// typeNames are the type keywords.
var typeNames = map[string]dtype.NC{
	"char": dtype.NCChar, "byte": dtype.NCByte, "ubyte": dtype.NCUByte,
	"short": dtype.NCShort, "ushort": dtype.NCUShort,
	"int": dtype.NCInt, "long": dtype.NCInt, "integer": dtype.NCInt,
	"uint": dtype.NCUInt, "ulong": dtype.NCUInt, "uinteger": dtype.NCUInt,
	"int64": dtype.NCInt64, "uint64": dtype.NCUInt64,
	"float": dtype.NCFloat, "real": dtype.NCFloat, "double": dtype.NCDouble,
	"string": dtype.NCString,
}

// ParseOptions configure Parse.
type ParseOptions struct {
	// MapTypes accepts enums. A variable of an enum type becomes a variable of the base
	// type with the attributes flag_values and flag_meanings, which define the members.
	// Other user-defined types are still errors.
	MapTypes bool
}

// Parse parses CDL. name identifies the input in errors, whose key is "name:line:column".
// opts may be nil.
//
// Parse does not keep the values of variables, to limit memory. [Build] and [File.Values]
// read the values again. If r is an io.ReaderAt and an io.Seeker, Parse reads from the
// current position of r, and the content must not change until the values are read.
// Otherwise the whole input is kept in memory.
//
// The error is of kind ncerr.ErrInvalid for input that is not valid CDL,
// ncerr.ErrUnsupported for a user-defined type, and ncerr.ErrLimit for excessive nesting
// or size. Errors from r are wrapped.
//
// Source: the netCDF CDL manual; netcdf-c ncgen.
func Parse(r io.Reader, name string, opts *ParseOptions) (*File, error) {
	src, err := source(r)
	if err != nil {
		return nil, ncerr.Wrap("read cdl", name, err)
	}
	p := &parser{lex: newLexer(src, 0, Pos{1, 1}, name), name: name, file: &File{Name: name, src: src}, names: map[symbol]any{}, enums: map[string]*Enum{}}
	p.mapTypes = opts != nil && opts.MapTypes
	if err := p.parseFile(); err != nil {
		return nil, err
	}
	if err := p.resolveDims(p.file.Root, nil); err != nil {
		return nil, err
	}
	return p.file, nil
}

// source returns a ReaderAt for the content of r, so that the content can be read twice.
func source(r io.Reader) (io.ReaderAt, error) {
	at, ok := r.(io.ReaderAt)
	if seeker, can := r.(io.Seeker); ok && can {
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			return io.NewSectionReader(at, start, math.MaxInt64-start), nil
		}
	}
	text, err := io.ReadAll(r)
	return bytes.NewReader(text), err
}

// parser is a recursive-descent parser with one token of lookahead in tok.
type parser struct {
	lex  *lexer
	name string
	file *File
	tok  token
	// names maps symbols to declarations, so that parsing takes linear time.
	names map[symbol]any
	enums map[string]*Enum // the first enum of each name

	kept, nodes, values int // number of names, of variables and groups, and of attribute values so far

	mapTypes bool
	scope    []*Group // the current group and its ancestors, outermost first
	enum     *Enum    // the type of the values being parsed, or nil
}

func (p *parser) advance() error {
	tok, err := p.lex.next()
	p.tok = tok
	return err
}

func (p *parser) fail(pos Pos, format string, args ...any) error {
	return fail(ncerr.ErrInvalid, p.name, pos, format, args...)
}

// unexpected returns an error for a token other than want.
func (p *parser) unexpected(want string) error {
	found := p.tok.text
	if found == "" && p.tok.kind == tokValue {
		found = p.tok.val.text()
	}
	switch {
	case p.tok.kind == tokSection:
		found = strconv.Quote(found + ":")
	case p.tok.kind != tokEOF && !(p.tok.kind == tokValue && p.tok.val.Kind != Number && p.tok.val.Kind != Hex):
		found = strconv.Quote(shorten(found))
	}
	return p.fail(p.tok.pos, "expected %s, found %s", want, found)
}

func (p *parser) is(punct string) bool { return p.tok.kind == tokPunct && p.tok.text == punct }

// expect consumes the punctuation mark punct, or fails.
func (p *parser) expect(punct string) error {
	if !p.is(punct) {
		return p.unexpected(strconv.Quote(punct))
	}
	return p.advance()
}

// accept consumes the punctuation mark punct if it is next.
func (p *parser) accept(punct string) (bool, error) {
	if !p.is(punct) {
		return false, nil
	}
	return true, p.advance()
}

// ident consumes a name. what describes the name in errors.
func (p *parser) ident(what string) (token, error) {
	tok := p.tok
	if tok.kind != tokIdent {
		return tok, p.unexpected(what)
	}
	if err := p.count(&p.kept, maxNames, "names"); err != nil {
		return tok, err
	}
	return tok, p.advance()
}

// count increments *n and fails if *n then exceeds limit. what is a plural noun for the
// error.
func (p *parser) count(n *int, limit int, what string) error {
	if *n++; *n > limit {
		return fail(ncerr.ErrLimit, p.name, p.tok.pos, "the file has more than the limit of %d %s", limit, what)
	}
	return nil
}

func (p *parser) parseFile() error {
	p.lex.skipMark()
	if err := p.advance(); err != nil {
		return err
	}
	if p.tok.kind != tokIdent || p.tok.text != "netcdf" && p.tok.text != "NETCDF" && p.tok.text != "netCDF" {
		return p.unexpected(`"netcdf"`)
	}
	var err error
	if p.file.Dataset, err = p.lex.datasetName(); err != nil {
		return err
	}
	if err := p.advance(); err != nil {
		return err
	}
	p.file.Root = &Group{Pos: p.tok.pos}
	if err := p.parseGroup(p.file.Root, 0); err != nil {
		return err
	}
	if p.tok.kind != tokEOF {
		return p.unexpected("end of file")
	}
	return nil
}

// sectionOrder is the order of the sections in a group; 0 is the start of the group,
// before any section.
var sectionOrder = map[string]int{"types": 1, "dimensions": 2, "variables": 3, "data": 4, "group": 5}

// parseGroup parses a group from its opening to its closing brace.
func (p *parser) parseGroup(g *Group, depth int) error {
	if depth > maxGroupDepth {
		return fail(ncerr.ErrLimit, p.name, p.tok.pos, "groups are nested deeper than the limit of %d levels", maxGroupDepth)
	}
	if err := p.expect("{"); err != nil {
		return err
	}
	p.scope = append(p.scope, g)
	defer func() { p.scope = p.scope[:len(p.scope)-1] }()
	section := ""
	for {
		done, err := p.accept("}")
		if done || err != nil {
			return err
		}
		if p.tok.kind == tokSection {
			section, err = p.parseSection(g, section, depth)
		} else {
			err = p.parseStatement(g, section)
		}
		if err != nil {
			return err
		}
	}
}

// parseSection parses a section keyword. If the keyword is group:, it also parses the
// whole group.
func (p *parser) parseSection(g *Group, before string, depth int) (string, error) {
	tok := p.tok
	if sectionOrder[tok.text] < sectionOrder[before] || tok.text == before && tok.text != "group" {
		return "", p.fail(tok.pos, `"%s:" cannot come after "%s:"`, tok.text, before)
	}
	if err := p.advance(); err != nil || tok.text != "group" {
		return tok.text, err
	}
	name, err := p.ident("name of a group")
	if err != nil {
		return "", err
	}
	if err := p.count(&p.nodes, maxNodes, "variables and groups"); err != nil {
		return "", err
	}
	sub := &Group{Pos: name.pos, Name: name.text}
	if !p.declare(g, 'g', name.text, sub) {
		return "", p.fail(name.pos, "group %q is already declared", name.text)
	}
	g.Groups = append(g.Groups, sub)
	return tok.text, p.parseGroup(sub, depth+1)
}

// parseStatement parses one declaration with its semicolon.
func (p *parser) parseStatement(g *Group, section string) error {
	if section == "data" {
		return p.parseData(g)
	}
	if p.is(":") {
		if err := p.parseAttr(g, &g.Attrs, dtype.NCNone, nil); err != nil {
			return err
		}
		return p.expect(";")
	}
	first := p.tok
	if first.kind != tokIdent && first.kind != tokPath {
		return p.unexpected(statementIn(section))
	}
	if err := p.count(&p.kept, maxNames, "names"); err != nil {
		return err
	}
	if err := p.advance(); err != nil {
		return err
	}
	var err error
	switch {
	case section == "dimensions" && p.is("="):
		err = p.parseDims(g, first)
	case p.is(":"):
		err = p.parseOwnedAttr(g, first)
	case section == "types":
		return p.parseType(g, first)
	case p.tok.kind == tokIdent || p.tok.kind == tokPath || p.tok.kind == tokSection && section == "variables":
		err = p.parseTyped(g, section, first)
	default:
		err = p.unexpected(statementIn(section))
	}
	if err != nil {
		return err
	}
	return p.expect(";")
}

func statementIn(section string) string {
	switch section {
	case "types":
		return "type declaration, attribute or section"
	case "dimensions":
		return "dimension, attribute or section"
	case "variables":
		return "variable, attribute or section"
	case "group":
		return `group, attribute or "}"`
	}
	return "section or attribute"
}

// parseOwnedAttr parses an attribute whose first word is a type or a variable.
func (p *parser) parseOwnedAttr(g *Group, owner token) error {
	if owner.kind == tokPath || p.findVar(g, owner.text) == nil {
		if nc, enum, ok := p.lookupType(owner); ok {
			return p.parseAttr(g, &g.Attrs, nc, enum)
		}
	}
	v, err := p.variable(g, owner)
	if err != nil {
		return err
	}
	return p.parseAttr(v, &v.Attrs, dtype.NCNone, nil)
}

// parseAttr parses ":name = values" and appends it to the list of its owner.
func (p *parser) parseAttr(owner any, list *[]*Attr, nc dtype.NC, enum *Enum) error {
	if err := p.expect(":"); err != nil {
		return err
	}
	name, err := p.ident("name of an attribute")
	if err != nil {
		return err
	}
	if !p.declare(owner, 'a', name.text, nil) {
		return p.fail(name.pos, "attribute %q is already declared", name.text)
	}
	if len(*list) == maxAttrs {
		return fail(ncerr.ErrLimit, p.name, name.pos, "the variable or group has more than the limit of %d attributes", maxAttrs)
	}
	if err := p.expect("="); err != nil {
		return err
	}
	a := &Attr{Pos: name.pos, Name: name.text, Type: nc, Enum: enum}
	if v, ok := owner.(*Var); ok && nc == dtype.NCNone {
		enum = v.Enum
	} else if enum != nil && (!ok || v.Enum != enum) {
		return fail(ncerr.ErrUnsupported, p.name, name.pos, "attribute %q has type %q, which only attributes of variables of that type can have", name.text, enum.Name)
	}
	p.enum = enum
	if a.Values, err = p.parseValues(0); err != nil {
		return err
	}
	*list = append(*list, a)
	return nil
}
