package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// jsonDumper prints a dataset as one JSON object with its groups, dimensions,
// attributes and their types. The values of each variable are one flat array in C
// order. NaN and the infinities are the strings "NaN", "Infinity" and "-Infinity".
// The data of a char variable is one string.
type jsonDumper struct {
	ctx  context.Context //nolint:containedctx // the context has the lifetime of the command
	ds   *dataset.Dataset
	w    *bufio.Writer
	opts *cdl.WriteOptions
	err  error // the first error from reading a part
}

func (a *app) dumpJSON(ctx context.Context, ds *dataset.Dataset, f *dumpFlags, opts *cdl.WriteOptions) error {
	d := &jsonDumper{ctx: ctx, ds: ds, w: bufio.NewWriterSize(a.out, 1<<16), opts: opts}
	for _, p := range ds.Problems() {
		d.problem(p)
	}
	d.raw(`{"name": `)
	d.value(cmp.Or(f.name, ds.Name()))
	d.raw(`, "format": `)
	d.value(ds.Layout().String())
	d.raw(`, `)
	d.group(ds.Root())
	d.raw("}\n")
	if err := d.w.Flush(); err != nil {
		return err
	}
	if d.err != nil {
		return &reportedError{d.err}
	}
	return nil
}

func (d *jsonDumper) problem(p dataset.Problem) {
	if d.err == nil {
		d.err = p.Err
	}
	d.opts.OnProblem(p)
}

// raw writes text unchanged. Flush returns the first error from the writer.
func (d *jsonDumper) raw(text string) { _, _ = d.w.WriteString(text) }

// writeErr returns the first error from the writer.
func (d *jsonDumper) writeErr() error {
	_, err := d.w.Write(nil)
	return err
}

func (d *jsonDumper) value(v any) {
	b, err := json.Marshal(v)
	if err != nil { // v contains only strings and integers
		panic(err)
	}
	_, _ = d.w.Write(b)
}

func (d *jsonDumper) group(g *dataset.Group) {
	d.raw(`"dimensions": [`)
	for i, dim := range g.Dims() {
		d.comma(i)
		fmt.Fprintf(d.w, `{"name": %s, "length": %d, "unlimited": %t}`, quoted(dim.Name()), dim.Len(), dim.Unlimited())
	}
	d.raw(`], "attributes": [`)
	d.attrs(g.Attrs())
	d.raw(`], "variables": [`)
	for i, v := range g.Vars() {
		d.comma(i)
		d.variable(v)
	}
	d.raw(`], "groups": [`)
	for i, sub := range g.Groups() {
		d.comma(i)
		d.raw(`{"name": ` + quoted(sub.Name()) + `, `)
		d.group(sub)
		d.raw(`}`)
	}
	d.raw(`]`)
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // strings always marshal
		panic(err)
	}
	return string(b)
}

func (d *jsonDumper) comma(i int) {
	if i > 0 {
		d.raw(", ")
	}
}

func (d *jsonDumper) attrs(list []dataset.Attr) {
	for i, a := range list {
		d.comma(i)
		d.raw(`{"name": ` + quoted(a.Name) + `, "type": "` + a.Type.String() + `", "value": `)
		if text, ok := a.Value.(string); ok {
			d.raw(quoted(text))
		} else {
			d.raw("[")
			d.values(a.Value)
			d.raw("]")
		}
		d.raw(`}`)
	}
}

func (d *jsonDumper) variable(v *dataset.Var) {
	var dims []string
	for _, dim := range v.Dims() {
		dims = append(dims, dim.Path())
	}
	d.raw(`{"name": ` + quoted(v.Name()) + `, "type": "` + v.Type().String() + `", "dimensions": `)
	d.value(append([]string{}, dims...))
	d.raw(`, "shape": `)
	d.value(v.Shape())
	d.raw(`, "attributes": [`)
	d.attrs(v.Attrs())
	d.raw(`]`)
	if d.opts.Selects(v) {
		d.data(v)
	}
	d.raw(`}`)
}

// data prints the values of v, a few rows at a time. On a failure it closes the array and
// adds an "error" member, so the output stays valid JSON and does not look complete.
func (d *jsonDumper) data(v *dataset.Var) {
	open, closing := `, "data": [`, `]`
	if v.Type() == dtype.NCChar {
		open, closing = `, "data": "`, `"`
	}
	d.raw(open)
	err := v.CheckSize()
	if err == nil {
		err = d.slabs(v)
	}
	d.raw(closing)
	if err != nil && d.writeErr() == nil {
		d.raw(`, "error": ` + quoted(err.Error()))
		d.problem(dataset.Problem{Path: v.Path(), Err: err})
	}
}

func (d *jsonDumper) slabs(v *dataset.Var) error {
	if slices.Contains(v.Shape(), 0) {
		return nil
	}
	first := true
	print := func(_ chunk.Selection, part any) error {
		if v.Type() == dtype.NCChar {
			text := quoted(string(part.([]uint8))) //nolint:forcetypeassert // the value is always []byte
			d.raw(text[1 : len(text)-1])
			return d.writeErr()
		}
		if !first {
			d.raw(", ")
		}
		first = false
		d.values(part)
		return d.writeErr()
	}
	size := cdl.SlabSize(d.ds)
	ctx, done, err := v.Reserve(d.ctx, size)
	if err != nil {
		return err
	}
	defer done()
	slabs := chunk.NewSlabs(v.Shape(), v.Chunks(), max(1, size/cdl.ElementSize(v)))
	for slabs.Next() {
		if err := v.ReadParts(ctx, slabs.Sel, print); err != nil {
			return err
		}
	}
	return nil
}

// values prints the elements of a typed slice.
func (d *jsonDumper) values(slice any) {
	n := dtype.Len(slice)
	for i := range n {
		d.comma(i)
		d.raw(element(slice, i))
	}
}

func element(slice any, i int) string {
	switch s := slice.(type) {
	case []float32:
		return floatText(float64(s[i]), 32)
	case []float64:
		return floatText(s[i], 64)
	case []string:
		return quoted(s[i])
	case []uint8: // fmt prints bytes differently
		return strconv.Itoa(int(s[i]))
	}
	one := dtype.Slice(slice, i, i+1)
	text := fmt.Sprint(one)
	return text[1 : len(text)-1]
}

func floatText(f float64, bits int) string {
	switch {
	case math.IsNaN(f):
		return `"NaN"`
	case math.IsInf(f, 1):
		return `"Infinity"`
	case math.IsInf(f, -1):
		return `"-Infinity"`
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}

// checkVarNames fails if one of names is not the name or path of a variable of ds.
func checkVarNames(ds *dataset.Dataset, names []string) error {
	for _, name := range names {
		found, names := false, []string(nil)
		eachVar(ds.Root(), func(v *dataset.Var) {
			found = found || v.Name() == name || v.Path() == name || v.Path() == "/"+name
			names = append(names, v.Name(), v.Path())
		})
		if !found {
			return ncerr.UnknownName(ncerr.ErrNoVar, "find variable", name, names)
		}
	}
	return nil
}
