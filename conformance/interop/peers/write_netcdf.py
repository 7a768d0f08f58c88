"""The netCDF-C sample of write.py, written with the netCDF4 wheel: NCZarr or pure Zarr in a directory, or in a zip archive if libnetcdf supports it."""
import numpy as np

import canon
from sample import NUMERIC, SIZES, TEXTS, Record, smooth, values

# The attributes contain no doubles of more than six digits, which libnetcdf would truncate,
# and no text that looks like JSON, which it would reinterpret.
ATTRS = {"units": "m s-1", "byte": np.int8(-7), "count": np.int32(3), "big": np.int64(4611686018427387904),
         "range": np.array([-1.5, 2.25], "f4"), "half": 0.5, "levels": np.array([1, 2, 3], "i2"),
         "max": np.uint64(2**64 - 1), "names": ["low", "high"], "note": "Größe, (m)"}
BLOSC = ("blosc_lz", "blosc_lz4", "blosc_lz4hc", "blosc_zlib", "blosc_zstd")


def with_netcdf4(args):
    import netCDF4
    import netcdf
    pure = args.format != "nczarr"  # pure Zarr has no attribute types and no dimensions
    mode = netcdf.mode(args)
    root = netCDF4.Dataset(netcdf.url(args.out, mode), "w")
    rec, handles = Record({**netcdf.peer(), "mode": mode}, canon.json_attr if pure else canon.typed_attr), {"/": root}

    def group(path, attrs, dims):
        """dims: name -> size; None is unlimited, with the size in the sample."""
        if path != "/":
            parent, name = path.rsplit("/", 1)
            handles[path] = handles[parent or "/"].createGroup(name)
        for k, n in dims.items():
            handles[path].createDimension(k, n)
        handles[path].setncatts(attrs)
        shown = {k: {"size": n or SIZES[k], "unlimited": n is None} for k, n in dims.items()}
        rec.group(path, attrs, None if pure else shown)

    def put(path, data, dims, chunks=None, part=Ellipsis, attrs=None, fill=None, endian="little", **kw):
        parent, name = path.rsplit("/", 1)
        dtype = str if data.dtype == object else data.dtype
        default = "" if dtype is str or dtype.kind == "S" else netCDF4.default_fillvals[dtype.str[1:]]
        default = 9.96921e+36 if dtype == np.float64 else default  # libnetcdf writes only six digits
        endian = "native" if default == "" else endian
        v = handles[parent or "/"].createVariable(name, dtype, dims, chunksizes=chunks, endian=endian, fill_value=fill, **kw)
        v.set_auto_maskandscale(False)
        v.set_auto_chartostring(False)
        attrs = attrs or {}
        v.setncatts(attrs)
        v[part] = data[part]
        shown = {**attrs, **({} if fill is None else {"_FillValue": np.array(fill, dtype)})}
        if args.format == "noxarray":
            dims, data = None, data.reshape(data.shape or 1)  # the store does not mark it as a scalar
        rec.variable(path, data, dims, chunks or data.shape or None, default if fill is None else fill, shown, dtype)

    limited = {k: SIZES[k] for k in ("z", "y", "x", "n", "row", "col")}
    group("/", {"title": "interop sample of netCDF-C", "version": np.int32(3)}, {"t": None, **limited})
    yx, rc = (SIZES["y"], SIZES["x"]), ("row", "col")
    for t in NUMERIC:
        for endian in ("little", "big") if t[1] != "1" else ("little",):
            put(f"/{t}_{endian}", values(t, yx), ("y", "x"), (2, 3), attrs=ATTRS, endian=endian)
        put(f"/scalar_{t}", values(t, ()), ())
    put("/char", values("S1", (SIZES["z"], SIZES["n"])), ("z", "n"), (2, 4))
    put("/string", np.array(TEXTS, object), ("n",), (4,))
    put("/records", values("f4", (SIZES["t"], SIZES["y"])), ("t", "y"), (1, 5), fill=np.float32(-999))
    put("/t", np.arange(SIZES["t"], dtype="f8"), ("t",), (4,), attrs={"units": "days since 2001-01-01"})
    for name, endian in (("missing", "little"), ("missing_big", "big")):
        data = np.full(yx, -9, "i4")
        data[:2, :3] = np.arange(6).reshape(2, 3)
        put(f"/{name}", data, ("y", "x"), (2, 3), part=(slice(0, 2), slice(0, 3)), fill=np.int32(-9), endian=endian)
    for name, kw in {"zlib": {"compression": "zlib", "shuffle": False}, "zlib_shuffle": {"compression": "zlib"},
                     "zstd": {"compression": "zstd", "complevel": 7}, "bzip2": {"compression": "bzip2"},
                     **{f"{c}_{s}": {"compression": c, "blosc_shuffle": s} for c in BLOSC for s in (0, 1, 2)}}.items():
        put(f"/codec_{name}", smooth("f4"), rc, (30, 25), **kw)
    group("/g", {"level": np.int32(1)}, {"w": 2})
    group("/g/sub", {}, {})
    put("/g/v", values("u1", (2, SIZES["y"])), ("w", "y"), (1, 5))
    put("/g/sub/v", values("f8", (SIZES["x"], 2)), ("x", "w"), (4, 2))
    root.close()
    return rec.document()
