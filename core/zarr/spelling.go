package zarr

import "github.com/seed-695719ce/nczarr/core/internal/jsontext"

// spelling describes how a layout is written.
type spelling struct {
	style                                         jsontext.Style
	pure, v3                                      bool   // no NCZarr metadata; documents of Zarr v3
	superDoc, groupDoc, arrayDoc, attrDoc         string // document that holds each block
	superName, groupName, arrayName, attrName     string // member of that document; empty if the block is the document
	dims, arrays, groups, refs                    string // names inside the blocks
	version                                       string // version in the superblock
	json                                          string // type of attributes that are JSON
	char                                          string // dtype of char; in NCZarr 3 the attribute type of char
	scalarWord                                    string // storage of a scalar
	scalarFlag, scalarDim                         bool   // writes "scalar": 1; writes ["_scalar_"]
	ownTypes, numericTypes                        bool   // types include the types of the blocks; types are numbers
	embedArrays                                   bool   // char attributes that hold a JSON array, not only an object, are written as that value
	alwaysAttrs, rootXarray, emptyAttrs, sizeDims bool   // see spellings
}

// spellings holds one row per layout.
//
//   - alwaysAttrs: .zattrs is written even if empty (libnetcdf 4.10 crashes on a group
//     without it).
//   - rootXarray: dimension names are written only for arrays in the root group.
//   - emptyAttrs: an attribute block without types is {}.
//   - sizeDims: unlimited dimensions are marked as such.
//
// Source: documents written by netcdf-c 4.8.0 to 4.10; for LayoutNCZarr3 the draft cited in
// the comment on places.
var spellings = [...]spelling{
	LayoutPure: {
		style: jsontext.Spaced, pure: true, char: "|S1", embedArrays: true, alwaysAttrs: true,
	},
	LayoutNewest: {
		style:    jsontext.Spaced,
		superDoc: AttrsDoc, groupDoc: AttrsDoc, arrayDoc: AttrsDoc, attrDoc: AttrsDoc,
		superName: "_nczarr_superblock", groupName: "_nczarr_group", arrayName: "_nczarr_array", attrName: "_nczarr_attr",
		dims: "dimensions", arrays: "arrays", groups: "groups", refs: "dimension_references", version: "2.0.0", char: ">S1", json: "|J0",
		scalarWord: "chunked", scalarFlag: true, scalarDim: true, ownTypes: true, embedArrays: true, alwaysAttrs: true, sizeDims: true,
	},
	LayoutLower: {
		style:    jsontext.Spaced,
		superDoc: GroupDoc, groupDoc: GroupDoc, arrayDoc: ArrayDoc, attrDoc: AttrsDoc,
		superName: "_nczarr_superblock", groupName: "_nczarr_group", arrayName: "_nczarr_array", attrName: "_nczarr_attr",
		dims: "dims", arrays: "vars", groups: "groups", refs: "dimrefs", version: "2.0.0", char: ">S1",
		scalarWord: "chunked", scalarFlag: true, scalarDim: true, embedArrays: true, alwaysAttrs: true,
	},
	LayoutUpper: {
		style:    jsontext.Spaced,
		superDoc: GroupDoc, groupDoc: GroupDoc, arrayDoc: ArrayDoc, attrDoc: AttrsDoc,
		superName: "_NCZARR_SUPERBLOCK", groupName: "_NCZARR_GROUP", arrayName: "_NCZARR_ARRAY", attrName: "_NCZARR_ATTR",
		dims: "dims", arrays: "vars", groups: "groups", refs: "dimrefs", version: "2.0.0", char: "<U1",
		scalarWord: "scalar", rootXarray: true, emptyAttrs: true,
	},
	LayoutV1: {
		style:    jsontext.Tight,
		superDoc: ".nczarr", groupDoc: OldGroupDoc, arrayDoc: OldArrayDoc, attrDoc: ".nczattrs",
		dims: "dims", arrays: "vars", groups: "groups", refs: "dimension_references", version: "1.0.0", char: "<U1",
		scalarWord: "scalar", numericTypes: true, rootXarray: true,
	},
	LayoutV3: {
		style: jsontext.Spaced, pure: true, v3: true, char: "|S1", embedArrays: true,
	},
	LayoutNCZarr3: {
		style: jsontext.Spaced, v3: true,
		superDoc: AttrsDoc, groupDoc: AttrsDoc, arrayDoc: AttrsDoc, attrDoc: AttrsDoc,
		superName: "_nczarr_superblock", groupName: "_nczarr_group", arrayName: "_nczarr_array", attrName: "_nczarr_attrs",
		dims: "dimensions", arrays: "arrays", groups: "subgroups", refs: "dimension_references", version: "3.0.0", char: aliasChar, json: aliasJSON,
		ownTypes: true, embedArrays: true, sizeDims: true,
	},
}
