package zarr

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// ParseHint describes the dataset that an array belongs to.
type ParseHint struct {
	// Layout is the layout of the dataset; see [DetectLayout]. On Zarr v2 it applies only
	// to an array without NCZarr metadata of its own.
	Layout Layout
	// Pure makes the parser ignore NCZarr's blocks.
	Pure bool
	// NoXarray makes the parser ignore _ARRAY_DIMENSIONS.
	NoXarray bool
	// NCProperties is the provenance attribute of the root. The parser uses it to
	// recognize the defects of known releases.
	NCProperties string
}

// arrayDoc holds the members of a .zarray document.
type arrayDoc struct {
	shape, chunks, dtype, fill, order, compressor, filters, separator jsontext.Value
}

// Parser parses the documents of many arrays, one after the other, and reuses its memory.
// The zero Parser is ready for use. It is not safe for concurrent use.
type Parser struct{ n node }

// ParseArray parses the documents of one array. See [Parser.Array].
func ParseArray(path string, docs Docs, hint ParseHint) (*Array, error) {
	return new(Parser).Array(path, docs, hint)
}

// Array parses the documents of the array at path, in any layout. hint describes the
// dataset that the array belongs to. The result shares memory with docs, which must not
// be modified afterwards.
//
// Every error contains the key of the document and the name of the member. Array fails
// with
//
//   - ErrNoObject if neither .zarray nor zarr.json exists,
//   - ErrNotZarr for a document that is not a JSON object,
//   - ErrMetadata for a missing or malformed member,
//   - ErrBadChunk for an invalid chunk shape,
//   - ErrBadType for an unknown element type,
//   - ErrUnsupported for an unknown Zarr v3 extension,
//   - ErrLimit for a rank above chunk.MaxRank or a size above math.MaxInt64 bytes.
//
// Source: Zarr v2, "Arrays"; netcdf-c libnczarr/zsync.c.
func (p *Parser) Array(path string, docs Docs, hint ParseHint) (*Array, error) {
	n := &p.n
	if err := n.load(path, docs, hint.Layout.row().v3); err != nil {
		return nil, err
	}
	if n.v3 {
		return n.arrayV3(hint)
	}
	doc := n.doc(ArrayDoc)
	if doc == nil {
		return nil, ncerr.New(ncerr.ErrNoObject, "parse", n.key(ArrayDoc), nil)
	}
	d := readArrayDoc(doc)
	a := &Array{Layout: LayoutPure}
	if err := n.shape(a, d); err != nil {
		return nil, err
	}
	blk, err := n.arrayBlock(a, hint)
	if err != nil {
		return nil, err
	}
	r := attrReader{n: n}
	if err := r.load(true); err != nil {
		return nil, err
	}
	a.Layout = effective(a.Layout, r.place, blk != "", hint)
	if err := n.elements(a, d, hint); err != nil {
		return nil, err
	}
	if a.Codecs, err = n.codecs(d); err != nil {
		return nil, err
	}
	a.NoCompressor = len(a.Codecs) > 0 && !d.compresses()
	if a.DType.Kind == dtype.String && len(a.Codecs) > 0 && a.Codecs[0].ID == "vlen-bytes" {
		a.DType.Kind = dtype.VlenBytes
	}
	if err := n.dimNames(a, hint); err != nil {
		return nil, err
	}
	if hint.Pure {
		r.types = typeList{}
	}
	r.fill = a.DType.NC()
	a.Attrs = r.all()
	n.compareFill(a)
	a.MaxStrLen = maxStrLenOf(a.Attrs)
	a.Warnings = n.warnings
	return a, nil
}

// effective returns the layout of an array: own if the array has a block, or else the
// layout of the dataset. If the dataset is pure Zarr, it returns the layout of the
// array's attribute types. It returns LayoutPure if hint.Pure is set.
func effective(own Layout, attrs place, hasBlock bool, hint ParseHint) Layout {
	switch {
	case hint.Pure:
		return LayoutPure
	case hasBlock:
		return own
	case hint.Layout != LayoutPure:
		return hint.Layout
	}
	return attrs.layout
}

