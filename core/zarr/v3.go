package zarr

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// v3Members are the known members of zarr.json by node_type.
//
// Source: Zarr v3, "Group metadata", "Array metadata"; zarr-python for
// consolidated_metadata.
var v3Members = map[string][]string{
	"group": {"zarr_format", "node_type", "attributes", "consolidated_metadata"},
	"array": {
		"zarr_format", "node_type", "attributes", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
		"storage_transformers", "dimension_names",
	},
}

// nodeType returns the node_type of a zarr.json, "group" or "array". It returns "" for
// anything else.
func nodeType(text []byte) string {
	v, err := jsontext.Check(string(text))
	if t := v.Get("node_type").Text(); err == nil && v3Members[t] != nil {
		return t
	}
	return ""
}

// loadV3 parses a zarr.json. It adds the attributes as a separate document, as in v2.
func (n *node) loadV3(text []byte) error {
	n.v3 = true
	if err := n.addDocument().parse(V3Doc, text); err != nil {
		return ncerr.New(ncerr.ErrNotZarr, "parse", n.key(V3Doc), err)
	}
	doc := n.doc(V3Doc)
	if f, ok := doc.get("zarr_format").Int64(); !ok || f != 3 {
		return n.bad(V3Doc, "zarr_format", "expected 3, found %s", orMissing(doc.get("zarr_format")))
	}
	known := v3Members[doc.get("node_type").Text()]
	if known == nil {
		return n.bad(V3Doc, "node_type", `expected "group" or "array", found %s`, orMissing(doc.get("node_type")))
	}
	for _, m := range doc.Members {
		if !slices.Contains(known, m.Key) && m.Val.Get("must_understand") != "false" {
			return ncerr.Errorf(ncerr.ErrUnsupported, "parse", n.key(V3Doc), "unknown extension %q, whose must_understand is not false", clip(m.Key))
		}
	}
	attrs := doc.get("attributes")
	switch attrs.Kind() {
	case jsontext.Invalid, jsontext.Null:
		return nil
	case jsontext.Object:
		return n.addDocument().parse(AttrsDoc, []byte(attrs))
	}
	return n.bad(V3Doc, "attributes", "expected an object, found %s", clip(attrs))
}

// arrayV3 parses an array of Zarr v3.
func (n *node) arrayV3(hint ParseHint) (*Array, error) {
	doc := n.doc(V3Doc)
	if doc.get("node_type").Text() != "array" {
		return nil, ncerr.Errorf(ncerr.ErrNoObject, "parse", n.key(V3Doc), "expected an array, found a group")
	}
	a := &Array{Layout: hint.Layout}
	if hint.Pure {
		a.Layout = LayoutV3
	}
	var err error
	if a.Shape, err = n.lengths("shape", doc.get("shape")); err != nil {
		return nil, err
	}
	if err := n.gridV3(a, doc.get("chunk_grid")); err != nil {
		return nil, err
	}
	if err := n.keysV3(a, doc.get("chunk_key_encoding")); err != nil {
		return nil, err
	}
	if t := doc.get("storage_transformers"); t != "" && t.Kind() != jsontext.Null && (t.Kind() != jsontext.Array || t.Len() > 0) {
		return nil, n.unknown("storage_transformers", "%s", clip(t))
	}
	text, err := n.typeV3(doc.get("data_type"))
	if err != nil {
		return nil, err
	}
	order, err := n.chainV3(a, doc.get("codecs"))
	if err != nil {
		return nil, err
	}
	if err := n.elementV3(a, text, order); err != nil {
		return nil, err
	}
	for _, lengths := range [][]int64{a.Shape, a.Chunks} {
		if _, ok := product(lengths, int64(max(a.DType.Size, 1))); !ok {
			return nil, ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(V3Doc), "the size of the array exceeds the limit of %d bytes", int64(math.MaxInt64))
		}
	}
	if err := n.fillV3(a, doc.get("fill_value")); err != nil {
		return nil, err
	}
	if a.Layout.NCZarr() {
		blk, err := n.arrayBlock(a, hint)
		if err != nil {
			return nil, err
		}
		if err := n.aliasV3(a, blk.Get("type_alias")); err != nil {
			return nil, err
		}
	}
	if err := n.namesV3(a, doc.get("dimension_names"), hint); err != nil {
		return nil, err
	}
	r := a.attrReader(n)
	if err := r.load(a.Layout.NCZarr()); err != nil {
		return nil, err
	}
	a.Attrs = r.all()
	a.MaxStrLen = maxStrLenOf(a.Attrs)
	a.Warnings = n.warnings
	return a, nil
}

