"""Write a deterministic sample dataset (Zarr v2 or NCZarr v2) with one peer and print its canonical
description (canon.py), computed from the originals and not by reading back. --v3 writes Zarr v3.

    python write.py --with zarr    [--case types|layout|codecs|foreign|random] [--seed N] [--storage file|zip|s3] [--consolidated] [--v3] OUT
    python write.py --with zarrs   the same, with the codec pipeline of zarrs
    python write.py --with xarray  [--storage file|zip] [--consolidated] [--v3] OUT
    python write.py --with gdal    [--v3] OUT
    python write.py --with netcdf4 [--format nczarr|zarr|noxarray] [--storage file|zip] [--consolidated] OUT

OUT must not exist. netcdf4 rejects zip if its library does not support it, as in the wheel. Cases of zarr: types = every netCDF type in both byte orders, char, fixed strings,
scalars, attributes; layout = C and F order, both separators, edge, missing and empty chunks, fill values,
groups; codecs = zlib, gzip, zstd, shuffle, delta, blosc with every inner codec and shuffle; foreign =
types and codecs that netCDF does not have, next to a plain array, for tests of refusals; random =
sixty arrays of any type, shape, order, codecs and fill value (sample_random.py).
Exit status: 0 written, 1 with one line on stderr.
"""
import argparse
import os

import numpy as np

import canon
import sample_random
import store
from sample import NUMERIC, SIZES, TEXTS, Record, smooth, values

TITLE = {"title": "interop sample", "Conventions": "CF-1.11"}
ATTRS = {"units": "m s-1", "count": 3, "big": 4611686018427387904, "half": 0.5, "range": [-1.5, 2.25],
         "levels": [1, 2, 3], "empty": "", "number_text": "42", "flags": ["low", "high"], "note": "Größe \u2028 \"q\" \\ /"}
JSON_ONLY = {"nested": {"a": [1, {"b": None}]}, "yes": True, "nothing": None, "mixed": [1, "x"], "none": []}


