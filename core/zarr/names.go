package zarr

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// The document names of Zarr v2, of Zarr v3 and of LayoutV1.
const (
	GroupDoc        = ".zgroup"
	ArrayDoc        = ".zarray"
	AttrsDoc        = ".zattrs"
	ConsolidatedDoc = ".zmetadata" // holds all other documents
	V3Doc           = "zarr.json"
	OldGroupDoc     = ".nczgroup"
	OldArrayDoc     = ".nczarray"
)

// The reserved attribute names that are independent of the layout.
const (
	xarrayDims   = "_ARRAY_DIMENSIONS"
	scalarDim    = "_scalar_"
	ncProperties = "_NCProperties"
	fillAttr     = "_FillValue"
	textFillAttr = "_nczarr_fillvalue" // name of _FillValue in Zarr v3; see fillNameV3
	maxStrLen    = "_nczarr_maxstrlen"
)

// The values of type_alias in NCZarr 3, which are also types of attributes.
const (
	aliasChar   = "char"
	aliasString = "string"
	aliasJSON   = "json"
)

// block is one of the four blocks of NCZarr metadata.
type block uint8

const (
	superBlock block = iota // format version; root only
	groupBlock              // dimensions, arrays and subgroups of a group
	arrayBlock              // dimension references and storage of an array
	attrBlock               // types of attributes
	numBlocks
)

// place is a location where a block may be stored: a member of a document, or a whole
// document if member is empty.
type place struct {
	layout      Layout
	doc, member string
}

// places lists, for each block, all locations that any release has used, newest first.
//
// Source: stores written by NCZarr 4.8.0 to 4.10 and by earlier drafts; for LayoutNCZarr3
// the draft in netcdf-c 2ed1b28, docs/nczarr.md, appendix E.
var places = [numBlocks][]place{
	superBlock: {
		{LayoutNCZarr3, AttrsDoc, "_nczarr_superblock"},
		{LayoutNewest, AttrsDoc, "_nczarr_superblock"},
		{LayoutLower, GroupDoc, "_nczarr_superblock"},
		{LayoutUpper, GroupDoc, "_NCZARR_SUPERBLOCK"},
		{LayoutUpper, AttrsDoc, "_NCZARR_SUPERBLOCK"},
		{LayoutV1, ".nczarr", ""},
		{LayoutV1, ".NCZarr", ""},
	},
	groupBlock: {
		{LayoutNCZarr3, AttrsDoc, "_nczarr_group"},
		{LayoutNewest, AttrsDoc, "_nczarr_group"},
		{LayoutLower, GroupDoc, "_nczarr_group"},
		{LayoutUpper, GroupDoc, "_NCZARR_GROUP"},
		{LayoutUpper, AttrsDoc, "_NCZARR_GROUP"},
		{LayoutV1, OldGroupDoc, ""},
		{LayoutV1, ".ncgroup", ""},
	},
	arrayBlock: {
		{LayoutNCZarr3, AttrsDoc, "_nczarr_array"},
		{LayoutNewest, AttrsDoc, "_nczarr_array"},
		{LayoutLower, ArrayDoc, "_nczarr_array"},
		{LayoutUpper, ArrayDoc, "_NCZARR_ARRAY"},
		{LayoutUpper, AttrsDoc, "_NCZARR_ARRAY"},
		{LayoutV1, OldArrayDoc, ""},
		{LayoutV1, ".nczvar", ""},
		{LayoutV1, ".ncvar", ""},
	},
	attrBlock: {
		{LayoutNCZarr3, AttrsDoc, "_nczarr_attrs"},
		{LayoutNewest, AttrsDoc, "_nczarr_attr"},
		{LayoutUpper, AttrsDoc, "_NCZARR_ATTR"},
		{LayoutV1, ".nczattrs", ""},
		{LayoutV1, ".nczattr", ""},
	},
}

// attrsDocs are the names of the attributes document, the newest first.
var attrsDocs = []string{AttrsDoc, ".zattr"}

// reserved reports whether NCZarr reserves an attribute name in a version of Zarr.
func reserved(name string, v3 bool) bool {
	if name == xarrayDims {
		return true
	}
	return (strings.HasPrefix(name, "_nczarr_") || strings.HasPrefix(name, "_NCZARR_")) && isPlace(name, v3)
}

