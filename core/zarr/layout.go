package zarr

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Other packages do not compare layouts, nor know which documents one has: they ask
// the functions of this file.

// NCZarr reports whether groups declare dimensions and list what is in them, and
// attributes have types of netCDF. The other layout is pure Zarr.
func (l Layout) NCZarr() bool { return !l.row().pure }

// KeepsUnlimited reports whether the layout can tell unlimited dimensions.
func (l Layout) KeepsUnlimited() bool { return l.row().sizeDims }

// CheckName fails with ncerr.ErrBadName if a dimension, group or variable cannot have
// that name because of the layout. Pure Zarr may have names that begin with a dot,
// which netCDF has not.
func (l Layout) CheckName(name string) error {
	switch {
	case IsOwn(name):
		return ncerr.Errorf(ncerr.ErrBadName, "define", name, "the name is that of a metadata document or of a mark")
	case l.NCZarr() && strings.HasPrefix(name, "."):
		return ncerr.Errorf(ncerr.ErrBadName, "define", name, "a name of netCDF may not begin with a dot; pure Zarr (mode=zarr) has such names")
	}
	return nil
}

// CheckType fails with ncerr.ErrUnsupported if arrays cannot have elements of type t.
// NCZarr, whose reader refuses a dataset for one foreign type, has netCDF's own only.
func (l Layout) CheckType(t dtype.Type) error {
	if l.NCZarr() && !t.Plain() {
		return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %s are for pure Zarr only: in NCZarr netcdf-c would refuse the dataset", t)
	}
	return nil
}

// AnyType reports whether arrays can have elements of all types that are read.
func (l Layout) AnyType() bool { return !l.NCZarr() }

// FixedStrings reports whether strings have a fixed length unless something else is
// asked for: in NCZarr, where netcdf-c refuses a dataset with others.
func (l Layout) FixedStrings() bool { return l.NCZarr() }

// ByteIsChar reports whether a string of one byte is read as a char.
func (l Layout) ByteIsChar() bool { return !l.NCZarr() }

// ScalarShape returns the shape that an array of rank 0 has in the store.
func (l Layout) ScalarShape() []int64 {
	if l.NCZarr() {
		return []int64{1}
	}
	return []int64{}
}

// MisreadWhenAbsent reports whether netCDF-C, for which NCZarr is written, reads
// absent chunks of elements of type t as the fill value with its bytes swapped.
//
// Source: libnetcdf 4.10.1 (libnczarr) on a big-endian variable.
func (l Layout) MisreadWhenAbsent(t dtype.Type) bool {
	return l.NCZarr() && t.Order == dtype.Big && t.Fixed() && t.Width() > 1
}

func (l Layout) row() *spelling {
	if int(l) < len(spellings) {
		return &spellings[l]
	}
	return &spellings[LayoutPure]
}

// IsArray reports whether the documents are those of an array.
func (d Docs) IsArray() bool {
	_, ok := d[ArrayDoc]
	return ok || nodeType(d[V3Doc]) == "array"
}

// IsGroup reports whether the documents are those of a group.
func (d Docs) IsGroup() bool {
	for name := range d {
		if kindOf(name) == groupNode {
			return true
		}
	}
	return nodeType(d[V3Doc]) == "group"
}

// IsDataset reports whether the documents of a root make it a dataset.
func (d Docs) IsDataset() bool {
	for name := range d {
		if name != OldGroupDoc {
			return true
		}
	}
	return false
}

// NamesNCZarr reports whether a document has members of NCZarr.
func (d Docs) NamesNCZarr() bool {
	for _, doc := range d {
		if bytes.Contains(doc, []byte(`"_nczarr_`)) || bytes.Contains(doc, []byte(`"_NCZARR_`)) {
			return true
		}
	}
	return false
}

// BothVersions reports whether there are documents of Zarr v2 and of v3.
func (d Docs) BothVersions() bool {
	_, v3 := d[V3Doc]
	_, group := d[GroupDoc]
	_, array := d[ArrayDoc]
	return v3 && (group || array)
}

// OnlyV2 removes the documents of Zarr v3, and reports whether there were any.
func (d Docs) OnlyV2() bool {
	_, there := d[V3Doc]
	delete(d, V3Doc)
	return there
}

// RootDocs returns the documents to fetch from the root of a dataset to tell what it
// is: enough for [DetectLayout], and, with those of [Layout.MoreRootDocs], for
// [ParseGroup].
func RootDocs() []string { return append(DatasetDocs(), OldGroupDoc) }

// DatasetDocs returns the documents of which one in the root makes a dataset.
func DatasetDocs() []string {
	return []string{GroupDoc, AttrsDoc, ArrayDoc, ".nczarr", ".NCZarr", V3Doc}
}

// IsDatasetDoc reports whether a document of that name in the root makes a dataset.
func IsDatasetDoc(name string) bool { return slices.Contains(DatasetDocs(), name) }

// MoreRootDocs returns the documents of a root that [RootDocs] lacks, and removes
// from root those that are not of the layout.
func (l Layout) MoreRootDocs(root Docs) []string {
	if l == LayoutV1 {
		return l.NodeDocs()
	}
	maps.DeleteFunc(root, func(name string, _ []byte) bool { return name == OldGroupDoc || l == LayoutV3 && name != V3Doc })
	return nil
}

