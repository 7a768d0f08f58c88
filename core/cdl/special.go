package cdl

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

func textAttr(name, value string) dataset.Attr {
	return dataset.Attr{Name: name, Type: dtype.NCChar, Value: value}
}

func intsAttr(name string, values ...int32) dataset.Attr {
	return dataset.Attr{Name: name, Type: dtype.NCInt, Value: values}
}

// specialAttrs returns the special attributes of a variable in the order of ncdump. If
// filters is set, _Filter contains every filter.
//
// Source: netcdf-c ncdump, option -s. Unlike in ncdump, a scalar has no _ChunkSizes:
// ncdump prints an empty list there, which is not valid CDL.
func specialAttrs(v *dataset.Var, filters bool) []dataset.Attr {
	attrs := storageAttrs(v)
	shuffle, deflate, sum, numbers := splitCodecs(v.Group().Dataset().Codecs(), v.Codecs(), filters)
	if sum {
		attrs = append(attrs, textAttr("_Fletcher32", "true"))
	}
	if shuffle {
		attrs = append(attrs, textAttr("_Shuffle", "true"))
	}
	if deflate >= 0 {
		attrs = append(attrs, intsAttr("_DeflateLevel", deflate))
	}
	if numbers != "" {
		attrs = append(attrs, textAttr("_Filter", numbers))
	}
	if text := codecsText(v.Codecs()); text != "" {
		attrs = append(attrs, textAttr("_Codecs", text))
	}
	switch {
	case v.Type().Size() <= 1:
	case v.DType().Order == dtype.Little:
		attrs = append(attrs, textAttr("_Endianness", "little"))
	case v.DType().Order == dtype.Big:
		attrs = append(attrs, textAttr("_Endianness", "big"))
	}
	if _, has := v.Fill(); !has {
		attrs = append(attrs, textAttr("_NoFill", "true"))
	}
	return attrs
}

func storageAttrs(v *dataset.Var) []dataset.Attr {
	switch {
	case v.Storage() == "compact":
		return []dataset.Attr{textAttr("_Storage", "compact")}
	case v.Storage() == "contiguous", v.Rank() == 0:
		return []dataset.Attr{textAttr("_Storage", "contiguous")}
	}
	chunks := make([]int64, 0, v.Rank())
	chunks = append(chunks, v.Chunks()...)
	// plainInts prints the sizes without a type suffix.
	attrs := []dataset.Attr{
		textAttr("_Storage", "chunked"),
		{Name: "_ChunkSizes", Type: dtype.NCInt64, Value: plainInts(chunks)},
	}
	if g := v.ChunkGrid(); !g.Regular() {
		attrs = append(attrs, textAttr("_ChunkGrid", zarr.GridText(g)))
	}
	if shards := v.Shards(); shards != nil {
		attrs = append(attrs, dataset.Attr{Name: "_ShardSizes", Type: dtype.NCInt64, Value: plainInts(shards)})
		if g := v.ObjectGrid(); !g.Regular() {
			attrs = append(attrs, textAttr("_ShardGrid", zarr.GridText(g)))
		}
	}
	return attrs
}

// plainInts are integers that are printed without a suffix.
type plainInts []int64

// The HDF5 filters with separate attributes.
const (
	hdf5Deflate    = 1
	hdf5Shuffle    = 2
	hdf5Fletcher32 = 3
)

// splitCodecs divides a chain into the filters with separate attributes and the value of
// _Filter. deflate is -1 if the chain has no deflate. If whole is set, _Filter contains
// every filter.
func splitCodecs(known codec.Catalog, chain []zarr.CodecSpec, whole bool) (shuffle bool, deflate int32, sum bool, filters string) {
	deflate = -1
	var list []string
	for _, c := range chain {
		d, _ := known.Find(c.ID)
		// Unreadable parameters are treated as missing.
		_, params, _ := known.ToHDF5(c.ID, c.Params)
		switch {
		case d.HDF5 == hdf5Shuffle && !whole:
			shuffle = true
		case d.HDF5 == hdf5Fletcher32 && !whole:
			sum = true
		case d.HDF5 == hdf5Deflate && !whole:
			deflate = 1
			if len(params) > 0 {
				deflate = int32(params[0])
			}
		case d.HDF5 != 0:
			text := strconv.Itoa(d.HDF5)
			for _, n := range params {
				text += "," + strconv.FormatUint(uint64(n), 10)
			}
			list = append(list, text)
		}
	}
	return shuffle, deflate, sum, strings.Join(list, "|")
}

// codecsText returns a chain as a JSON list of codecs in encoding order, or "" for an
// empty chain.
func codecsText(chain []zarr.CodecSpec) string {
	if len(chain) == 0 {
		return ""
	}
	var b bytes.Buffer
	for i, c := range chain {
		b.WriteByte("[,"[min(i, 1)])
		if len(c.Params) == 0 || json.Compact(&b, c.Params) != nil {
			b.WriteString(`{"id":` + strconv.Quote(c.ID) + `}`)
		}
	}
	b.WriteByte(']')
	return b.String()
}

// specialRoot returns the special attributes of the root.
func specialRoot(ds *dataset.Dataset) []dataset.Attr {
	var attrs []dataset.Attr
	if props := ds.NCProperties(); props != "" {
		attrs = append(attrs, textAttr("_NCProperties", props))
	}
	version := int32(0)
	if ds.Layout().NCZarr() {
		version = int32(ds.Layout().Format())
	}
	return append(attrs,
		intsAttr("_SuperblockVersion", version),
		intsAttr("_IsNetcdf4", 1),
		textAttr("_Format", "netCDF-4"))
}
