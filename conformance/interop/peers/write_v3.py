"""Write random arrays of Zarr v3 with zarr-python, and print the canonical description (canon.py) of what was written.

    python write_v3.py --seed N [--count 60] [--consolidated] [--wrapped] [--structs] OUT

Any type, shape, chunk shape, order, codecs, key encoding and fill value; shards, with the index at either end, and shards in
shards; chunks or shards of different shapes; some chunks absent. With --wrapped, half of the shards are
encoded as a whole by further codecs. With --structs all elements are structures of several fields,
and half of the documents have the older form "structured". OUT is a directory that must not exist.
Exit status: 0 written, 1 with one line on stderr.
"""
import argparse
import base64
import json
import os

import numcodecs.zarr3 as nc
import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, VLenUTF8Codec, ZstdCodec
from zarr.core.metadata.v3 import RectilinearChunkGridMetadata

import canon
from sample import Record
from sample_random import NUMBERS, shown, values

zarr.config.set({"array.rectilinear_chunks": True})

ATTRS = [{}, {"units": "m s-1", "count": 3, "range": [-1.5, 2.25]}, {"note": "Gr\u00f6\u00dfe", "flags": ["low", "high"]}]


def fill_of(rng, dtype):
    """zarr.json has no null fill value."""
    if dtype == "str":
        return "" if rng.integers(2) else "\u65e5\u672c"
    kind = np.dtype(dtype).kind
    if kind in "SU":
        return np.zeros((), dtype)[()]
    if kind == "b":
        return bool(rng.integers(2))
    if kind in "Mm":
        return np.array(int(rng.integers(-5, 5)), dtype)[()]
    if kind == "f":
        return np.array([np.nan, np.inf, -np.inf, -0.0, 1.1, 1e-40][rng.integers(6)]).astype(dtype)[()]
    info = np.iinfo(dtype)
    return np.array([0, 1, info.min, info.max][rng.integers(4)]).astype(dtype)[()]


def chain(rng, dtype, rank):
    """The codecs of a chunk: array to array, array to bytes, and bytes to bytes."""
    kind = "O" if dtype == "str" else np.dtype(dtype).kind
    before, big = [], False
    if rank > 1 and rng.integers(2):
        before.append(TransposeCodec(order=tuple(int(d) for d in rng.permutation(rank))))
    if kind in "iu" and rng.integers(4) == 0:
        before.append(nc.Delta(dtype="<" + np.dtype(dtype).str[1:]))
    elif kind not in "OSb" and np.dtype(dtype).itemsize > 1:
        big = bool(rng.integers(2))
    serializer = VLenUTF8Codec() if kind == "O" else BytesCodec(endian="big" if big else "little")
    after = [[], [GzipCodec(level=1)], [ZstdCodec(level=1, checksum=bool(rng.integers(2)))], [BloscCodec(cname="lz4", shuffle="shuffle", typesize=4)],
             [BloscCodec(cname="zstd", shuffle="bitshuffle", typesize=2)], [nc.Zlib(level=1)], [nc.LZ4()], [nc.Shuffle(elementsize=1 if kind == "O" else np.dtype(dtype).itemsize), nc.BZ2(level=1)],
             [nc.CRC32(), GzipCodec(level=2)]][rng.integers(9)]
    if rng.integers(3) == 0:
        after = [*after, Crc32cCodec()]
    return before, serializer, after


def rectilinear(rng, shape, unit):
    """Chunk lengths along each dimension, multiples of unit; or one length for all chunks."""
    grid = []
    for length, k in zip(shape, unit):
        if rng.integers(4) == 0:
            grid.append(int(k * rng.integers(1, 4)))
            continue
        edges = []
        while sum(edges) < length or rng.integers(3) == 0:
            edges += [int(k * rng.integers(1, 4))] * int(rng.integers(1, 3))
        grid.append(tuple(edges))
    return grid


