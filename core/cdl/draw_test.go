package cdl_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// generator generates random CDL.
type generator struct {
	*rand.Rand
	b                    strings.Builder
	varNames, groupNames []string // for -v and -g: names without escapes
}

func newGenerator(seed uint64) *generator { return &generator{Rand: rand.New(rand.NewPCG(seed, 0))} }

// randomDim is a dimension in the generated CDL.
type randomDim struct {
	path, name string // path and name as written in CDL
	length     int
	unlimited  bool
}

// randomVar is a variable in the generated CDL.
type randomVar struct {
	name string // name as written in CDL
	typ  string
	dims []randomDim
	full bool // all values must be written
	days bool // the values are days
	apos bool // chars are written one by one: ncgen loses strings after such chars, and crashes on them in braces
}

// pick returns a random element of a list.
func pick[T any](d *generator, list ...T) T { return list[d.IntN(len(list))] }

// maybe returns true with probability 1/n.
func (d *generator) maybe(n int) bool { return d.IntN(n) == 0 }

func (d *generator) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

// blank returns random white space or a comment.
func (d *generator) blank() string {
	return pick(d, " ", " ", " ", "\n", "\t", "  ", " // note ; }\n", "\r\n")
}

// escapable are names with characters that must or may be escaped.
var escapable = []string{`sp\ ace`, `\3d`, `a-b`, `a+b`, `a.b`, `a@b`, `par\(en\)`, `é`, `Ünïcode`, `q\"uote`, `back\\slash`, `per\%cent`, `amp\&`, `semi\;x`, `eq\=`, `co\:lon`, `com\,ma`, `ast\*`, `hash\#`, `tilde\~`, `_under`, `dol\$lar`, `bang\!`, `apos\'`, `pipe\|`, `gr\<x\>`, `caret\^`, `tick\` + "`"}

// newName returns a name that is not in taken, and adds it.
func (d *generator) newName(taken map[string]bool) string {
	for {
		name := pick(d, "a", "b", "c", "x", "y", "time", "lat", "temperature_of_the_air_at_two_metres", "N")
		switch d.IntN(5) {
		case 0:
			name = pick(d, escapable...)
		case 1:
			name += strconv.Itoa(d.IntN(9))
		}
		if key := strings.ToLower(name); !taken[key] {
			taken[key] = true
			return name
		}
	}
}

// dataset writes complete CDL.
func (d *generator) dataset() string {
	d.printf("netcdf random {%s", d.blank())
	d.group("/", nil, 0)
	d.printf("}\n")
	return d.b.String()
}

// group writes the content of a group. above holds the visible dimensions of the groups that
// contain it.
func (d *generator) group(path string, above []randomDim, depth int) {
	taken := map[string]bool{}
	own := d.dims(path, taken)
	seen := slices.Clone(own)
	for _, dim := range above {
		hidden := slices.ContainsFunc(own, func(o randomDim) bool { return o.name == dim.name })
		switch parent := path[:strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')+1]; {
		case hidden && dim.path != parent+dim.name:
			continue // ncdump prints the path of the group in between, which has no such dimension
		case hidden:
			dim.name = dim.path
		}
		seen = append(seen, dim)
	}
	vars := d.vars(path, own, seen, taken)
	for i := range d.IntN(3) { // the last digit makes the names differ
		d.attribute("", pick(d, "title", "history", "g1", "g2", `sp\ ace`, "Conventions")+strconv.Itoa(10*d.IntN(99)+i))
	}
	d.data(vars)
	if depth == 3 {
		return
	}
	for range pick(d, 0, 1, 1, 2) {
		name := d.newName(taken)
		if strings.HasPrefix(name, `\3`) {
			name = "g" + name[1:] // ncdump does not escape the digit in a path, so that ncgen cannot parse it
		}
		if !strings.Contains(path+name, `\`) {
			d.groupNames = append(d.groupNames, name, path+name)
		}
		d.printf("group: %s {%s", name, d.blank())
		d.group(path+name+"/", seen, depth+1)
		d.printf("}%s", d.blank())
	}
}

// dims declares dimensions.
func (d *generator) dims(path string, taken map[string]bool) []randomDim {
	var dims []randomDim
	for i := range d.IntN(4) {
		name := d.newName(taken)
		dim := randomDim{path: path + name, name: name, length: pick(d, 1, 2, 3, 4, 5, 7, 13), unlimited: d.maybe(3)}
		if i == 0 {
			d.printf("dimensions:%s", d.blank())
		}
		size := strconv.Itoa(dim.length)
		if dim.unlimited {
			size = pick(d, "UNLIMITED", "unlimited")
			dim.length = 1 + d.IntN(4)
		}
		d.printf("%s = %s%s%s", name, size, d.blank(), pick(d, ";\n", ";\n", ",\n"))
		dims = append(dims, dim)
	}
	if text := d.b.String(); strings.HasSuffix(text, ",\n") {
		d.b.Reset()
		d.b.WriteString(strings.TrimSuffix(text, ",\n") + ";\n")
	}
	return dims
}

// typeNames are the types with their synonyms.
var typeNames = map[string][]string{
	"byte": {"byte"}, "ubyte": {"ubyte"}, "char": {"char"}, "short": {"short"}, "ushort": {"ushort"}, "int": {"int", "long", "integer"},
	"uint": {"uint"}, "int64": {"int64"}, "uint64": {"uint64"}, "float": {"float", "real"}, "double": {"double"}, "string": {"string"},
}

var (
	types   = append([]string{"char", "string"}, numbers...)
	numbers = []string{"byte", "ubyte", "short", "ushort", "int", "uint", "int64", "uint64", "float", "double"}
)

// vars declares variables and their attributes.
func (d *generator) vars(path string, own, seen []randomDim, taken map[string]bool) []randomVar {
	var vars []randomVar
	for i := range d.IntN(6) {
		if i == 0 {
			d.printf("variables:%s", d.blank())
		}
		v, ok := d.newVar(vars, own, seen, taken)
		if !ok {
			continue
		}
		if full := path + v.name; !strings.Contains(full, `\`) {
			d.varNames = append(d.varNames, v.name, full[1:])
		}
		var names []string
		for _, dim := range v.dims {
			names = append(names, dim.name)
		}
		list := ""
		if len(names) > 0 {
			list = "(" + strings.Join(names, pick(d, ",", ", ", " , ")) + ")"
		}
		d.printf("%s %s%s%s;%s", pick(d, typeNames[v.typ]...), v.name, list, d.blank(), d.blank())
		d.describe(&v)
		vars = append(vars, v)
	}
	return vars
}

// newVar chooses the type, name and dimensions of a variable. ok is false if the
// coordinate variable already exists.
func (d *generator) newVar(vars []randomVar, own, seen []randomDim, taken map[string]bool) (v randomVar, ok bool) {
	v.typ = pick(d, types...)
	if len(own) > 0 && d.maybe(4) {
		dim := pick(d, own...)
		v.name, v.dims = dim.name, []randomDim{dim}
		if slices.ContainsFunc(vars, func(o randomVar) bool { return o.name == dim.name }) {
			return v, false
		}
	} else {
		v.name = d.newName(taken)
		for range pick(d, 0, 1, 1, 2, 2, 3) {
			if len(seen) > 0 {
				v.dims = append(v.dims, pick(d, seen...))
			}
		}
	}
	braces := slices.ContainsFunc(v.dims[min(1, len(v.dims)):], func(dim randomDim) bool { return dim.unlimited })
	v.apos = !braces && d.maybe(4)
	return v, true
}

// describe writes ordinary and special attributes of a variable.
func (d *generator) describe(v *randomVar) {
	number := v.typ != "string" && v.typ != "char"
	if number && d.maybe(6) {
		v.days = true // days that ncdump can print as dates; it would also print other attributes as dates
		d.printf("%s:units = \"days since 2000-01-01\" ;\n", v.name)
	} else {
		for _, name := range []string{"long_name", "valid_range", "flags", `odd\ name`, "scale_factor"} {
			if d.maybe(3) {
				d.attribute(v.name, name)
			}
		}
	}
	v.full = v.typ == "string" // NCZarr cannot distinguish an empty string from one that was not written
	switch {
	case number && !v.days && d.maybe(3):
		d.printf("%s:_FillValue = %s ;\n", v.name, d.value(v.typ))
	case number && d.maybe(6):
		v.full = true // ncdump prints uninitialized memory
		d.printf("%s:_NoFill = \"true\" ;\n", v.name)
	}
	if len(v.dims) > 0 {
		d.storage(v)
	}
}

// storage writes the special attributes of an array. Fletcher-32 is used only without
// other filters, because ncgen puts the checksum before them and Generate puts it after
// them. HDF5 has no filters for strings.
func (d *generator) storage(v *randomVar) {
	var sizes []string
	for _, dim := range v.dims {
		sizes = append(sizes, strconv.Itoa(1+d.IntN(dim.length)))
	}
	if d.maybe(4) {
		d.printf("%s:_Storage = \"chunked\" ;\n", v.name)
	}
	d.printf("%s:_ChunkSizes = %s ;\n", v.name, strings.Join(sizes, ", "))
	if v.typ != "string" {
		for _, filter := range pick(d, []string{}, []string{"_Fletcher32 = \"true\""}, []string{"_Shuffle = \"true\"", "_DeflateLevel = 4"}, []string{"_DeflateLevel = 1"}) {
			d.printf("%s:%s ;\n", v.name, filter)
		}
	}
	if v.typ != "string" && v.typ != "char" && v.typ != "byte" && v.typ != "ubyte" {
		d.printf("%s:_Endianness = \"%s\" ;\n", v.name, pick(d, "little", "big"))
	}
}

// attribute writes an attribute of any type. The type may precede the name.
func (d *generator) attribute(owner, name string) {
	typ := pick(d, types...)
	n := pick(d, 1, 1, 1, 2, 3, 9)
	if typ == "char" {
		n = 1
	}
	var values []string
	for range n {
		values = append(values, d.value(typ))
	}
	prefix := ""
	switch {
	case typ == "string" || d.maybe(3):
		prefix = typ + " "
	case typ != "char" && typ != "byte" && d.maybe(4): // the attribute has the widest type of its values; ncgen loses the sign of a byte
		values = append(values, d.value(pick(d, numbers[1:]...)), d.value(pick(d, numbers[1:]...)))
	}
	if typ == "string" && d.maybe(2) {
		values = values[:1]
	}
	d.printf("%s%s:%s = %s ;\n", prefix, owner, name, strings.Join(values, ", "))
}

// data writes the values of most variables.
func (d *generator) data(vars []randomVar) {
	began := false
	for _, v := range vars {
		if !v.full && d.maybe(6) {
			continue
		}
		if !began {
			d.printf("data:%s", d.blank())
			began = true
		}
		list := d.list(v, 0)
		if one := len(v.dims) == 1 && v.typ != "char" && !v.full; one && d.maybe(3) {
			list = list[:strings.IndexByte(list+",", ',')] // the rest becomes the fill value
		}
		d.printf("%s =%s%s%s;\n", v.name, d.blank(), list, d.blank())
	}
}

// list writes the values of a variable from dimension i on. Values along an unlimited
// dimension other than the first are in braces.
func (d *generator) list(v randomVar, i int) string {
	if i == len(v.dims) {
		return d.element(v)
	}
	dim := v.dims[i]
	var items []string
	if v.typ == "char" && i == len(v.dims)-1 {
		items = d.chars(dim.length, v.apos, i > 0 && (dim.unlimited || v.dims[0].unlimited))
	} else {
		for range dim.length {
			items = append(items, d.list(v, i+1))
		}
	}
	text := strings.Join(items, pick(d, ", ", ",", ",\n "))
	if dim.unlimited && i > 0 {
		return "{" + text + "}"
	}
	return text
}

// element writes one value.
func (d *generator) element(v randomVar) string {
	switch {
	case v.typ == "char":
		return d.chars(1, v.apos, true)[0]
	case v.days:
		return strconv.Itoa(d.IntN(100))
	case v.typ != "string" && !v.full && d.maybe(8):
		return "_"
	}
	return d.value(v.typ)
}