// aliasV3 replaces the element type with the netCDF type that a type_alias names. An alias
// for the type that the elements have anyway is allowed. The alias "char" also applies to
// null_terminated_bytes of length 1, the char of pure Zarr v3, because a migration between
// the two layouts writes both.
func (n *node) aliasV3(a *Array, v jsontext.Value) error {
	if v == "" || v.Kind() == jsontext.Null {
		return nil
	}
	isByte := a.DType.Kind == dtype.Uint && a.DType.Size == 1
	switch name := v.Text(); {
	case v.Kind() != jsontext.String:
		return n.bad(V3Doc, "type_alias", "expected a string, found %s", clip(v))
	case (name == aliasChar || name == aliasJSON) && isByte, name == aliasChar && a.DType.Kind == dtype.Bytes && a.DType.Size == 1:
		a.DType = dtype.NCChar.Type(dtype.OrderNone)
	case name == aliasString && a.DType.Kind == dtype.Raw && a.Fields == nil:
		a.DType.Kind = dtype.Bytes
	case name == aliasString && a.DType.NC() == dtype.NCString:
	case name == aliasChar || name == aliasJSON || name == aliasString:
		return n.bad(V3Doc, "type_alias", "%q does not apply to the data type %s", name, clip(n.doc(V3Doc).get("data_type")))
	default:
		return n.unknown("type_alias", "%s", clip(v))
	}
	return nil
}

// unknown returns the error for an unsupported extension.
func (n *node) unknown(member, format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrUnsupported, "parse", n.key(V3Doc), "%s: %s is not supported", member, fmt.Sprintf(format, args...))
}

// extension returns the name and the configuration of an extension point, which is an
// object or only a name. must is set if readers must always understand the extension. The
// member must_understand is then not allowed.
func (n *node) extension(member string, v jsontext.Value, must bool) (name string, conf jsontext.Value, err error) {
	switch v.Kind() {
	case jsontext.String:
		name = v.Text()
	case jsontext.Object:
		name, conf = v.Get("name").Text(), v.Get("configuration")
		if must && v.Get("must_understand") != "" {
			return "", "", n.bad(V3Doc, member, "must_understand is not allowed here")
		}
	}
	if name == "" {
		return "", "", n.bad(V3Doc, member, "expected an object with a name, found %s", orMissing(v))
	}
	if conf != "" && conf.Kind() != jsontext.Object {
		return "", "", n.bad(V3Doc, member, "configuration of %q: expected an object, found %s", clip(name), clip(conf))
	}
	return name, conf, nil
}

func (n *node) gridV3(a *Array, v jsontext.Value) error {
	name, conf, err := n.extension("chunk_grid", v, true)
	if err != nil {
		return err
	}
	switch name {
	case "regular":
		a.Chunks, err = n.chunkShape("chunk_grid", conf, len(a.Shape))
		return err
	case "rectilinear":
		return n.rectilinear(a, conf)
	}
	return n.unknown("chunk_grid", "the grid %q", clip(name))
}

func (n *node) rectilinear(a *Array, conf jsontext.Value) error {
	if kind := conf.Get("kind"); kind.Text() != "inline" {
		return n.bad(V3Doc, "chunk_grid", `kind: expected "inline", found %s`, orMissing(kind))
	}
	shapes := conf.Get("chunk_shapes")
	if shapes.Kind() != jsontext.Array || shapes.Len() != len(a.Shape) {
		return n.bad(V3Doc, "chunk_grid", "chunk_shapes: expected an array with an element for each of %d dimensions, found %s", len(a.Shape), orMissing(shapes))
	}
	g, err := parseGrid(shapes)
	if err != nil {
		return ncerr.Errorf(ncerr.KindOf(err), "parse", n.key(V3Doc), "chunk_grid: %w", err)
	}
	if d := g.Uncovered(a.Shape); d >= 0 {
		return ncerr.Errorf(ncerr.ErrBadChunk, "parse", n.key(V3Doc), "chunk_grid: the chunk lengths of dimension %d add up to %d, but shape has %d", d, g.Covered(d), a.Shape[d])
	}
	if a.Chunks = g.Largest(); !g.Regular() {
		a.Grid = &g
	}
	return nil
}