func readArrayDoc(doc *document) arrayDoc {
	return arrayDoc{
		shape: doc.get("shape"), chunks: doc.get("chunks"), dtype: doc.get("dtype"), fill: doc.get("fill_value"),
		order: doc.get("order"), compressor: doc.get("compressor"), filters: doc.get("filters"), separator: doc.get("dimension_separator"),
	}
}

// shape parses shape, chunks, order and dimension_separator.
func (n *node) shape(a *Array, d arrayDoc) (err error) {
	if a.Shape, err = n.lengths("shape", d.shape); err != nil {
		return err
	}
	if a.Chunks, err = n.lengths("chunks", d.chunks); err != nil {
		return err
	}
	if len(a.Chunks) != len(a.Shape) {
		return ncerr.Errorf(ncerr.ErrBadChunk, "parse", n.key(ArrayDoc), "chunks has %d dimensions, but shape has %d", len(a.Chunks), len(a.Shape))
	}
	for i, c := range a.Chunks {
		if c == 0 && a.Shape[i] != 0 {
			return ncerr.Errorf(ncerr.ErrBadChunk, "parse", n.key(ArrayDoc), "chunks: dimension %d is 0", i)
		}
		a.Chunks[i] = max(c, 1)
	}
	switch d.order {
	case "", "null", `"C"`:
	case `"F"`:
		if len(a.Shape) > 1 {
			a.Transpose = reversed(len(a.Shape))
		}
	default:
		return n.bad(ArrayDoc, "order", `expected "C" or "F", found %s`, clip(d.order))
	}
	switch d.separator {
	case "", "null", `"."`:
		a.Keys.Separator = '.'
	case `"/"`, `"\/"`:
		a.Keys.Separator = '/'
	default:
		return n.bad(ArrayDoc, "dimension_separator", `expected "." or "/", found %s`, clip(d.separator))
	}
	return nil
}

// reversed returns the permutation rank-1, ..., 0.
func reversed(rank int) []int {
	t := make([]int, rank)
	for i := range t {
		t[i] = rank - 1 - i
	}
	return t
}

// typicalRank is the initial capacity for lists of dimensions.
const typicalRank = 4

var errRank = errors.New("too many dimensions")

// lengths parses an array of lengths.
func (n *node) lengths(member string, v jsontext.Value) ([]int64, error) {
	if v == "" {
		return nil, n.bad(ArrayDoc, member, "the member is missing")
	}
	if v.Kind() != jsontext.Array {
		return nil, n.bad(ArrayDoc, member, "expected an array of lengths, found %s", clip(v))
	}
	list := make([]int64, 0, typicalRank)
	err := v.Elems(func(i int, e jsontext.Value) error {
		if i == chunk.MaxRank {
			return errRank
		}
		k, ok := e.Int64()
		if !ok || k < 0 {
			return n.bad(ArrayDoc, member, "dimension %d: expected a length from 0 to %d, found %s", i, int64(math.MaxInt64), clip(e))
		}
		list = append(list, k)
		return nil
	})
	if errors.Is(err, errRank) {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "%s has more than the limit of %d dimensions", member, chunk.MaxRank)
	}
	return list, err
}

// elements parses dtype and fill_value, and checks that all sizes in bytes fit in an
// int64.
func (n *node) elements(a *Array, d arrayDoc, hint ParseHint) (err error) {
	switch d.dtype.Kind() {
	case jsontext.Invalid:
		return n.bad(ArrayDoc, "dtype", "the member is missing")
	case jsontext.Array, jsontext.String:
	default:
		return n.bad(ArrayDoc, "dtype", "expected a string or a list of fields, found %s", clip(d.dtype))
	}
	layout := a.Layout
	if layout == LayoutPure && hasOldChars(hint.NCProperties) {
		layout = LayoutUpper
	}
	if d.dtype.Kind() == jsontext.Array {
		err = n.structured(a, d.dtype, layout)
	} else {
		err = n.simpleDType(a, d.dtype.Text(), layout)
	}
	if err != nil {
		return err
	}
	if a.DType.Order == dtype.Big && StoresLittleEndian(hint.NCProperties) {
		n.warn("%s: dtype: netcdf-c 4.9.0 wrote %s but stored little-endian bytes, so they are read as little-endian", n.key(ArrayDoc), d.dtype.Text())
		a.DType.Order = dtype.Little
	}
	for _, s := range []struct {
		member  string
		lengths []int64
	}{{"shape", a.Shape}, {"chunks", a.Chunks}} {
		if _, ok := product(s.lengths, int64(max(a.DType.Size, 1))); !ok {
			return ncerr.Errorf(ncerr.ErrLimit, "parse", n.key(ArrayDoc), "%s: the size exceeds the limit of %d bytes", s.member, int64(math.MaxInt64))
		}
	}
	return n.fill(a, d.fill)
}