def with_zarr(args):
    import numcodecs
    import zarr
    rec = Record({"name": "zarr", "version": zarr.__version__, "numcodecs": numcodecs.__version__}, canon.json_attr)
    target = store.zarr_store(args.out, args.storage, "w")
    version = 3 if args.v3 else 2

    def group(path, attrs):
        zarr.create_group(target, path=path.strip("/"), zarr_format=version, attributes=attrs)
        rec.group(path, attrs)

    def put(path, data, dims, chunks=None, fill=0, attrs=None, part=None, sep=".", **kw):
        """part: index of the only region that is written; the rest is fill in data already."""
        chunks = data.shape if chunks is None else chunks
        attrs = attrs or {}
        how = {"chunk_key_encoding": {"name": "v2", "separator": sep}, "attributes": {**attrs, "_ARRAY_DIMENSIONS": list(dims)}}
        if args.v3:
            how = {"dimension_names": dims, "attributes": attrs}
        a = zarr.create_array(target, name=path.strip("/"), shape=data.shape, dtype=kw.pop("dtype", data.dtype), chunks=chunks, zarr_format=version,
                              fill_value=fill, **how,
                              **{"compressors": None, "filters": None, "config": {"write_empty_chunks": True}, **kw})
        if part is None:
            a[...] = data
        else:
            a[part] = data[part]
        rec.variable(path, sample_random.shown(data) if args.case == "random" else data, dims, chunks, fill, attrs)

    shape = lambda *dims: tuple(SIZES[d] for d in dims)
    group("/", TITLE)
    if args.case == "types":
        for t in NUMERIC:
            for order in ("|",) if t[1] == "1" else ("<", ">"):
                name = t + {"|": "", "<": "_le", ">": "_be"}[order]
                put(f"/{name}", values(t, shape("y", "x")).astype(order + t), ("y", "x"), (2, 3), attrs=ATTRS)
                put(f"/scalar_{name}", values(t, ()).astype(order + t), ())
        put("/char", values("S1", shape("z", "n")), ("z", "n"), (2, 4), fill=b"")
        put("/string", values("S12", shape("n")), ("n",), (4,), fill=b"")
    elif args.case == "layout":
        cube = values("i4", shape("t", "y", "x"))
        for order in "CF":
            for sep in "./":
                put(f"/cube_{order}_{'dot' if sep == '.' else 'slash'}", cube, ("t", "y", "x"), (4, 2, 3), order=order, sep=sep)
        for name, t, fill, shown in (("seven", "<i2", 7, 7), ("seven_be", ">i2", 7, 7), ("nan", "<f4", np.nan, np.nan),
                                     ("inf", ">f8", -np.inf, -np.inf), ("null", "<f8", None, 0), ("max", "<u8", 2**64 - 1, 2**64 - 1)):
            data = np.full(shape("y", "x"), shown, t)
            data[:2, :3] = np.arange(6).reshape(2, 3)
            put(f"/missing_{name}", data, ("y", "x"), (2, 3), fill=fill, part=(slice(0, 2), slice(0, 3)))
            put(f"/unwritten_{name}", np.full(shape("z"), shown, t), ("z",), (2,), fill=fill, part=slice(0, 0))
        put("/one_by_one", values("u2", shape("z", "y")), ("z", "y"), (1, 1))
        put("/chunk_above_shape", values("f8", shape("z", "y")), ("z", "y"), (10, 20))
        put("/rank6", values("i1", (2, 3, 1, 2, 3, 2)), tuple("abcdef"), (1, 2, 1, 2, 2, 1), sep="/")
        put("/no_records", np.zeros((0, 7), "f4"), ("none", "x"), (4, 7))
        group("/a", {"level": 1})
        group("/a/b", {"level": 2})
        group("/empty", {})
        put("/a/v", values("f4", shape("y", "x")), ("y", "x"), (3, 3))
        put("/a/b/v", values("i8", shape("x", "y")), ("x", "y"), (4, 4))
    elif args.case == "codecs":
        c = {"zlib_1": numcodecs.Zlib(1), "zlib_9": numcodecs.Zlib(9), "gzip_5": numcodecs.GZip(5), "zstd_0": numcodecs.Zstd(0),
             "zstd_19": numcodecs.Zstd(19), "zstd_sum": numcodecs.Zstd(3, checksum=True)}
        c |= {f"blosc_{n}_{s + 1}": numcodecs.Blosc(n, 5, s) for n in ("blosclz", "lz4", "lz4hc", "zlib", "zstd") for s in (-1, 0, 1, 2)}
        c |= {"blosc_blocks": numcodecs.Blosc("lz4", 3, 1, blocksize=512), "blosc_copy": numcodecs.Blosc("lz4", 0, 1)}
        for name, codec in c.items():
            put(f"/{name}", smooth("<f4"), ("row", "col"), (20, 30), compressors=codec)
        for t in ("i1", "<i2", ">i4", "<u8", ">f8"):
            name, data = t.strip("<>"), smooth(t)
            size, delta = np.dtype(t).itemsize, numcodecs.Delta(t)
            put(f"/shuffle_{name}", data, ("row", "col"), (20, 30), filters=[numcodecs.Shuffle(size)], compressors=numcodecs.Zlib(4))
            put(f"/delta_{name}", data, ("row", "col"), (20, 30), filters=[delta], compressors=numcodecs.GZip(1))
            put(f"/delta_shuffle_{name}", data, ("row", "col"), (20, 30), filters=[delta, numcodecs.Shuffle(size)], compressors=numcodecs.Zstd(1))
            put(f"/blosc_F_{name}", data, ("row", "col"), (20, 30), order="F", compressors=numcodecs.Blosc("zstd", 3, 2))
        put("/delta_narrow", smooth("<i4"), ("row", "col"), (20, 30), filters=[numcodecs.Delta("<i4", "<i2")])
        put("/filters_only", smooth("<i2"), ("row", "col"), (20, 30), filters=[numcodecs.Shuffle(2)])
    elif args.case == "random":
        for name, data, part, dtype, chunks, fill, sep, kw in sample_random.arrays(args.seed, 60):
            dims = [f"{name[1:]}_{d}" for d in range(data.ndim)]
            put(name, data, dims, chunks, fill=fill, part=part, sep=sep, dtype=dtype, **kw)
    else:
        put("/plain", smooth("<i2"), ("row", "col"), (20, 30))
        put("/json_attrs", values("i2", shape("x")), ("x",), attrs=JSON_ONLY)
        for t in ("?", "<f2", "<c8", "<U4", "<M8[s]", "V3", "pair"):
            data = np.arange(6)
            data = data.astype("u1").repeat(3).view("V3") if t == "V3" else data.astype([("a", "<i2"), ("b", "<f8")]) if t == "pair" else data.astype(t)
            put(f"/type_{t if t == 'pair' else data.dtype.kind}", data, ("i",), (4,), fill=None)
        for codec in (numcodecs.LZ4(), numcodecs.BZ2(), numcodecs.LZMA()):
            put(f"/codec_{codec.codec_id}", smooth("<i2"), ("row", "col"), (20, 30), compressors=codec)
        put("/type_object", np.array(TEXTS, object), ("n",), (4,), fill="", dtype=str, filters="auto")
        for name, codec in {"bitround": numcodecs.BitRound(10), "quantize": numcodecs.Quantize(2, "<f4"), "astype": numcodecs.AsType("<f8", "<f4"),
                            "fletcher32": numcodecs.Fletcher32(), "crc32": numcodecs.CRC32(), "adler32": numcodecs.Adler32()}.items():
            data = smooth("<f4") + np.float32(0.5)
            kept = codec.decode(codec.encode(data)) if name in ("bitround", "quantize") else data
            put(f"/codec_{name}", np.asarray(kept).view("<f4").reshape(data.shape), ("row", "col"), (20, 30), filters=[codec])
        put("/codec_packbits", values("?", (64, 50)), ("row", "col"), (20, 30), fill=False, filters=[numcodecs.PackBits()])
        put("/codec_scale", smooth("<f8"), ("row", "col"), (20, 30), filters=[numcodecs.FixedScaleOffset(10, 2, "<f8", "<i4")])
    if args.consolidated:
        zarr.consolidate_metadata(target, zarr_format=version)
    target.close()
    return rec.document()


def main():
    from write_netcdf import with_netcdf4
    from write_xarray import with_xarray
    import gdal
    writers = {"gdal": lambda args: gdal.write(os.path.abspath(args.out), 3 if args.v3 else 2), "zarr": with_zarr, "zarrs": with_zarrs, "xarray": with_xarray,
               "netcdf4": with_netcdf4}
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--with", dest="peer", choices=writers, required=True)
    p.add_argument("--case", choices=("types", "layout", "codecs", "foreign", "random"), default="types")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--format", choices=("nczarr", "zarr", "noxarray"), default="nczarr")
    p.add_argument("--storage", choices=("file", "zip", "s3"), default="file")
    p.add_argument("--consolidated", action="store_true")
    p.add_argument("--v3", action="store_true")
    p.add_argument("out")
    args = p.parse_args()
    try:
        if os.path.lexists(args.out):
            raise FileExistsError(f"{args.out} exists")
        canon.emit(writers[args.peer](args))
    except Exception as err:
        canon.fail(f"write.py --with {args.peer}", err)


def with_zarrs(args):
    import zarr
    import zarrs  # noqa: F401 (registers the pipeline)
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    return with_zarr(args)


if __name__ == "__main__":
    main()