// chunkShape parses the member chunk_shape of a configuration.
func (n *node) chunkShape(member string, conf jsontext.Value, rank int) ([]int64, error) {
	shape, err := n.lengths(member+": chunk_shape", conf.Get("chunk_shape"))
	if err != nil {
		return nil, err
	}
	if len(shape) != rank {
		return nil, ncerr.Errorf(ncerr.ErrBadChunk, "parse", n.key(V3Doc), "%s: chunk_shape has %d dimensions, but shape has %d", member, len(shape), rank)
	}
	for d, k := range shape {
		if k == 0 {
			return nil, ncerr.Errorf(ncerr.ErrBadChunk, "parse", n.key(V3Doc), "%s: chunk_shape: dimension %d is 0", member, d)
		}
	}
	return shape, nil
}

// suffixKeys is the name of the chunk key encoding with a suffix, and maxSuffix the maximum
// length of the suffix in bytes.
const (
	suffixKeys = "zarrs.default_suffix"
	maxSuffix  = 255
)

func (n *node) keysV3(a *Array, v jsontext.Value) error {
	name, conf, err := n.extension("chunk_key_encoding", v, true)
	if err != nil {
		return err
	}
	switch name {
	case "default":
		a.Keys.Prefix, a.Keys.Separator = true, '/'
	case "v2":
		a.Keys.Separator = '.'
	case suffixKeys:
		suffix := conf.Get("suffix")
		a.Keys = chunk.Keys{Prefix: true, Separator: '/', Suffix: suffix.Text()}
		if suffix.Kind() != jsontext.String || !validName("c"+a.Keys.Suffix) || len(a.Keys.Suffix) > maxSuffix {
			return n.bad(V3Doc, "chunk_key_encoding", "suffix: expected a string of at most %d bytes without slashes, found %s", maxSuffix, orMissing(suffix))
		}
	default:
		return n.unknown("chunk_key_encoding", "%q", clip(name))
	}
	switch sep := conf.Get("separator"); sep {
	case "":
	case `"."`, `"/"`, `"\/"`:
		a.Keys.Separator = sep.Text()[0]
	default:
		return n.bad(V3Doc, "chunk_key_encoding", `separator: expected "." or "/", found %s`, clip(sep))
	}
	return nil
}

// typesV3 maps data types without a configuration to their v2 spelling, with a star in
// place of the byte order, which the caller inserts.
var typesV3 = map[string]string{
	"bool": "|b1", "int8": "|i1", "int16": "*i2", "int32": "*i4", "int64": "*i8", "uint8": "|u1", "uint16": "*u2", "uint32": "*u4", "uint64": "*u8",
	"float16": "*f2", "float32": "*f4", "float64": "*f8", "complex64": "*c8", "complex128": "*c16",
	"string": "string", "bytes": "bytes", "variable_length_bytes": "bytes",
}

// structType is the result of typeV3 for a structure, whose fields structV3 parses.
const structType = "struct"

// typeV3 returns the v2 spelling of a data type, with a star for the byte order; see
// typesV3.
//
// Source: Zarr v3, "Data types", and the registered extensions; zarr-python for
// null_terminated_bytes, raw_bytes and variable_length_bytes.
func (n *node) typeV3(v jsontext.Value) (string, error) {
	name, conf, err := n.extension("data_type", v, true)
	if err != nil {
		return "", err
	}
	if text, ok := typesV3[name]; ok {
		return text, nil
	}
	if bits, ok := strings.CutPrefix(name, "r"); ok {
		if k, err := strconv.Atoi(bits); err == nil && k > 0 && k%8 == 0 && k/8 <= dtype.MaxSize {
			return "|V" + strconv.Itoa(k/8), nil
		}
	}
	form, unit := "", int64(1)
	switch name {
	case "null_terminated_bytes":
		form = "|S"
	case "raw_bytes":
		form = "|V"
	case "fixed_length_utf32":
		form, unit = "*U", 4
	case "numpy.datetime64", "numpy.timedelta64":
		return n.timeV3(name, conf)
	case "struct", "structured":
		return structType, nil
	default:
		return "", n.unknown("data_type", "the type %q", clip(name))
	}
	size, ok := conf.Get("length_bytes").Int64()
	if !ok || size < 1 || size > dtype.MaxSize || size%unit != 0 {
		return "", n.bad(V3Doc, "data_type", "length_bytes of %q: expected a multiple of %d from %d to %d, found %s", name, unit, unit, dtype.MaxSize, orMissing(conf.Get("length_bytes")))
	}
	return form + strconv.FormatInt(size/unit, 10), nil
}

