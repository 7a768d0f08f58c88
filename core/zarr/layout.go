package zarr

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// The functions in this file describe the properties of layouts. Other packages call them
// instead of comparing layouts or naming documents.

// NCZarr reports whether groups declare dimensions and list their children, and
// attributes have netCDF types. It is false for pure Zarr.
func (l Layout) NCZarr() bool { return !l.row().pure }

// KeepsUnlimited reports whether the layout can record that a dimension is unlimited.
func (l Layout) KeepsUnlimited() bool { return l.row().sizeDims }

// CheckName fails with ncerr.ErrBadName if the layout does not allow name for a
// dimension, group or variable. Unlike netCDF, pure Zarr allows names that begin with a
// dot.
func (l Layout) CheckName(name string) error {
	switch {
	case IsOwn(name):
		return ncerr.Errorf(ncerr.ErrBadName, "define", name, "the name is reserved for metadata documents and marks")
	case l.NCZarr() && strings.HasPrefix(name, "."):
		return ncerr.Errorf(ncerr.ErrBadName, "define", name, "a netCDF name must not begin with a dot; pure Zarr (mode=zarr) allows it")
	}
	return nil
}

// RefusedByNetCDF reports whether netcdf-c, the main reader of NCZarr on Zarr v2, cannot open a
// dataset with this name of a variable, a dimension or, if isGroup is set, a group.
//
// Source: netcdf-c NC_check_name; libnetcdf 4.10.1 for names that are not in Unicode's normal
// form NFC, which it finds only in groups.
func (l Layout) RefusedByNetCDF(name string, isGroup bool) bool {
	if !l.NCZarr() || l.row().v3 || name == "" {
		return false
	}
	c := name[0]
	letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c >= utf8.RuneSelf
	return !letter || !isGroup && !norm.NFC.IsNormalString(name)
}

// CheckType fails with ncerr.ErrUnsupported if the layout does not allow elements of type
// t. NCZarr allows only netCDF's own types, because netcdf-c refuses a dataset with any
// other. On Zarr v3 these include strings of variable length.
func (l Layout) CheckType(t dtype.Type) error {
	if l.NCZarr() && !t.NCZarrNative() && (t.Fixed() || l.FixedStrings()) {
		return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "NCZarr does not support elements of type %s, because netcdf-c refuses a dataset that contains them; use pure Zarr (mode=zarr)", t)
	}
	return nil
}

// AllowsAnyType reports whether the layout allows elements of every readable type.
func (l Layout) AllowsAnyType() bool { return !l.NCZarr() }

// FixedStrings reports whether strings have a fixed length by default. They do in NCZarr
// on Zarr v2, because netcdf-c refuses a dataset with strings of variable length.
func (l Layout) FixedStrings() bool { return l.NCZarr() && !l.row().v3 }

// ScalarCodecs returns those of the given codecs that a scalar may have. netcdf-c cannot
// open an NCZarr dataset on Zarr v2 that contains a scalar compressed by blosc.
func (l Layout) ScalarCodecs(codecs []CodecSpec) []CodecSpec {
	if !l.NCZarr() || l.row().v3 {
		return codecs
	}
	return slices.DeleteFunc(slices.Clone(codecs), func(c CodecSpec) bool { return c.ID == "blosc" })
}

// AllowsCodec reports whether zarr-python supports the codec for elements of type t. It refuses
// an array of Zarr v3 that packs numbers with packbits, which takes bool.
func (l Layout) AllowsCodec(id string, t dtype.Type) bool {
	return !l.row().v3 || id != "packbits" || t.Kind == dtype.Bool
}

// ByteIsChar reports whether a one-byte string is read as a char.
func (l Layout) ByteIsChar() bool { return !l.NCZarr() }

// ScalarShape returns the stored shape of an array of rank 0.
func (l Layout) ScalarShape() []int64 {
	if l.NCZarr() && !l.row().v3 {
		return []int64{1}
	}
	return []int64{}
}

// AbsentMisreadByNetCDF reports whether netcdf-c, the main reader of NCZarr on Zarr v2,
// reads absent chunks of type t as the fill value with its bytes swapped.
//
// Source: libnetcdf 4.10.1 (libnczarr) on a big-endian variable.
func (l Layout) AbsentMisreadByNetCDF(t dtype.Type) bool {
	return l.NCZarr() && !l.row().v3 && t.Order == dtype.Big && t.Fixed() && t.Width() > 1
}

func (l Layout) row() *spelling {
	if int(l) < len(spellings) {
		return &spellings[l]
	}
	return &spellings[LayoutPure]
}

// IsArray reports whether d holds the documents of an array.
func (d Docs) IsArray() bool {
	_, ok := d[ArrayDoc]
	return ok || nodeType(d[V3Doc]) == "array"
}

