package cdl

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// WriteOptions choose what is printed. The zero value prints everything.
type WriteOptions struct {
	// Name is the dataset's name in the first line; empty takes ds.Name().
	Name string
	// HeaderOnly leaves out the data (ncdump -h).
	HeaderOnly bool
	// Coords prints the data of coordinate variables only (ncdump -c).
	Coords bool
	// Vars prints the data of these variables only (ncdump -v): simple names,
	// which mean that variable in every group, or paths from the root.
	Vars []string
	// Special adds the attributes that are not stored (ncdump -s): _Storage,
	// _ChunkSizes, _Fletcher32, _Shuffle, _DeflateLevel, _Filter, _Codecs,
	// _Endianness and _NoFill; _NCProperties, _SuperblockVersion, _IsNetcdf4
	// and _Format of the root.
	Special bool
	// FloatDigits and DoubleDigits are the significant digits of
	// floating-point values (ncdump -p); 0 takes ncdump's 7 and 15.
	FloatDigits, DoubleDigits int
	// FullPrecision prints more digits where those do not give the value
	// back, so that nothing is lost.
	FullPrecision bool
	// OnProblem is called for everything that is left out because it cannot
	// be read; nil drops the report, not the error.
	OnProblem func(nczarr.Problem)
}

// MaxSlab is the most memory, in bytes, that Write takes for values of a
// variable at a time, and Build for writing them.
const MaxSlab = 4 << 20

// Write prints ds as ncdump does, byte for byte, except where that text would
// be read back as something else: char arrays with line feeds, or with zero
// bytes where the fill value is another byte, and the chunk sizes of scalars.
// One loss is ncdump's too: zero bytes at the end of text along an unlimited
// dimension are not shown, so that the dimension may come back shorter.
//
// A node that could not be opened, and a variable whose values cannot be
// read, is reported to OnProblem and left out; the rest is printed, and the
// error then has the kind of the first problem (see errors.Join). When
// reading fails in the middle of a large variable, the values so far stand
// without their closing semicolon, so that the text cannot be taken for a
// whole one.
//
// An unknown name in Vars is ncerr.ErrNoVar before anything is printed;
// errors of w and of the context end the printing. Write may run beside other
// readers of ds.
//
// Source: netcdf-c ncdump.
func Write(ctx context.Context, w io.Writer, ds *nczarr.Dataset, opts *WriteOptions) error {
	p := &printer{ctx: ctx, ds: ds, w: newSink(w)}
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
	if err := p.checkVars(); err != nil {
		return err
	}
	for _, problem := range ds.Problems() {
		p.problem(problem.Path, problem.Err)
	}
	name := p.opts.Name
	if name == "" {
		name = ds.Name()
	}
	p.w.printf("netcdf %s {\n", escapeName(name))
	if err := p.group(ds.Root(), 0); err != nil {
		return err
	}
	p.w.str("}\n")
	if err := p.w.flush(); err != nil {
		return err
	}
	return errors.Join(p.problems...)
}

// printer is the state of one Write.
type printer struct {
	ctx      context.Context
	ds       *nczarr.Dataset
	w        sink
	opts     WriteOptions
	f        formatter
	problems []error
	buf      []byte
}

func (p *printer) problem(path string, err error) {
	if p.opts.OnProblem != nil {
		p.opts.OnProblem(nczarr.Problem{Path: path, Err: err})
	}
	var named *ncerr.Error
	if !errors.As(err, &named) || named.Key != path {
		err = ncerr.New(ncerr.KindOf(err), "dump", path, err)
	}
	p.problems = append(p.problems, err)
}

// checkVars refuses names in Vars that no variable has.
func (p *printer) checkVars() error {
	for _, name := range p.opts.Vars {
		if !p.anyVar(p.ds.Root(), name) && !p.lostVar(name) {
			return ncerr.New(ncerr.ErrNoVar, "dump", name, nil)
		}
	}
	return nil
}

func (p *printer) anyVar(g *nczarr.Group, name string) bool {
	if slices.ContainsFunc(g.Vars(), func(v *nczarr.Var) bool { return p.means(name, v) }) {
		return true
	}
	return slices.ContainsFunc(g.Groups(), func(sub *nczarr.Group) bool { return p.anyVar(sub, name) })
}

// lostVar reports whether the name is that of a node that could not be opened.
func (p *printer) lostVar(name string) bool {
	return slices.ContainsFunc(p.ds.Problems(), func(q nczarr.Problem) bool {
		return strings.HasSuffix(q.Path, "/"+strings.TrimPrefix(name, "/"))
	})
}

// means reports whether a name of Vars is v's: a simple name, or its path.
func (p *printer) means(name string, v *nczarr.Var) bool {
	if !strings.Contains(name, "/") {
		return name == v.Name()
	}
	root := strings.TrimSuffix(p.ds.Root().Path(), "/")
	name = "/" + strings.TrimPrefix(name, "/")
	return name == v.Path() || root+name == v.Path()
}

// group prints the content of a group, between its braces.
func (p *printer) group(g *nczarr.Group, indent int) error {
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
	if err := p.data(vars, indent); err != nil {
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

func (p *printer) dims(g *nczarr.Group, indent int) {
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
func (p *printer) declare(v *nczarr.Var, indent int) {
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
	for _, a := range v.Attrs() {
		p.attr(v.Name(), a, indent)
	}
	if p.opts.Special {
		for _, a := range specialAttrs(v) {
			p.attr(v.Name(), a, indent)
		}
	}
}

// dimName gives the name by which d is known in g: its path when a group
// between has a dimension of that name, or when it is not above g.
func dimName(g *nczarr.Group, d *nczarr.Dim) string {
	if found, err := g.Dim(d.Name()); err == nil && found == d {
		return escapeName(d.Name())
	}
	segs := strings.Split(d.Path(), "/")
	for i := range segs {
		segs[i] = escapeName(segs[i])
	}
	return strings.Join(segs, "/")
}

func (p *printer) groupAttrs(g *nczarr.Group, indent int) {
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
		p.attr("", a, indent)
	}
}

// attr prints one attribute. Text needs no type: a string attribute says so.
func (p *printer) attr(owner string, a nczarr.Attr, indent int) {
	p.w.pad(indent)
	p.w.str("\t\t")
	if a.Type == dtype.NCString {
		p.w.str("string ")
	}
	p.w.str(escapeName(owner))
	switch owner {
	case "variables", "dimensions", "data", "group", "types":
		p.w.char(' ') // or it would be read as the beginning of a section
	}
	p.buf = p.f.appendAttr(p.buf[:0], a.Value)
	p.w.printf(":%s = %s ;\n", escapeName(a.Name), p.buf)
}
