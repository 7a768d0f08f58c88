package cdl_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// tree is a parsed file with the values of its variables.
type tree struct {
	*cdl.File
	data map[*cdl.Var][]cdl.Value
}

// treeOf reads the values of all variables of a parsed file.
func treeOf(f *cdl.File) (tree, error) {
	all := tree{f, map[*cdl.Var][]cdl.Value{}}
	return all, all.read(f.Root)
}

func (all tree) read(g *cdl.Group) error {
	for _, v := range g.Vars {
		var err error
		if all.data[v], err = all.Values(v); err != nil {
			return err
		}
	}
	for _, sub := range g.Groups {
		if err := all.read(sub); err != nil {
			return err
		}
	}
	return nil
}

// text returns a tree as simple CDL, independently of Write.
func (all tree) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "netcdf %s ", escape(all.Dataset))
	all.group(&b, all.Root)
	return b.String()
}

// escape puts a backslash before a leading digit and before every ASCII character except
// letters, digits and underscores. Control characters and percent signs become \%hh.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		digit := c >= '0' && c <= '9'
		switch {
		case c == '%', c < ' ', c == 0x7f:
			fmt.Fprintf(&b, `\%%%02x`, c)
			continue
		case c >= 0x80, c|0x20 >= 'a' && c|0x20 <= 'z', c == '_', digit && i > 0:
		default:
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

func (all tree) group(b *strings.Builder, g *cdl.Group) {
	b.WriteString("{\n")
	for _, a := range g.Attrs {
		attrText(b, "", a)
	}
	b.WriteString("dimensions:\n")
	for _, d := range g.Dims {
		if d.Unlimited {
			fmt.Fprintf(b, "%s = UNLIMITED;\n", escape(d.Name))
		} else {
			fmt.Fprintf(b, "%s = %d;\n", escape(d.Name), uint64(d.Len))
		}
	}
	b.WriteString("variables:\n")
	for _, v := range g.Vars {
		var dims []string
		for _, ref := range v.Dims {
			segs := strings.Split(ref.Path, "/")
			for i := range segs {
				segs[i] = escape(segs[i])
			}
			dims = append(dims, strings.Join(segs, "/"))
		}
		shape := ""
		if len(dims) > 0 {
			shape = "(" + strings.Join(dims, ",") + ")"
		}
		fmt.Fprintf(b, "%s %s %s;\n", v.Type, escape(v.Name), shape)
		for _, a := range v.Attrs {
			attrText(b, escape(v.Name), a)
		}
	}
	b.WriteString("data:\n")
	for _, v := range g.Vars {
		if v.HasData {
			fmt.Fprintf(b, "%s = %s;\n", escape(v.Name), valuesText(all.data[v]))
		}
	}
	for _, sub := range g.Groups {
		fmt.Fprintf(b, "group: %s ", escape(sub.Name))
		all.group(b, sub)
	}
	b.WriteString("}\n")
}

func attrText(b *strings.Builder, owner string, a *cdl.Attr) {
	typ := ""
	if a.Type != dtype.NCNone {
		typ = a.Type.String() + " "
	}
	fmt.Fprintf(b, "%s%s :%s = %s;\n", typ, owner, escape(a.Name), valuesText(a.Values))
}

func valuesText(vals []cdl.Value) string {
	var list []string
	for _, v := range vals {
		list = append(list, valueText(v))
	}
	return strings.Join(list, ", ")
}

func valueText(v cdl.Value) string {
	suffix := map[dtype.NC]string{
		dtype.NCByte: "b", dtype.NCShort: "s", dtype.NCInt: "", dtype.NCInt64: "LL",
		dtype.NCUByte: "UB", dtype.NCUShort: "US", dtype.NCUInt: "U", dtype.NCUInt64: "ULL",
	}
	switch v.Kind {
	case cdl.Fill:
		return "_"
	case cdl.Nil:
		return "NIL"
	case cdl.Hex:
		return fmt.Sprintf("0x%x", v.Bits)
	case cdl.Char:
		return fmt.Sprintf(`'\%03o'`, v.Bits)
	case cdl.List:
		return "{" + valuesText(*v.Sub) + "}"
	case cdl.Text:
		var b strings.Builder
		for i := range len(v.Text) {
			fmt.Fprintf(&b, `\%03o`, v.Text[i])
		}
		return `"` + b.String() + `"`
	}
	switch v.Type {
	case dtype.NCFloat, dtype.NCDouble:
		return floatText(math.Float64frombits(v.Bits), v.Type == dtype.NCFloat)
	case dtype.NCUByte, dtype.NCUShort, dtype.NCUInt, dtype.NCUInt64:
		return strconv.FormatUint(v.Bits, 10) + suffix[v.Type]
	}
	return strconv.FormatInt(int64(v.Bits), 10) + suffix[v.Type]
}

func floatText(f float64, single bool) string {
	tail := ""
	if single {
		tail = "f"
	}
	switch {
	case math.IsNaN(f):
		return "NaN" + tail
	case math.IsInf(f, 1):
		return "Infinity" + tail
	case math.IsInf(f, -1):
		return "-Infinity" + tail
	}
	return strconv.FormatFloat(f, 'e', -1, 64) + tail
}

// drawTree draws a tree as returned by the parser, but without positions.
func drawTree(t *rapid.T) tree {
	all := tree{&cdl.File{Name: "x.cdl", Dataset: drawName(t, "dataset")}, map[*cdl.Var][]cdl.Value{}}
	all.Root = all.draw(t, "", nil, "/", 0)
	return all
}

var nameRunes = rapid.SampledFrom([]rune("abcXYZ019_.@+- !\"#$%&'()*,:;<=>?[]\\^`{|}~éΚ"))

func drawName(t *rapid.T, label string) string {
	return rapid.StringOfN(nameRunes, 1, 6, -1).Filter(func(s string) bool { return s != "_" }).Draw(t, label)
}

type scopeDim struct {
	path string
	dim  *cdl.Dim
}

func (all tree) draw(t *rapid.T, name string, above []scopeDim, path string, depth int) *cdl.Group {
	g := &cdl.Group{Name: name, Attrs: drawAttrs(t)}
	scope := above[:len(above):len(above)]
	for range rapid.IntRange(0, 3).Draw(t, "dims") {
		d := &cdl.Dim{Name: drawName(t, "dim"), Unlimited: rapid.Bool().Draw(t, "unlimited")}
		if !d.Unlimited {
			d.Len = rapid.Int64Min(0).Draw(t, "len")
		}
		if !taken(g.Dims, func(o *cdl.Dim) bool { return o.Name == d.Name }) {
			g.Dims = append(g.Dims, d)
			scope = append(scope, scopeDim{path + d.Name, d})
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "vars") {
		v := all.drawVar(t, scope)
		if !taken(g.Vars, func(o *cdl.Var) bool { return o.Name == v.Name }) {
			g.Vars = append(g.Vars, v)
		}
	}
	for range rapid.IntRange(0, 2-depth).Draw(t, "groups") {
		sub := drawName(t, "group")
		if !taken(g.Groups, func(o *cdl.Group) bool { return o.Name == sub }) {
			g.Groups = append(g.Groups, all.draw(t, sub, scope, path+sub+"/", depth+1))
		}
	}
	return g
}

func taken[T any](list []T, same func(T) bool) bool {
	for _, x := range list {
		if same(x) {
			return true
		}
	}
	return false
}

func (all tree) drawVar(t *rapid.T, scope []scopeDim) *cdl.Var {
	v := &cdl.Var{Name: drawName(t, "var"), Attrs: drawAttrs(t)}
	v.Type = dtype.NC(rapid.IntRange(int(dtype.NCByte), int(dtype.NCString)).Draw(t, "type"))
	if len(scope) > 0 {
		for range rapid.IntRange(0, 3).Draw(t, "rank") {
			d := rapid.SampledFrom(scope).Draw(t, "ref")
			v.Dims = append(v.Dims, cdl.DimRef{Path: d.path, Dim: d.dim})
		}
	}
	if v.HasData = rapid.Bool().Draw(t, "has data"); v.HasData {
		all.data[v] = drawValues(t, 2)
	}
	return v
}

func drawAttrs(t *rapid.T) []*cdl.Attr {
	var list []*cdl.Attr
	for range rapid.IntRange(0, 3).Draw(t, "attrs") {
		a := &cdl.Attr{Name: drawName(t, "attr"), Values: drawValues(t, 1)}
		a.Type = dtype.NC(rapid.IntRange(0, int(dtype.NCString)).Draw(t, "attr type"))
		if !taken(list, func(o *cdl.Attr) bool { return o.Name == a.Name }) {
			list = append(list, a)
		}
	}
	return list
}

func drawValues(t *rapid.T, depth int) []cdl.Value {
	vals := []cdl.Value{}
	for range rapid.IntRange(0, 4).Draw(t, "values") {
		vals = append(vals, drawValue(t, depth))
	}
	return vals
}

func drawValue(t *rapid.T, depth int) cdl.Value {
	v := cdl.Value{Kind: rapid.SampledFrom([]cdl.Kind{cdl.Number, cdl.Number, cdl.Hex, cdl.Char, cdl.Text, cdl.Fill, cdl.Nil, cdl.List}).Draw(t, "kind")}
	if v.Kind == cdl.List && depth == 0 {
		v.Kind = cdl.Number
	}
	switch v.Kind {
	case cdl.Hex:
		v.Bits = rapid.Uint64().Draw(t, "hex")
	case cdl.Char:
		v.Bits = uint64(rapid.Byte().Draw(t, "char"))
	case cdl.Text:
		v.Text = string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
	case cdl.List:
		sub := drawValues(t, depth-1)
		v.Sub = &sub
	case cdl.Number:
		v.Type, v.Bits = drawNumber(t)
	}
	return v
}

func drawNumber(t *rapid.T) (dtype.NC, uint64) {
	switch rapid.IntRange(0, 9).Draw(t, "number") {
	case 0:
		return dtype.NCByte, uint64(int64(rapid.Int8().Draw(t, "n")))
	case 1:
		return dtype.NCShort, uint64(int64(rapid.Int16().Draw(t, "n")))
	case 2:
		return dtype.NCInt, uint64(int64(rapid.Int32().Draw(t, "n")))
	case 3:
		return dtype.NCInt64, uint64(rapid.Int64().Draw(t, "n"))
	case 4:
		return dtype.NCUByte, uint64(rapid.Uint8().Draw(t, "n"))
	case 5:
		return dtype.NCUShort, uint64(rapid.Uint16().Draw(t, "n"))
	case 6:
		return dtype.NCUInt, uint64(rapid.Uint32().Draw(t, "n"))
	case 7:
		return dtype.NCUInt64, rapid.Uint64().Draw(t, "n")
	case 8:
		return dtype.NCFloat, math.Float64bits(float64(rapid.Float32().Draw(t, "n")))
	}
	return dtype.NCDouble, math.Float64bits(rapid.Float64().Draw(t, "n"))
}