// isPlace reports whether name is a member name of a block in any layout of a version of
// Zarr.
func isPlace(name string, v3 bool) bool {
	for _, list := range places {
		for _, p := range list {
			if p.member == name && p.layout.row().v3 == v3 {
				return true
			}
		}
	}
	return false
}

// docNames are the base names of the metadata documents of all layouts, including
// consolidated metadata and Zarr v3, sorted.
var docNames = slices.Compact(slices.Sorted(slices.Values(slices.Concat(DatasetDocs(), LayoutV1.NodeDocs(), []string{ConsolidatedDoc}))))

// DocNames returns the base names of the metadata documents of all layouts, including
// consolidated metadata and Zarr v3, in sorted order.
func DocNames() []string { return slices.Clone(docNames) }

// IsZarrDoc reports whether name is one of [DocNames].
func IsZarrDoc(name string) bool { return slices.Contains(docNames, name) }

// String returns a human-readable description of the layout.
func (l Layout) String() string {
	switch l {
	case LayoutPure:
		return "pure Zarr"
	case LayoutNewest:
		return "NCZarr 2 (keys in .zattrs)"
	case LayoutLower:
		return "NCZarr 2 (lowercase keys in .zgroup and .zarray)"
	case LayoutUpper:
		return "NCZarr 2 (uppercase keys)"
	case LayoutV1:
		return "NCZarr 1"
	case LayoutV3:
		return "Zarr v3"
	case LayoutNCZarr3:
		return "NCZarr 3"
	}
	return "unknown layout"
}

// DetectLayout returns the layout of a dataset. root holds the documents of its root; see
// [RootDocs]. A group inside a larger dataset has no superblock: DetectLayout then
// returns the layout of the group's lists of arrays and groups, or LayoutPure if pure is
// set.
//
// It fails with ErrNotZarr if root holds no Zarr document or a malformed one, and with
// ErrUnsupported for NCZarr versions other than 1 and 2, or 3 on Zarr v3.
//
// Source: netcdf-c libnczarr/zinfer.c.
func DetectLayout(root Docs, pure bool) (Layout, error) {
	_, old := root[OldGroupDoc]
	root = maps.Clone(root)
	delete(root, OldGroupDoc)
	_, v3 := root[V3Doc]
	n, err := loadNode("/", root, v3)
	if err != nil {
		return LayoutPure, err
	}
	without := LayoutPure
	if v3 {
		without = LayoutV3
	}
	if pure && v3 {
		return without, nil
	}
	if len(n.docs) == 0 {
		return LayoutPure, ncerr.Errorf(ncerr.ErrNotZarr, "open", "/", "none of %s exists", strings.Join(DatasetDocs(), ", "))
	}
	v, p, err := n.block(superBlock)
	switch {
	case err != nil:
		return without, err
	case v != "":
		_, err = n.superVersion(p, v)
		return p.layout, err
	case v3 && root.IsArray():
		if v, p, err = n.block(arrayBlock); v != "" {
			without = p.layout
		}
		return without, err
	case pure || root.IsArray():
		return LayoutPure, nil
	case old && n.doc(GroupDoc) != nil && !root.HasNCZarrMembers():
		return LayoutV1, nil
	}
	v, p, err = n.block(groupBlock)
	arrays, _ := either(v, "arrays", "vars")
	if err == nil && listed(arrays) && listed(v.Get(p.layout.row().groups)) {
		return p.layout, nil
	}
	return without, err
}

// superVersion returns the version recorded in the superblock v, which was found at p.
func (n *node) superVersion(p place, v jsontext.Value) (string, error) {
	key, s := n.key(p.doc), p.layout.row()
	text := v.Get("version")
	if text == "" {
		text = v.Get("nczarr_version")
	}
	version := text.Text()
	if version == "" {
		return "", ncerr.Errorf(ncerr.ErrMetadata, "parse", key, "the superblock has no version")
	}
	if major, _, _ := strings.Cut(version, "."); s.v3 && major != "3" || !s.v3 && major != "1" && major != "2" {
		return "", ncerr.Errorf(ncerr.ErrUnsupported, "parse", key, "NCZarr version %q in the superblock is not supported", version)
	}
	if f := v.Get("format"); s.v3 && f != "" && f != "3" {
		return "", ncerr.Errorf(ncerr.ErrMetadata, "parse", key, "superblock: format: expected 3, found %s", clip(f))
	}
	return version, nil
}