// IsGroup reports whether d holds the documents of a group.
func (d Docs) IsGroup() bool {
	for name := range d {
		if kindOf(name) == groupNode {
			return true
		}
	}
	return nodeType(d[V3Doc]) == "group"
}

// IsDataset reports whether d, the documents of a root directory, make that directory a
// dataset.
func (d Docs) IsDataset() bool {
	for name := range d {
		if name != OldGroupDoc {
			return true
		}
	}
	return false
}

// HasNCZarrMembers reports whether any document in d has NCZarr members.
func (d Docs) HasNCZarrMembers() bool {
	for name, doc := range d {
		for _, list := range places {
			for _, p := range list {
				if p.member != "" && p.layout.row().v3 == (name == V3Doc) && bytes.Contains(doc, []byte(`"`+p.member+`"`)) {
					return true
				}
			}
		}
	}
	return false
}

// HasNCZarrForm reports whether d has NCZarr members or is a char array with NCZarr's dtype
// for char, which differs from that of pure Zarr v2.
func (d Docs) HasNCZarrForm() bool {
	v, err := jsontext.Check(string(d[ArrayDoc]))
	return d.HasNCZarrMembers() || err == nil && v.Get("dtype").Text() == ">S1"
}

// BothVersions reports whether d holds documents of both Zarr v2 and Zarr v3.
func (d Docs) BothVersions() bool {
	_, v3 := d[V3Doc]
	_, group := d[GroupDoc]
	_, array := d[ArrayDoc]
	return v3 && (group || array)
}

// RemoveV3 removes the documents of Zarr v3 and reports whether d had any.
func (d Docs) RemoveV3() bool {
	_, there := d[V3Doc]
	delete(d, V3Doc)
	return there
}

// RootDocs returns the names of the root documents that identify a dataset. They suffice
// for [DetectLayout]. [ParseGroup] also needs the documents named by
// [Layout.MoreRootDocs].
func RootDocs() []string { return append(DatasetDocs(), OldGroupDoc) }

// DatasetDocs returns the names of the documents that make a directory the root of a
// dataset. One of them is enough.
func DatasetDocs() []string {
	return []string{GroupDoc, AttrsDoc, ArrayDoc, ".nczarr", ".NCZarr", V3Doc}
}

// IsDatasetDoc reports whether a root document of that name makes the directory a
// dataset.
func IsDatasetDoc(name string) bool { return slices.Contains(DatasetDocs(), name) }

// MoreRootDocs returns the names of the root documents that [RootDocs] lacks. It removes
// the documents of other layouts from root.
func (l Layout) MoreRootDocs(root Docs) []string {
	if l == LayoutV1 {
		return l.NodeDocs()
	}
	maps.DeleteFunc(root, func(name string, _ []byte) bool { return name == OldGroupDoc || l.row().v3 && name != V3Doc })
	return nil
}

// CheckVersion fails with ncerr.ErrUnsupported if the node at path belongs to another
// Zarr version. objects holds the names of the objects in it.
func (l Layout) CheckVersion(path string, objects []string) error {
	switch {
	case l.row().v3 && (slices.Contains(objects, GroupDoc) || slices.Contains(objects, ArrayDoc)):
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "the node is Zarr v2, but the dataset is Zarr v3")
	case !l.row().v3 && slices.Contains(objects, V3Doc):
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "the node is Zarr v3, but the dataset is Zarr v2")
	}
	return nil
}

// NodeDocs returns the names of all documents that a group or array may have.
func (l Layout) NodeDocs() []string {
	if l.row().v3 {
		return []string{V3Doc}
	}
	names := []string{GroupDoc, ArrayDoc, AttrsDoc}
	if l != LayoutV1 {
		return names
	}
	for _, list := range places[groupBlock:] {
		for _, p := range list {
			if p.layout == LayoutV1 {
				names = append(names, p.doc)
			}
		}
	}
	return append(names, attrsDocs[1:]...)
}

// DocsToFetch returns the names of the documents to fetch for a node. If array is true, the
// node may be an array, and the documents that only groups have are omitted; a node that
// proves to be a group also needs the documents named by [Layout.GroupDocs]. If array is
// false, the node is a group, and the documents that only arrays have are omitted.
func (l Layout) DocsToFetch(array bool) []string {
	other := ArrayDoc
	if array {
		other = GroupDoc
	}
	return slices.DeleteFunc(l.NodeDocs(), func(name string) bool { return name == other })
}

// GroupDocs returns the names of the documents that only groups have. [Layout.DocsToFetch]
// omits them for a node that may be an array.
func (l Layout) GroupDocs() []string {
	if l.row().v3 {
		return nil
	}
	return []string{GroupDoc}
}

// LengthDocs returns the names of the group documents that record dimension lengths.
func (l Layout) LengthDocs() []string {
	if l.row().v3 {
		return []string{V3Doc}
	}
	return []string{GroupDoc, AttrsDoc, OldGroupDoc}
}