func (n *node) timeV3(name string, conf jsontext.Value) (string, error) {
	form := map[string]string{"numpy.datetime64": "*M8", "numpy.timedelta64": "*m8"}[name]
	unit := conf.Get("unit").Text()
	count, ok := conf.Get("scale_factor").Int64()
	if conf.Get("scale_factor") == "" {
		count, ok = 1, true
	}
	switch {
	case !ok || count < 1 || count > math.MaxInt32 || unit == "" || strings.Trim(unit, "abcdefghijklmnopqrstuvwxyzYMDWμ") != "":
		return "", n.bad(V3Doc, "data_type", "%q: expected a unit and a scale_factor, found %s", name, orMissing(conf))
	case unit == "generic":
		return form, nil
	case count == 1:
		return form + "[" + unit + "]", nil
	}
	return form + "[" + strconv.FormatInt(count, 10) + unit + "]", nil
}

// elementV3 sets the element type. text is the result of typeV3, and order is the byte order
// of the codec "bytes", or "".
func (n *node) elementV3(a *Array, text, order string) (err error) {
	first := ""
	if len(a.Codecs) > 0 && strings.HasPrefix(a.Codecs[0].ID, "vlen-") {
		first = a.Codecs[0].ID
	}
	if wants := map[string]string{"string": "vlen-utf8", "bytes": "vlen-bytes"}[text]; first != wants {
		return n.bad(V3Doc, "codecs", "the data types \"string\" and \"bytes\" require the codecs \"vlen-utf8\" and \"vlen-bytes\", which no other type may use")
	}
	switch text {
	case "string":
		a.DType = dtype.Type{Kind: dtype.String}
	case "bytes":
		a.DType = dtype.Type{Kind: dtype.VlenBytes}
	case structType:
		v, size := n.doc(V3Doc).get("data_type"), 0
		old := order == "" && v.Get("name").Text() == "structured"
		if old {
			order = "<"
		}
		a.Fields, size, err = n.structV3(v, order, a.Layout)
		a.DType = dtype.Type{Kind: dtype.Raw, Size: size}
		if old && slices.ContainsFunc(a.Fields, func(f Field) bool { return f.fields != nil || f.Type.Order == dtype.Little }) {
			n.warn("%s: codecs: codec \"bytes\" has no \"endian\", so the fields are read as little-endian", n.key(V3Doc))
		}
		return err
	default:
		text, ordered := strings.CutPrefix(text, "*")
		if a.ArrayCodecs > 0 && order == "" { // the elements that "bytes" stores may have one byte
			order = "<"
		}
		if ordered && order == "" {
			return n.needsEndian()
		}
		if ordered {
			text = order + text
		}
		if err := n.simpleDType(a, text, a.Layout); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) needsEndian() error {
	return n.bad(V3Doc, "codecs", "codec \"bytes\" requires \"endian\" for elements of more than one byte")
}

// maxShards is the maximum number of levels of shards.
const maxShards = 8

// packbitsV3 is the id of the codec "packbits" of Zarr v3, which differs from that of
// numcodecs.
const packbitsV3 = "zarr.packbits"

// refusedV3 lists codecs that are not supported and take the place of the codec "bytes".
var refusedV3 = []string{"zfp", "zfpy", "pcodec", "n5_default", "conditional", "vlen-array", "zarrs.vlen", "zarrs.vlen_v2", "zarrs.optional"}

// shuffles maps the shuffle names of blosc in Zarr v3 to the numbers used in v2.
var shuffles = map[string]int64{"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}

// fillV3 parses fill_value, which is required. Raw bytes may be base64 or a list of
// numbers. GDAL writes null for an array of integers without a nodata value. A null is read
// as zero, except for types for which null has a meaning in Zarr v2.
//
// Source: Zarr v3, "Fill value representation"; zarr-extensions, "bytes"; GDAL 3.12.2,
// CreateMDArray with FORMAT=ZARR_V3.
func (n *node) fillV3(a *Array, v jsontext.Value) error {
	value, ok := []byte(nil), false
	isStruct := a.DType.Kind == dtype.Raw && a.Fields != nil
	switch {
	case isStruct:
		value, ok = n.structFill(a, v)
	case v.Kind() == jsontext.Array && (a.DType.Kind == dtype.Raw || a.DType.Kind == dtype.VlenBytes):
		ok = each(v, func(e jsontext.Value) bool {
			k, is := e.Int64()
			value = append(value, byte(k))
			return is && k&0xff == k
		})
		ok = ok && (a.DType.Size == 0 || len(value) == a.DType.Size)
	}
	if v != "" && v.Kind() == jsontext.Null {
		if value, ok = nullFill(a.DType); !ok {
			value, ok = make([]byte, a.DType.Size), true
		}
		n.warn("%s: fill_value is null, which Zarr v3 does not allow; the fill value is the default of the type", n.key(V3Doc))
	} else if !ok && !isStruct && v != "" && (v.Kind() != jsontext.Array || a.DType.Kind == dtype.Complex) {
		value, ok = n.fillOf(a, v)
	}
	if !ok {
		return n.bad(V3Doc, "fill_value", "%s is not a value of type %s", orMissing(v), a.DType)
	}
	a.Fill, a.HasFill = value, true
	return nil
}

// namesV3 parses dimension_names. A null is a dimension without a name, which is "" in
// DimNames.
func (n *node) namesV3(a *Array, v jsontext.Value, hint ParseHint) error {
	a.Scalar = a.Scalar || len(a.Shape) == 0
	if v == "" || v.Kind() == jsontext.Null {
		return nil
	}
	if v.Kind() != jsontext.Array || v.Len() != len(a.Shape) {
		return n.bad(V3Doc, "dimension_names", "expected an array of %d names, found %s", len(a.Shape), clip(v))
	}
	names := make([]string, 0, len(a.Shape))
	some := false
	err := v.Elems(func(_ int, e jsontext.Value) error {
		if e.Kind() != jsontext.String && e.Kind() != jsontext.Null {
			return n.bad(V3Doc, "dimension_names", "expected names and null, found %s", clip(e))
		}
		name := ""
		if e.Kind() == jsontext.String {
			if name = e.Text(); name != "" && !validName(name) {
				n.warn("%s: dimension_names: ignored invalid name %s", n.key(V3Doc), clip(e))
				name = ""
			}
		}
		names, some = append(names, name), some || name != ""
		return nil
	})
	if some && !hint.NoXarray && !a.Scalar {
		a.DimNames = names
	}
	return err
}

// fillAttrV3 parses the attribute _FillValue in the form that xarray writes to Zarr v3:
// floats as the base64 form of a little-endian float64, and bytes as base64. For a char it
// also accepts the value of the byte as a number.
//
// Source: xarray, FillValueCoder.
func fillAttrV3(nc dtype.NC, v jsontext.Value, bytes bool) (any, bool) {
	if k, ok := v.Int64(); ok && nc == dtype.NCChar && k&0xff == k {
		return string([]byte{byte(k)}), true
	}
	b, err := base64.StdEncoding.DecodeString(v.Text())
	if v.Kind() != jsontext.String || err != nil {
		return nil, false
	}
	if text := strings.TrimRight(string(b), "\x00"); bytes && nc == dtype.NCString {
		return []string{text}, true
	} else if bytes && nc == dtype.NCChar {
		return cmp.Or(text, "\x00"), true
	}
	if len(b) != 8 {
		return nil, false
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(b))
	switch nc {
	case dtype.NCFloat:
		return []float32{float32(f)}, true
	case dtype.NCDouble:
		return []float64{f}, true
	}
	return nil, false
}
