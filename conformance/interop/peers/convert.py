"""Convert a netCDF file into a Zarr v2 or NCZarr store with one peer and print the canonical description
(canon.py) of the original file, read raw by netCDF4, so that a reader of the store can be compared with it.

    python convert.py --from FILE.nc --with xarray  [--storage file|zip] [--consolidated] [--codec C] OUT
    python convert.py --from FILE.nc --with netcdf4 [--format nczarr|zarr|noxarray] [--storage file|zip] [--consolidated] [--codec C] OUT

OUT must not exist. --codec is none (default), zlib, zstd or blosc (lz4, byte shuffle), for variables of
rank 2 and more, in chunks of about 1 MiB. For other variables xarray chooses the chunks.
Unlimited dimensions are lost by xarray. netcdf4 rejects zip if its library does not support it, as in the wheel. Exit status: 0 written, 1 with one line on stderr.
"""
import argparse
import math
import os

import canon
import store

CODECS = ("none", "zlib", "zstd", "blosc")


def chunk_shape(shape, itemsize, limit=1 << 20):
    """Halve the longest axis until a chunk is at most limit bytes; a record axis of length 0 is treated as 1."""
    shape = [max(n, 1) for n in shape]
    size = lambda: itemsize * math.prod(shape)
    while size() > limit:
        k = shape.index(max(shape))
        shape[k] = -(-shape[k] // 2)
    return tuple(shape)


def with_xarray(args):
    import numcodecs
    import xarray
    codec = {"none": None, "zlib": numcodecs.Zlib(4), "zstd": numcodecs.Zstd(3), "blosc": numcodecs.Blosc("lz4", 5, 1)}[args.codec]
    with xarray.open_dataset(args.source, decode_cf=False, engine="netcdf4") as ds:
        encoding = {k: {"compressors": codec if v.ndim > 1 else None} for k, v in ds.variables.items()}
        for k, v in ds.variables.items():
            if v.ndim > 1:
                encoding[k]["chunks"] = chunk_shape(v.shape, v.dtype.itemsize)
        ds.load()
        for v in ds.variables.values():
            v.encoding = {}
        target = store.zarr_store(args.out, args.storage, "w")
        ds.to_zarr(target, zarr_format=2, consolidated=args.consolidated, encoding=encoding)
        target.close()


def with_netcdf4(args):
    import netCDF4
    import netcdf
    codec = {"none": None, "blosc": "blosc_lz4"}.get(args.codec, args.codec)
    with netCDF4.Dataset(args.source) as src, \
            netCDF4.Dataset(netcdf.url(args.out, netcdf.mode(args)), "w") as dst:
        src.set_auto_maskandscale(False)
        src.set_auto_chartostring(False)
        dst.setncatts({k: src.getncattr(k) for k in src.ncattrs()})
        for k, d in src.dimensions.items():
            dst.createDimension(k, None if d.isunlimited() else len(d))
        for k, v in src.variables.items():
            attrs = {a: v.getncattr(a) for a in v.ncattrs()}
            kw = {"fill_value": attrs.pop("_FillValue", None)}
            if v.ndim > 1:
                kw["chunksizes"] = chunk_shape(v.shape, v.dtype.itemsize)
                kw["compression"] = codec
            w = dst.createVariable(k, v.dtype, v.dimensions, **kw)
            w.set_auto_maskandscale(False)
            w.set_auto_chartostring(False)
            w.setncatts(attrs)
            w[...] = v[...]


def main():
    writers = {"xarray": with_xarray, "netcdf4": with_netcdf4}
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--from", dest="source", required=True, metavar="FILE.nc")
    p.add_argument("--with", dest="peer", choices=writers, required=True)
    p.add_argument("--format", choices=("nczarr", "zarr", "noxarray"), default="nczarr")
    p.add_argument("--storage", choices=("file", "zip"), default="file")
    p.add_argument("--consolidated", action="store_true")
    p.add_argument("--codec", choices=CODECS, default="none")
    p.add_argument("out")
    args = p.parse_args()
    try:
        import netcdf
        if os.path.lexists(args.out):
            raise FileExistsError(f"{args.out} exists")
        want = netcdf.describe_path(args.source)
        writers[args.peer](args)
        for v in want["variables"].values():
            if "_FillValue" not in v["attrs"]:
                v["fill"] = None  # the library's default is not declared in the file
        canon.emit(want)
    except Exception as err:
        canon.fail(f"convert.py --with {args.peer}", err)


if __name__ == "__main__":
    main()