// GroupDoc returns the name of the document that describes a group.
func (l Layout) GroupDoc() string {
	if l.row().v3 {
		return V3Doc
	}
	return GroupDoc
}

// ConsolidatedDoc returns the name of the root document that repeats the documents of all
// nodes.
func (l Layout) ConsolidatedDoc() string {
	if l.row().v3 {
		return V3Doc
	}
	return ConsolidatedDoc
}

// ArrayDoc returns the name of the document that describes an array.
func (l Layout) ArrayDoc() string {
	if l.row().v3 {
		return V3Doc
	}
	return ArrayDoc
}

// LongestDoc returns the longest document name of an array.
func (l Layout) LongestDoc() string {
	if l == LayoutV1 {
		return OldArrayDoc
	}
	return l.ArrayDoc()
}

// NodeDocNames returns the names of the documents that make a directory a node in any
// Zarr version, group documents first.
func NodeDocNames() []string { return []string{GroupDoc, ArrayDoc, V3Doc} }

// IdentityDocs returns the names of the root documents that identify the dataset.
// Replacing a dataset rewrites these documents; an update rarely does.
func (l Layout) IdentityDocs() []string {
	if l.row().v3 {
		return []string{V3Doc}
	}
	return []string{GroupDoc, ArrayDoc, OldGroupDoc, ConsolidatedDoc}
}

// Pure returns the layout to use if a dataset of layout l is opened as pure Zarr.
func (l Layout) Pure() Layout { return FormatLayout(l.Format(), false) }

// Format returns the Zarr version, 2 or 3.
func (l Layout) Format() int {
	if l.row().v3 {
		return 3
	}
	return 2
}

// FormatLayout returns the newest layout of a Zarr version, of NCZarr or of pure Zarr. Any
// version other than 3 counts as 2.
func FormatLayout(version int, nczarr bool) Layout {
	switch v3 := version == 3; {
	case v3 && nczarr:
		return LayoutNCZarr3
	case v3:
		return LayoutV3
	case nczarr:
		return LayoutNewest
	}
	return LayoutPure
}

// Keys returns the chunk key format of a new array. If separator is 0, it uses the
// default separator of the layout.
func (l Layout) Keys(separator byte) chunk.Keys {
	k := chunk.Keys{Separator: separator, Prefix: l.row().v3}
	switch {
	case separator != 0:
	case k.Prefix:
		k.Separator = '/'
	default:
		k.Separator = '.'
	}
	return k
}

// AllowsUnnamedDims reports whether an array can name only some of its dimensions.
func (l Layout) AllowsUnnamedDims() bool { return l.row().v3 }

// NeedsFill reports whether every array must have a fill value.
func (l Layout) NeedsFill() bool { return l.row().v3 }

// StoredFill returns the fill value that readers of the layout see after fill, an element
// of type t, was written. Zarr v2 has only one NaN, so the sign and the payload of a NaN
// are lost. For all other values, and in Zarr v3, the result is fill.
func (l Layout) StoredFill(t dtype.Type, fill []byte) []byte {
	if l.row().v3 || !isNaN(t, fill) {
		return fill
	}
	f, ok := floatOf(`"NaN"`, 64)
	b, ok := encoded(t, []float64{f}, ok)
	if !ok {
		return fill
	}
	return b
}

// ByteOrderInCodec reports whether a codec determines the byte order of the elements. That
// codec follows the array-to-array codecs, whose elements have no byte order.
func (l Layout) ByteOrderInCodec() bool { return l.row().v3 }

// AlwaysAttrs reports whether each array has a document of attributes, even if it has no
// attributes.
func (l Layout) AlwaysAttrs() bool { return l.row().alwaysAttrs }

// HasShards reports whether chunks can be stored in shards.
func (l Layout) HasShards() bool { return l.row().v3 }

// HasRectilinear reports whether the chunks of an array can differ in shape.
func (l Layout) HasRectilinear() bool { return l == LayoutV3 }

// Inline reports whether consolidated metadata is a member of the group document rather
// than a separate document.
func (l Layout) Inline() bool { return l.row().v3 }

// SameContent reports whether a and b are equivalent contents of a document. In v2 the
// bytes must be equal. In v3 equal JSON is enough, so that a zarr.json, which holds all
// metadata of a node, is not rewritten for white space alone.
func (l Layout) SameContent(a, b []byte) bool {
	return bytes.Equal(a, b) || l.row().v3 && SameJSON(a, b)
}

// DescribesArray reports whether a document of that name may describe an array.
func DescribesArray(name string) bool { return name == ArrayDoc || name == V3Doc }

// IsNodeDoc reports whether a document of that name makes its directory a node.
func IsNodeDoc(name string) bool { return slices.Contains(NodeDocNames(), name) }