def arrays(args):
    rng = np.random.default_rng(args.seed)
    lengths = np.random.default_rng([args.seed, 1])  # a separate generator, so that the other random choices stay the same
    rec = Record({"name": "zarr", "version": zarr.__version__}, canon.json_attr)
    root = zarr.create_group(args.out, zarr_format=3, attributes={"title": "v3"})
    sub = root.create_group("g/h", attributes={"depth": 2})
    rec.group("/", {"title": "v3"})
    rec.group("/g", {})
    rec.group("/g/h", {"depth": 2})
    for i in range(args.count):
        dtype = [*NUMBERS, "S5", "U3", "str"][rng.integers(len(NUMBERS) + 3)]
        rank = int(rng.integers(0, 4))
        shape = tuple(int(n) for n in rng.integers(1, 13, rank))
        chunks = tuple(int(n) for n in rng.integers(1, 6, rank))
        levels = int(rng.integers(0, 3)) if rank else 0
        before, serializer, after = chain(rng, dtype, rank)
        outer, codec = chunks, [*before, serializer, *after]
        around = []
        for _ in range(levels):
            codec = [*codec, *around]
            if args.wrapped and lengths.integers(2):
                around = [[GzipCodec(level=1)], [ZstdCodec(level=1), Crc32cCodec()], [Crc32cCodec()]][lengths.integers(3)]
            else:
                around = []
            codec = [ShardingCodec(chunk_shape=outer, codecs=codec, index_location=["start", "end"][rng.integers(2)],
                                   index_codecs=[BytesCodec(), Crc32cCodec()] if rng.integers(4) else [BytesCodec()])]
            outer = tuple(n * int(k) for n, k in zip(outer, rng.integers(1, 4, rank)))
        if rank and lengths.integers(3) == 0:
            edges = rectilinear(lengths, shape, codec[0].chunk_shape if levels else (1,) * rank)
            outer = RectilinearChunkGridMetadata(chunk_shapes=edges)
            if not levels:
                chunks = tuple(n if isinstance(n, int) else max(n) for n in edges)
        kw = {"filters": before or None, "serializer": serializer, "compressors": after or None} if not levels else {
            "filters": None, "serializer": codec[0], "compressors": around or None}
        name = f"r{i}_{'str' if dtype == 'str' else np.dtype(dtype).str[1:].split('[')[0]}"
        names = [[f"d{n}" for n in shape], None, [None, *(f"d{n}" for n in shape[1:])][:rank]][rng.integers(3)] if rank else None
        attrs, fill = ATTRS[rng.integers(3)] if dtype[:1] not in "Mm" else {}, fill_of(rng, dtype)
        encoding = {"name": ["default", "v2"][rng.integers(2)], "separator": "./"[rng.integers(2)]}
        empty = "f" in dtype or bool(rng.integers(2))  # otherwise zarr-python treats every NaN as the fill value
        where, path = (root, "/" + name) if i % 2 else (sub, "/g/h/" + name)
        a = where.create_array(name, shape=shape, dtype=str if dtype == "str" else dtype, chunks=outer, fill_value=fill, dimension_names=names,
                               attributes=attrs, chunk_key_encoding=encoding, config={"write_empty_chunks": empty}, **kw)
        data = values(rng, dtype, shape)
        if shape and rng.integers(2):
            written = slice(0, int(rng.integers(0, shape[0] + 1)))
            a[written] = data[written]
            data = data.copy()
            data[written.stop:] = fill
        else:
            a[...] = data
        dims = None if names is None or None in names else names
        rec.variable(path, data if dtype == "str" else shown(data), dims, chunks, fill, attrs)
    if args.consolidated:
        zarr.consolidate_metadata(args.out, zarr_format=3)
    return rec.document()


def structs(args):
    rng = np.random.default_rng(args.seed)
    rec = Record({"name": "zarr", "version": zarr.__version__}, canon.json_attr)
    root = zarr.create_group(args.out, zarr_format=3)
    rec.group("/", {})
    allowed = ["S5", "U3", *(t for t in NUMBERS if t != "f2")]  # no f2, because some readers read it as f4, and "parts" holds only one hash per field
    for i in range(args.count):
        types = [allowed[rng.integers(len(allowed))] for _ in range(rng.integers(1, 6))]
        dtype = np.dtype([(f"f{k}_{t}".split("[")[0], np.dtype(t).newbyteorder("<")) for k, t in enumerate(types)])
        shape, chunks = tuple(int(n) for n in rng.integers(1, 13, 2)), tuple(int(n) for n in rng.integers(1, 6, 2))
        fill, data = np.zeros((), dtype), np.zeros(shape, dtype)
        for name, t in zip(dtype.names, types):
            fill[name] = fill_of(rng, t)
            data[name] = values(rng, t, shape)
        shards = tuple(2 * n for n in chunks) if rng.integers(3) == 0 else None
        a = root.create_array(f"s{i}", shape=shape, dtype=dtype, chunks=chunks, shards=shards, fill_value=fill[()], config={"write_empty_chunks": True},
                              filters=TransposeCodec(order=(1, 0)) if rng.integers(2) else None, serializer=BytesCodec(endian=["little", "big"][rng.integers(2)]),
                              compressors=[None, GzipCodec(level=1), ZstdCodec(level=1)][rng.integers(3)])
        written = slice(0, int(rng.integers(0, shape[0] + 1)))
        a[written] = data[written]
        data[written.stop:] = fill
        if i % 2:
            path = os.path.join(args.out, f"s{i}", "zarr.json")
            with open(path) as f:
                doc = json.load(f)
            fields = [[f["name"], f["data_type"]] for f in doc["data_type"]["configuration"]["fields"]]
            doc["data_type"] = {"name": "structured", "configuration": {"fields": fields}}
            if i % 4 == 1:
                doc["fill_value"] = base64.b64encode(fill.tobytes()).decode()
            with open(path, "w") as f:
                json.dump(doc, f)
        again = zarr.open_array(args.out, path=f"s{i}", mode="r")[...]
        rec.variable(f"/s{i}", again, None, chunks, fill[()], {})
    return rec.document()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--count", type=int, default=60)
    p.add_argument("--consolidated", action="store_true")
    p.add_argument("--wrapped", action="store_true")
    p.add_argument("--structs", action="store_true")
    p.add_argument("out")
    try:
        args = p.parse_args()
        canon.emit(structs(args) if args.structs else arrays(args))
    except Exception as err:
        canon.fail("write_v3.py", err)


if __name__ == "__main__":
    main()
