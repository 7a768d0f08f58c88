package zarr

import "github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"

// spelling is all that writing knows about a layout.
type spelling struct {
	style                                         jsontext.Style
	pure, v3                                      bool
	superDoc, groupDoc, arrayDoc, attrDoc         string // document of each block
	superName, groupName, arrayName, attrName     string // member, empty: the document itself
	dims, arrays, refs                            string // names inside the blocks
	version                                       string // of the superblock
	char                                          string // dtype of char
	scalarWord                                    string // storage of a scalar
	scalarFlag, scalarDim                         bool   // "scalar": 1; ["_scalar_"]
	ownTypes, numericTypes                        bool   // types of the blocks themselves; numbers for types
	embedArrays                                   bool   // char text may become an array, else objects only
	alwaysAttrs, rootXarray, emptyAttrs, sizeDims bool   // see spellings
}

// spellings has one row a layout. alwaysAttrs: .zattrs is there even when it is
// empty (libnetcdf 4.10 dies of a group without it); rootXarray: dimension names only for arrays in the root group;
// emptyAttrs: an attribute block without types is {}; sizeDims: unlimited
// dimensions are told.
//
// Source: the documents that netCDF-C 4.8.0 to 4.10 write.
var spellings = [...]spelling{
	LayoutPure: {
		style: jsontext.Spaced, pure: true, char: "|S1", embedArrays: true, alwaysAttrs: true,
	},
	LayoutNewest: {
		style:    jsontext.Spaced,
		superDoc: AttrsDoc, groupDoc: AttrsDoc, arrayDoc: AttrsDoc, attrDoc: AttrsDoc,
		superName: "_nczarr_superblock", groupName: "_nczarr_group", arrayName: "_nczarr_array", attrName: "_nczarr_attr",
		dims: "dimensions", arrays: "arrays", refs: "dimension_references", version: "2.0.0", char: ">S1",
		scalarWord: "chunked", scalarFlag: true, scalarDim: true, ownTypes: true, embedArrays: true, alwaysAttrs: true, sizeDims: true,
	},
	LayoutLower: {
		style:    jsontext.Spaced,
		superDoc: GroupDoc, groupDoc: GroupDoc, arrayDoc: ArrayDoc, attrDoc: AttrsDoc,
		superName: "_nczarr_superblock", groupName: "_nczarr_group", arrayName: "_nczarr_array", attrName: "_nczarr_attr",
		dims: "dims", arrays: "vars", refs: "dimrefs", version: "2.0.0", char: ">S1",
		scalarWord: "chunked", scalarFlag: true, scalarDim: true, embedArrays: true, alwaysAttrs: true,
	},
	LayoutUpper: {
		style:    jsontext.Spaced,
		superDoc: GroupDoc, groupDoc: GroupDoc, arrayDoc: ArrayDoc, attrDoc: AttrsDoc,
		superName: "_NCZARR_SUPERBLOCK", groupName: "_NCZARR_GROUP", arrayName: "_NCZARR_ARRAY", attrName: "_NCZARR_ATTR",
		dims: "dims", arrays: "vars", refs: "dimrefs", version: "2.0.0", char: "<U1",
		scalarWord: "scalar", rootXarray: true, emptyAttrs: true,
	},
	LayoutV1: {
		style:    jsontext.Tight,
		superDoc: ".nczarr", groupDoc: OldGroupDoc, arrayDoc: OldArrayDoc, attrDoc: ".nczattrs",
		dims: "dims", arrays: "vars", refs: "dimension_references", version: "1.0.0", char: "<U1",
		scalarWord: "scalar", numericTypes: true, rootXarray: true,
	},
	LayoutV3: {
		style: jsontext.Spaced, pure: true, v3: true, char: "|S1", embedArrays: true,
	},
}
