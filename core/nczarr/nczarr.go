// Package nczarr reads and writes netCDF data stored as NCZarr or Zarr. Above it
// is the package at the root of the module, which most programs import instead.
//
//	ds, err := nczarr.Open(ctx, "ocean.zarr", &nczarr.Options{Registry: reg})
//	temp, err := ds.Root().Var("temp")
//	values, err := nczarr.Get[float32](ctx, temp, chunk.All(temp.Shape()))
//
// A [Dataset] is a tree of [Group]s with shared [Dim]s, [Var]s and attributes.
// Storage drivers and filters come from a [Registry]: drivers/builtin and
// filters/builtin give the in-process ones, core/plugin/host the
// out-of-process ones.
//
// All types are safe for concurrent use, except that nothing may be called
// during or after Dataset.Close, and that two writes of overlapping regions
// land in no particular order.
package nczarr

import (
	"log/slog"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// Version is the version of this module, as it is written into new datasets.
const Version = "0.1.0"

// Registry finds storage drivers and filters by name.
type Registry interface {
	// Driver gives the storage driver of that name, or ncerr.ErrUnsupported
	// naming what there is.
	Driver(name string) (driver.Opener, error)
	// Filter gives a provider that has the codec id, or ncerr.ErrNoFilter
	// naming what would supply it.
	Filter(id string) (codecdriver.Provider, error)
	// Filters describes the codecs that Filter finds, as far as that is known:
	// a plugin that was not started yet has said nothing but a name. Of two with
	// one name or HDF5 number the first counts.
	Filters() []codecdriver.Description
}

// Attr is one attribute: a name, a netCDF type and a typed value.
type Attr = zarr.Attr

// Options say how a dataset is opened or created.
type Options struct {
	// Registry supplies drivers and filters; required.
	Registry Registry
	// URLEnv is what URL inference may know: settings of rc files and AWS
	// configuration. nil means none; probing of local paths always works.
	URLEnv *ncurl.Env
	// DriverOptions gives each driver, by name, its options as a JSON object.
	DriverOptions map[string][]byte
	// Update opens an existing dataset for writing too.
	Update bool
	// UseConsolidated says how consolidated metadata is read.
	UseConsolidated ConsolidatedUse
	// Limits are the ceilings on what is read from a store; zero members
	// take the defaults of [DefaultLimits].
	Limits Limits
	// Workers is the number of chunks worked on at once; 0 is GOMAXPROCS.
	Workers int
	// Wrap, when not nil, puts layers around the driver's Map, which see every
	// single request: log, count.
	Wrap func(driver.Map) driver.Map
	// Remote says how a store is used that takes tens of milliseconds to
	// answer: repetition, calls at once, the local cache. The zero value has
	// the defaults of layer.RemoteOptions. Cache.Identity is who reads, as far
	// as that follows from nothing in the URL, Profiles and DriverOptions.
	Remote layer.RemoteOptions
	// MergeGap is how far apart, in bytes, parts of a chunk without codecs may
	// lie to be read in one request, with what is between them; 0 is
	// [DefaultMergeGap].
	MergeGap int64
	// Log receives what is noticed but is no error; nil is silence.
	Log *slog.Logger
	// SingleWriter states that no other process writes this dataset while it
	// is open, so that partial chunks may be read, changed and written back
	// on stores without conditional writes. Otherwise that is warned about
	// once.
	SingleWriter bool
}

// CreateOptions say what a new dataset is like.
type CreateOptions struct {
	Options
	// Layout is the metadata layout to write; the format of the URL decides
	// when Layout is nil: LayoutPure for mode=zarr, LayoutV3 for mode=v3, else
	// LayoutNewest. A URL
	// whose mode says the opposite is refused with ncerr.ErrInvalid.
	Layout *zarr.Layout
	// NoXarray leaves out _ARRAY_DIMENSIONS, as mode=noxarray does. With the
	// layouts of NCZarr nothing is lost; in pure Zarr the names of dimensions
	// are.
	NoXarray bool
	// Strings says how strings are stored.
	Strings StringStorage
	// NoClobber refuses with ncerr.ErrExists when there is a dataset already.
	NoClobber bool
	// Force allows creating a dataset inside another one, or over a directory
	// that holds something else. With NoClobber, too, only what is not a dataset
	// is deleted.
	Force bool
	// Consolidated also writes consolidated metadata at each Flush.
	Consolidated bool
}

// Limits are ceilings on untrusted sizes.
type Limits struct {
	MaxMetadata  int64 // bytes of one metadata document; default 64 MiB
	MaxDocuments int64 // bytes of all documents that one open reads, without consolidated metadata, and of the keys of groups and variables; default 256 MiB
	MaxChunk     int64 // bytes of one decoded chunk, and of the strings that one read brings out of several; default 2 GiB
	MaxElements  int64 // elements of one chunk; default 2^30
	MaxChunks    int64 // chunks of a variable that is copied or dumped; default 2^28
	MaxData      int64 // bytes of a variable that is copied or dumped; default 16 TiB
	MaxNodes     int   // groups and variables of a dataset; default 1,000,000
	MaxDepth     int   // nesting of groups; default 256
	MaxKeys      int   // keys that one listing or search holds in memory; default zmap.DefaultMaxList
	MaxListing   int64 // bytes of those keys; default zmap.DefaultMaxListBytes
}

// DefaultLimits gives the default ceilings.
func DefaultLimits() Limits {
	return Limits{MaxMetadata: 64 << 20, MaxDocuments: 256 << 20, MaxChunk: 2 << 30, MaxElements: 1 << 30, MaxChunks: 1 << 28, MaxData: 16 << 40, MaxNodes: 1_000_000, MaxDepth: 256, MaxKeys: zmap.DefaultMaxList, MaxListing: zmap.DefaultMaxListBytes}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.MaxMetadata > 0 {
		d.MaxMetadata = l.MaxMetadata
	}
	if l.MaxDocuments > 0 {
		d.MaxDocuments = l.MaxDocuments
	}
	if l.MaxChunk > 0 {
		d.MaxChunk = l.MaxChunk
	}
	if l.MaxElements > 0 {
		d.MaxElements = l.MaxElements
	}
	if l.MaxKeys > 0 {
		d.MaxKeys = l.MaxKeys
	}
	if l.MaxChunks > 0 {
		d.MaxChunks = l.MaxChunks
	}
	if l.MaxData > 0 {
		d.MaxData = l.MaxData
	}
	if l.MaxListing > 0 {
		d.MaxListing = l.MaxListing
	}
	if l.MaxNodes > 0 {
		d.MaxNodes = l.MaxNodes
	}
	if l.MaxDepth > 0 {
		d.MaxDepth = l.MaxDepth
	}
	return d
}

// Problem is something in a dataset that could not be read: it is left out,
// the rest stays usable.
type Problem struct {
	// Path is the absolute name of the group or variable, such as "/g/temp".
	Path string
	// Err says why, with its kind.
	Err error
}

// VarSpec describes a variable to define.
type VarSpec struct {
	// Type is the netCDF type.
	Type dtype.NC
	// Dims are the dimensions, of this group or of one above it; empty for a
	// scalar.
	Dims []*Dim
	// Chunks is the chunk shape; nil chooses one (see [DefaultChunks]).
	Chunks []int64
	// Codecs is the chain in encode order (HDF5 order); nil stores raw.
	Codecs []zarr.CodecSpec
	// Order is the byte order of stored elements; OrderNone is little-endian,
	// and so is all that is added to a dataset of netcdf-c 4.9.0, which knew
	// nothing else.
	Order dtype.Order
	// Separator of chunk keys: '.' or '/'; 0 is '.', and '/' in Zarr v3.
	Separator byte
	// Fill is the fill value: a slice of one value of Type's Go type, or a
	// one-byte string for NCChar. nil is netCDF's default fill value.
	Fill any
	// NoFill stores null as the fill value, or zero in Zarr v3, which has no null:
	// missing elements read as zeros.
	NoFill bool
	// Storage is "", "chunked", "contiguous" or "compact"; the last two are
	// stored as one chunk of the variable's shape.
	Storage string
	// MaxStrLen is the fixed size in bytes of NCString elements. 0 takes the
	// attribute _nczarr_maxstrlen, the root's _nczarr_default_maxstrlen, or what
	// [StringStorage] says. [VarLen] always makes strings of variable length, for
	// which netcdf-c refuses the whole dataset. In pure Zarr a fixed size is at
	// least 2, since one byte is a char there.
	MaxStrLen int
	// DType is the element type that is stored, where it is to be another than
	// Type's own: float16 for float, bool for ubyte, datetimes for int64, fixed
	// text for string. Type must be what it is read as. In the layouts of NCZarr
	// only netCDF's own types are possible. The zero value is Type's own.
	DType dtype.Type
	// Quantize says how values of float and double are rounded when they are
	// written; the zero value keeps them. Attributes of the names that
	// [dtype.QuantizeMode.Attr] gives say the same: the one for Quantize is
	// added when it is not among Attrs, and without Quantize they set it.
	Quantize dtype.Quantization
	// Attrs are the attributes, in order.
	Attrs []Attr
}
