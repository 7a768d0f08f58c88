"""The xarray sample of write.py: packed and masked variables, times and groups as xarray encodes them."""
import numpy as np

import canon
import store
from sample import SIZES, Record, smooth, values


def with_xarray(args):
    import numcodecs
    import xarray
    import zarr
    rec = Record({"name": "xarray", "version": xarray.__version__, "zarr": zarr.__version__}, canon.json_attr)
    nt, ny, nx = SIZES["t"], SIZES["row"], SIZES["col"]
    data, encoding = {}, {}

    def put(path, dims, seen, raw, attrs=None, shown=None, fill=None, chunks=None, **enc):
        """seen: values passed to xarray; raw: values expected in the store; shown: attributes that encoding adds."""
        group, name = path.rsplit("/", 1)
        group = group or "/"
        data.setdefault(group, {})[name] = xarray.Variable(dims, seen, attrs or {})
        encoding.setdefault(group, {})[name] = {**enc, "chunks": chunks or raw.shape}
        raw = np.asarray(raw)
        rec.variable(path, raw, dims, chunks or raw.shape, fill, {**(attrs or {}), **(shown or {})})

    if args.v3:
        from zarr.codecs import BloscCodec
        from zarr.codecs.numcodecs import Shuffle, Zlib
        packing = {"compressors": BloscCodec(cname="zstd", clevel=5, shuffle="shuffle", typesize=2)}
        shuffled = {"compressors": (Shuffle(elementsize=4), Zlib(level=3))}
    else:
        packing = {"compressors": numcodecs.Blosc("zstd", 5, 1)}
        shuffled = {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zlib(3)}
    hours = np.arange(nt) * 6
    units = {"units": "hours since 2001-01-01", "calendar": "standard"}
    put("/time", ("time",), np.datetime64("2001-01-01", "ns") + hours.astype("m8[h]"), hours.astype("i8"),
        {"standard_name": "time"}, units, dtype="int64", **units)
    put("/lat", ("lat",), np.linspace(-80, 80, ny), np.linspace(-80, 80, ny), {"units": "degrees_north"})
    put("/lon", ("lon",), np.arange(nx) * 7.2, np.arange(nx) * 7.2, {"units": "degrees_east"})
    packed = np.stack([smooth("i2") * 3 - 100 * k for k in range(nt)])
    put("/sst", ("time", "lat", "lon"), packed * 0.5 + 10.0, packed.astype("i2"), {"units": "degC", "valid_min": -2},
        {"scale_factor": 0.5, "add_offset": 10.0}, fill=-32767, chunks=(4, 20, 30), dtype="int16", scale_factor=0.5,
        add_offset=10.0, _FillValue=-32767, **packing)
    wind = np.stack([smooth("f4") / 4 + k for k in range(nt)]).astype("f4")
    wind[:, 10:20, 5:30] = np.nan
    put("/wind", ("time", "lat", "lon"), wind, wind, {"units": "m s-1"}, fill=np.nan, chunks=(1, 64, 50),
        _FillValue=np.float32(np.nan), **shuffled)
    put("/station", ("station",), values("S12", (5,)), values("S12", (5,)), {"long_name": "station name"})
    put("/crs", (), np.int32(7), np.int32(7), {"grid_mapping_name": "latitude_longitude"})
    put("/ice/area", ("lat", "lon"), smooth("f8"), smooth("f8"), {"units": "1"}, chunks=(32, 50), compressors=None)
    put("/ice/day/count", ("k",), values("u2", (9,)), values("u2", (9,)), chunks=(4,), compressors=None)
    attrs = {"/": {"title": "interop sample of xarray", "Conventions": "CF-1.11"}, "/ice": {"level": 1}, "/ice/day": {}}
    for path in attrs:
        rec.group(path, attrs[path])
    tree = xarray.DataTree.from_dict({p: xarray.Dataset(v, attrs=attrs[p]) for p, v in data.items()})
    target = store.zarr_store(args.out, args.storage, "w")
    tree.to_zarr(target, zarr_format=3 if args.v3 else 2, encoding=encoding, consolidated=args.consolidated, write_inherited_coords=False)
    target.close()
    return rec.document()
