package cdl

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// WriteOptions select what Write prints. The zero value prints everything.
type WriteOptions struct {
	// Name is the name of the dataset in the first line; empty means ds.Name().
	Name string
	// HeaderOnly omits the data (ncdump -h).
	HeaderOnly bool
	// Coords prints only the data of coordinate variables (ncdump -c).
	Coords bool
	// Vars prints only the data of these variables (ncdump -v). A simple name selects
	// that variable in every group. A path is absolute if it begins with a slash;
	// otherwise it may be the end of a path.
	Vars []string
	// Special adds attributes that are not stored (ncdump -s): _Storage, _ChunkSizes,
	// _ChunkGrid, _ShardSizes, _ShardGrid, _Fletcher32, _Shuffle, _DeflateLevel, _Filter,
	// _Codecs, _Endianness and _NoFill, and for the root _NCProperties,
	// _SuperblockVersion, _IsNetcdf4 and _Format.
	Special bool
	// FloatDigits and DoubleDigits are the significant digits of floating-point values
	// (ncdump -p); 0 means 7 and 15, as in ncdump.
	FloatDigits, DoubleDigits int
	// FullPrecision prints more digits if needed to represent a value exactly.
	FullPrecision bool
	// Groups prints only the data of these groups (ncdump -g). A simple name selects
	// every group of that name; a path is absolute. "/" is the root.
	Groups []string
	// Filters prints every filter in _Filter, and omits _Shuffle, _DeflateLevel and
	// _Fletcher32 (ncdump -F). It requires Special.
	Filters bool
	// Times selects how to print the values of variables whose units are "... since
	// ..." and of their bounds. The dates of the attributes of such variables are
	// printed in a comment.
	Times Times
	// LineLength is the maximum number of characters of a line of data (ncdump -l): at
	// least 10; 0 means 80. It does not apply to char data, and values are not split.
	LineLength int
	// Notes adds comments with the indices of values, in the order Index.
	Notes Notes
	Index IndexOrder
	// OnProblem is called for every object that is omitted because it cannot be read.
	// If OnProblem is nil, problems are not reported, but Write still returns the error.
	OnProblem func(dataset.Problem)
}

// MaxSlab is the maximum memory in bytes for the values of a variable that Write and
// Build hold at a time. For a variable in shards, Build holds up to 64 MiB.
const MaxSlab = 4 << 20

// Write prints ds as ncdump does, byte for byte. The exceptions are values that would be
// read back differently: char arrays with line feeds, or with zero bytes if the fill
// value is another byte, and the chunk sizes of scalars. Like ncdump, Write omits zero
// bytes at the end of char data along an unlimited dimension, so the dimension may be
// shorter when the output is read back.
//
// Nodes that could not be opened and variables whose values cannot be read are reported
// to OnProblem and omitted. Write prints everything else and then returns the problems,
// joined by errors.Join. The first problem determines the kind. If reading fails in the
// middle of a large variable, the values already printed have no closing semicolon, so
// that the output is not valid CDL.
//
// The error is of kind ncerr.ErrNoVar for an unknown name in Vars, ncerr.ErrNoGroup for
// an unknown name in Groups and ncerr.ErrInvalid for a LineLength below 10. In these
// cases nothing is printed. Errors from w and the context end the output. ds may be read
// concurrently.
//
// Source: netcdf-c ncdump.
func Write(ctx context.Context, w io.Writer, ds *dataset.Dataset, opts *WriteOptions) error {
	p, err := newPrinter(ctx, w, ds, opts)
	if err != nil {
		return err
	}
	p.w.printf("netcdf %s {\n", escapeName(cmp.Or(p.opts.Name, ds.Name())))
	if err := p.group(ds.Root(), 0); err != nil {
		return err
	}
	p.w.str("}\n")
	if err := p.w.flush(); err != nil {
		return err
	}
	return errors.Join(p.problems...)
}

// newPrinter checks the options and returns a printer for one Write. It reports the nodes
// that could not be opened.
func newPrinter(ctx context.Context, w io.Writer, ds *dataset.Dataset, opts *WriteOptions) (*printer, error) {
	p := &printer{ctx: ctx, ds: ds, w: newSink(ctx, w)}
	if opts != nil {
		p.opts = *opts
	}
	p.f = formatter{digits: [2]int{7, 15}, exact: p.opts.FullPrecision}
	if p.opts.FloatDigits > 0 {
		p.f.digits[0] = p.opts.FloatDigits
	}
	if p.opts.DoubleDigits > 0 {
		p.f.digits[1] = p.opts.DoubleDigits
	}
	if err := p.opts.Check(ds); err != nil {
		return nil, err
	}
	for _, problem := range ds.Problems() {
		p.problem(problem.Path, problem.Err)
	}
	return p, nil
}