// OtherVersion fails with ncerr.ErrUnsupported if one of the objects in the group at
// path makes it a node of another version of Zarr.
func (l Layout) OtherVersion(path string, objects []string) error {
	switch {
	case l == LayoutV3 && (slices.Contains(objects, GroupDoc) || slices.Contains(objects, ArrayDoc)):
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "a node of Zarr v2 in a dataset of Zarr v3")
	case l != LayoutV3 && slices.Contains(objects, V3Doc):
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "a node of Zarr v3 in a dataset of Zarr v2")
	}
	return nil
}

// NodeDocs returns the documents of a group or array. They need not all be there.
func (l Layout) NodeDocs() []string {
	if l == LayoutV3 {
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

// Wanted returns the documents to fetch of a node that is, or may be, an array, and of
// one that is a group. They lack those that such a node cannot have, and those that
// only a node that is no array has: if one turns out to be none, it needs those of
// [Layout.GroupDocs].
func (l Layout) Wanted(array bool) []string {
	other := ArrayDoc
	if array {
		other = GroupDoc
	}
	return slices.DeleteFunc(l.NodeDocs(), func(name string) bool { return name == other })
}

// GroupDocs returns the documents that only groups have, and which [Layout.Wanted]
// therefore lacks for what may be an array.
func (l Layout) GroupDocs() []string {
	if l == LayoutV3 {
		return nil
	}
	return []string{GroupDoc}
}

// LengthDocs returns the documents of a group that tell the lengths of its dimensions.
func (l Layout) LengthDocs() []string {
	if l == LayoutV3 {
		return []string{V3Doc}
	}
	return []string{GroupDoc, AttrsDoc, OldGroupDoc}
}

// GroupDoc returns the document that describes a group.
func (l Layout) GroupDoc() string {
	if l == LayoutV3 {
		return V3Doc
	}
	return GroupDoc
}

// ConsolidatedDoc returns the document of a root that repeats those of all nodes.
func (l Layout) ConsolidatedDoc() string {
	if l == LayoutV3 {
		return V3Doc
	}
	return ConsolidatedDoc
}

// ArrayDoc returns the document that describes an array.
func (l Layout) ArrayDoc() string {
	if l == LayoutV3 {
		return V3Doc
	}
	return ArrayDoc
}

// LongestDoc returns the longest name of a document of an array.
func (l Layout) LongestDoc() string {
	if l == LayoutV1 {
		return OldArrayDoc
	}
	return l.ArrayDoc()
}

// AnnouncingDocs are the documents that make a directory a node, in any version of
// Zarr, those of groups first.
func AnnouncingDocs() []string { return []string{GroupDoc, ArrayDoc, V3Doc} }

// AnchorDocs returns the documents of a root that stand for the dataset: a replacement
// writes them anew, and an update hardly ever does.
func (l Layout) AnchorDocs() []string {
	if l == LayoutV3 {
		return []string{V3Doc}
	}
	return []string{GroupDoc, ArrayDoc, OldGroupDoc, ConsolidatedDoc}
}

// Pure returns the layout in which a dataset of layout l is opened as pure Zarr.
func (l Layout) Pure() Layout {
	if l == LayoutV3 {
		return l
	}
	return LayoutPure
}

// Format returns the version of Zarr: 2 or 3.
func (l Layout) Format() int {
	if l == LayoutV3 {
		return 3
	}
	return 2
}

// FormatLayout returns the layout of pure Zarr of a version: v3 for 3, else v2.
func FormatLayout(version int) Layout {
	if version == 3 {
		return LayoutV3
	}
	return LayoutPure
}

// Keys returns how the chunks of a new array are named, with a separator, or the usual
// one if that is 0.
func (l Layout) Keys(separator byte) chunk.Keys {
	k := chunk.Keys{Separator: separator, Prefix: l == LayoutV3}
	switch {
	case separator != 0:
	case k.Prefix:
		k.Separator = '/'
	default:
		k.Separator = '.'
	}
	return k
}

// NamesSome reports whether an array can name some of its dimensions only.
func (l Layout) NamesSome() bool { return l == LayoutV3 }

// NeedsFill reports whether each array has a fill value.
func (l Layout) NeedsFill() bool { return l == LayoutV3 }

// OrderInChain reports whether the byte order of elements is that of a codec, which
// comes after those that make arrays of arrays; they have no byte order then.
func (l Layout) OrderInChain() bool { return l == LayoutV3 }

// Inline reports whether consolidated metadata is a member of the document of a group,
// rather than a document of its own.
func (l Layout) Inline() bool { return l == LayoutV3 }

// SameText reports whether a document need not be put, since the one that is there is
// the same. In v2 the text must be; in v3 a group is not written anew for the sake of
// blanks, since its document stands for all that it is.
func (l Layout) SameText(a, b []byte) bool {
	return bytes.Equal(a, b) || l == LayoutV3 && SameJSON(a, b)
}

// DescribesArray reports whether a document of that name may be that of an array.
func DescribesArray(name string) bool { return name == ArrayDoc || name == V3Doc }

// Announces reports whether a document of that name makes its directory a node.
func Announces(name string) bool { return slices.Contains(AnnouncingDocs(), name) }