// simpleDType parses a dtype that is a single string.
func (n *node) simpleDType(a *Array, text string, layout Layout) (err error) {
	if a.DType, err = dtype.Parse(text); err != nil {
		return ncerr.Errorf(ncerr.KindOf(err), "parse", n.key(ArrayDoc), "dtype: %w", cause(err))
	}
	switch {
	case isChar(a.DType, text, layout):
		a.DType = dtype.NCChar.Type(dtype.OrderNone)
	case a.DType.Kind == dtype.Complex:
		a.Fields = complexFields(a.DType)
	}
	return nil
}

// cause returns the error inside an *ncerr.Error, so that a wrapping error does not
// repeat its kind.
func cause(err error) error {
	var e *ncerr.Error
	if errors.As(err, &e) && e.Err != nil {
		return fmt.Errorf("%q: %w", e.Key, e.Err)
	}
	return err
}

// isChar reports whether a dtype is a netCDF char. t is the parsed dtype, and text is its
// spelling in the document.
//
//   - In NCZarr ">S1" is char, and any other S1 is a string of one byte.
//   - In the layouts of 4.8.0 to 4.9.0, and in pure Zarr written by those releases,
//     one-character U types are char too, stored as one byte per element (not four).
//   - In pure Zarr any S1 is char, and U1 is four bytes, as in NumPy.
func isChar(t dtype.Type, text string, layout Layout) bool {
	old := layout == LayoutUpper || layout == LayoutV1
	switch {
	case t.Kind == dtype.Bytes && t.Size == 1:
		return layout.ByteIsChar() || text == ">S1"
	case t.Kind == dtype.Unicode && t.Size == 4:
		return old
	}
	return false
}

// StoresLittleEndian reports whether ncproperties, the provenance attribute of the
// root, contains the version netcdf-c 4.9.0. That release stores and reads
// little-endian bytes even for types that it declares big-endian. Big-endian data
// cannot be recognized in such a dataset, so writers must not add any.
func StoresLittleEndian(ncproperties string) bool {
	return strings.Contains(ncproperties, "netcdf=4.9.0,")
}

// hasOldChars reports whether the dataset was written by a release that stored chars as
// "<U1".
func hasOldChars(ncproperties string) bool {
	for _, v := range []string{"netcdf=4.8.", "netcdf=4.9.0"} {
		if strings.Contains(ncproperties, v) {
			return true
		}
	}
	return false
}

// product returns the product of lengths and size; ok is false if it exceeds 63 bits.
// Zero lengths are treated as 1, so that they do not mask an overflow of other lengths.
func product(lengths []int64, size int64) (p int64, ok bool) {
	p = size
	for _, n := range lengths {
		n = max(n, 1)
		if p > math.MaxInt64/n {
			return 0, false
		}
		p *= n
	}
	return p, true
}

// maxStrLenOf returns the value of the attribute _nczarr_maxstrlen, or 0.
func maxStrLenOf(attrs []Attr) int {
	for _, at := range attrs {
		if at.Name != maxStrLen {
			continue
		}
		dst := make([]int64, dtype.Len(at.Value))
		if b, t, ok := dtype.View(at.Value); ok && len(dst) == 1 && dtype.Decode(dst, b, t) == nil && dst[0] > 0 && dst[0] <= dtype.MaxSize {
			return int(dst[0])
		}
	}
	return 0
}