// printer is the state of one Write.
type printer struct {
	ctx      context.Context //nolint:containedctx // the context has the lifetime of one Write
	ds       *dataset.Dataset
	w        sink
	opts     WriteOptions
	f        formatter
	problems []error
	buf      []byte
}

func (p *printer) problem(path string, err error) {
	if p.opts.OnProblem != nil {
		p.opts.OnProblem(dataset.Problem{Path: path, Err: err})
	}
	var named *ncerr.Error
	if !errors.As(err, &named) || named.Key != path {
		err = ncerr.New(ncerr.KindOf(err), "dump", path, err)
	}
	p.problems = append(p.problems, err)
}

// group prints the content of a group without its braces.
func (p *printer) group(g *dataset.Group, indent int) error {
	p.dims(g, indent)
	vars := g.Vars()
	if len(vars) > 0 {
		p.w.pad(indent)
		p.w.str("variables:\n")
	}
	for _, v := range vars {
		p.declare(v, indent)
	}
	p.groupAttrs(g, indent)
	if err := p.data(g, vars, indent); err != nil {
		return err
	}
	for _, sub := range g.Groups() {
		name := escapeName(sub.Name())
		p.w.char('\n')
		p.w.pad(indent)
		p.w.printf("group: %s {\n", name)
		if err := p.group(sub, indent+2); err != nil {
			return err
		}
		p.w.pad(indent + 2)
		p.w.printf("} // group %s\n", name)
	}
	return nil
}

func (p *printer) dims(g *dataset.Group, indent int) {
	for i, d := range g.Dims() {
		if i == 0 {
			p.w.pad(indent)
			p.w.str("dimensions:\n")
		}
		p.w.pad(indent)
		if d.Unlimited() {
			p.w.printf("\t%s = UNLIMITED ; // (%d currently)\n", escapeName(d.Name()), d.Len())
		} else {
			p.w.printf("\t%s = %d ;\n", escapeName(d.Name()), d.Len())
		}
	}
}

// declare prints the declaration of a variable and its attributes.
func (p *printer) declare(v *dataset.Var, indent int) {
	p.w.pad(indent)
	p.w.printf("\t%s %s", v.Type(), escapeName(v.Name()))
	for i, d := range v.Dims() {
		sep := ", "
		if i == 0 {
			sep = "("
		}
		p.w.str(sep + dimName(v.Group(), d))
	}
	if v.Rank() > 0 {
		p.w.char(')')
	}
	p.w.str(" ;\n")
	m := p.moments(v)
	for _, a := range v.Attrs() {
		p.attr(v.Name(), a, indent, m)
	}
	if p.opts.Special {
		for _, a := range specialAttrs(v, p.opts.Filters) {
			p.attr(v.Name(), a, indent, nil)
		}
	}
}

// dimName returns the name of d as written in g: the simple name if g.Dim finds d by that
// name, and the path of d otherwise.
func dimName(g *dataset.Group, d *dataset.Dim) string {
	if found, err := g.Dim(d.Name()); err == nil && found == d {
		return escapeName(d.Name())
	}
	segs := strings.Split(d.Path(), "/")
	for i := range segs {
		segs[i] = escapeName(segs[i])
	}
	return strings.Join(segs, "/")
}

func (p *printer) groupAttrs(g *dataset.Group, indent int) {
	attrs := g.Attrs()
	root := g == p.ds.Root()
	if len(attrs) > 0 || p.opts.Special {
		p.w.char('\n')
		p.w.pad(indent)
		if root {
			p.w.str("// global attributes:\n")
		} else {
			p.w.str("// group attributes:\n")
		}
	}
	if root && p.opts.Special {
		attrs = append(slices.Clone(attrs), specialRoot(p.ds)...)
	}
	for _, a := range attrs {
		p.attr("", a, indent, nil)
	}
}

// attr prints one attribute. If m is not nil, numbers are also printed as dates. A string
// attribute is printed with its type, unlike a char attribute.
func (p *printer) attr(owner string, a dataset.Attr, indent int, m *moments) {
	p.w.pad(indent)
	p.w.str("\t\t")
	if a.Type == dtype.NCString {
		p.w.str("string ")
	}
	p.w.str(escapeName(owner))
	switch owner {
	case "variables", "dimensions", "data", "group", "types":
		p.w.char(' ') // without the space the name would be parsed as the start of a section
	}
	p.buf = p.f.appendAttr(p.buf[:0], a.Value)
	p.w.printf(":%s = %s ;", escapeName(a.Name), p.buf)
	if m != nil {
		p.attrMoments(m, a, indent)
	}
	p.w.char('\n')
}
