package zarr

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// The documents of Zarr v2, the one of v3 that is recognised, and those of LayoutV1.
const (
	GroupDoc        = ".zgroup"
	ArrayDoc        = ".zarray"
	AttrsDoc        = ".zattrs"
	ConsolidatedDoc = ".zmetadata" // holds all others
	V3Doc           = "zarr.json"
	OldGroupDoc     = ".nczgroup"
	OldArrayDoc     = ".nczarray"
)

// The reserved attribute names that belong to no layout.
const (
	xarrayDims   = "_ARRAY_DIMENSIONS"
	scalarDim    = "_scalar_"
	ncProperties = "_NCProperties"
	fillAttr     = "_FillValue"
	textFillAttr = "_nczarr_fillvalue" // in Zarr v3: see fillNameV3
	maxStrLen    = "_nczarr_maxstrlen"
)

// block is one of the four pieces of metadata that NCZarr adds.
type block uint8

const (
	superBlock block = iota // format version, at the root
	groupBlock              // dimensions, arrays and groups of a group
	arrayBlock              // dimension references and storage of an array
	attrBlock               // types of attributes
	numBlocks
)

// place is where a block can be: as a member of a document, or as a document
// of its own when member is empty.
type place struct {
	layout      Layout
	doc, member string
}

// places lists, for each block, every place that any release used, the newest
// first. It is all that reading knows about layouts.
//
// Source: NCZarr versions 4.8.0 to 4.10 (their stores), and the drafts before.
var places = [numBlocks][]place{
	superBlock: {
		{LayoutNewest, AttrsDoc, "_nczarr_superblock"},
		{LayoutLower, GroupDoc, "_nczarr_superblock"},
		{LayoutUpper, GroupDoc, "_NCZARR_SUPERBLOCK"},
		{LayoutUpper, AttrsDoc, "_NCZARR_SUPERBLOCK"},
		{LayoutV1, ".nczarr", ""},
		{LayoutV1, ".NCZarr", ""},
	},
	groupBlock: {
		{LayoutNewest, AttrsDoc, "_nczarr_group"},
		{LayoutLower, GroupDoc, "_nczarr_group"},
		{LayoutUpper, GroupDoc, "_NCZARR_GROUP"},
		{LayoutUpper, AttrsDoc, "_NCZARR_GROUP"},
		{LayoutV1, OldGroupDoc, ""},
		{LayoutV1, ".ncgroup", ""},
	},
	arrayBlock: {
		{LayoutNewest, AttrsDoc, "_nczarr_array"},
		{LayoutLower, ArrayDoc, "_nczarr_array"},
		{LayoutUpper, ArrayDoc, "_NCZARR_ARRAY"},
		{LayoutUpper, AttrsDoc, "_NCZARR_ARRAY"},
		{LayoutV1, OldArrayDoc, ""},
		{LayoutV1, ".nczvar", ""},
		{LayoutV1, ".ncvar", ""},
	},
	attrBlock: {
		{LayoutNewest, AttrsDoc, "_nczarr_attr"},
		{LayoutUpper, AttrsDoc, "_NCZARR_ATTR"},
		{LayoutV1, ".nczattrs", ""},
		{LayoutV1, ".nczattr", ""},
	},
}

// attrsDocs are the names of the attributes document, the newest first.
var attrsDocs = []string{AttrsDoc, ".zattr"}

// reserved reports whether an attribute name is NCZarr's own.
func reserved(name string) bool {
	if name == xarrayDims {
		return true
	}
	return (strings.HasPrefix(name, "_nczarr_") || strings.HasPrefix(name, "_NCZARR_")) && isPlace(name)
}

// reserved is reserved for a layout. Zarr v3 has no blocks of NCZarr.
func (s *spelling) reserved(name string) bool { return name == xarrayDims || !s.v3 && reserved(name) }

// isPlace reports whether a block can be a member of that name.
func isPlace(name string) bool {
	for _, list := range places {
		for _, p := range list {
			if p.member == name {
				return true
			}
		}
	}
	return false
}

// docNames are the base names of the metadata documents of all layouts, of
// consolidated metadata, and of Zarr v3.
var docNames = slices.Compact(slices.Sorted(slices.Values(slices.Concat(DatasetDocs(), LayoutV1.NodeDocs(), []string{ConsolidatedDoc}))))

// DocNames returns the base names of the metadata documents of any layout, of
// consolidated metadata, and of Zarr v3, in order.
func DocNames() []string { return slices.Clone(docNames) }

// IsZarrDoc reports whether name is among DocNames.
func IsZarrDoc(name string) bool { return slices.Contains(docNames, name) }

// String gives the name of the layout for people.
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
	}
	return "unknown layout"
}

// DetectLayout tells the layout of a dataset from the documents of its root, see
// [RootDocs]. A group of a larger dataset, which has no superblock, has the layout of
// its lists of arrays and groups; one that is opened as pure Zarr has none.
//
// Errors: ErrNotZarr when there is no document of Zarr or one is malformed,
// ErrUnsupported for versions of NCZarr other than 1 and 2.
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
	if v3 {
		return LayoutV3, nil
	}
	if len(n.docs) == 0 {
		return LayoutPure, ncerr.Errorf(ncerr.ErrNotZarr, "open", "/", "none of %s is there", strings.Join(DatasetDocs(), ", "))
	}
	v, p, err := n.block(superBlock)
	switch {
	case err != nil:
		return LayoutPure, err
	case v != "":
		_, err = superVersion(n.key(p.doc), v)
		return p.layout, err
	case pure || root.IsArray():
		return LayoutPure, nil
	case old && n.doc(GroupDoc) != nil && !root.NamesNCZarr():
		return LayoutV1, nil
	}
	v, p, err = n.block(groupBlock)
	if arrays, _ := either(v, "arrays", "vars"); err == nil && listed(arrays) && listed(v.Get("groups")) {
		return p.layout, nil
	}
	return LayoutPure, err
}

// superVersion gives the version in a superblock.
func superVersion(key string, v jsontext.Value) (string, error) {
	text := v.Get("version")
	if text == "" {
		text = v.Get("nczarr_version")
	}
	version := text.Text()
	if version == "" {
		return "", ncerr.Errorf(ncerr.ErrMetadata, "parse", key, "superblock: version is missing")
	}
	if major, _, _ := strings.Cut(version, "."); major != "1" && major != "2" {
		return "", ncerr.Errorf(ncerr.ErrUnsupported, "parse", key, "superblock: NCZarr version %q", version)
	}
	return version, nil
}
