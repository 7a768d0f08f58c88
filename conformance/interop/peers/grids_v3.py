"""Write one Zarr v3 array per chunk grid, chunk key encoding and form of shards with zarr-python, and print the canonical
description (canon.py).

    python grids_v3.py [--plus N] [--describe] OUT

--plus adds N to every value. --describe only prints the description. OUT is a directory that must not exist, except with
--describe. Exit status: 0 written, 1 with one line on stderr.
"""
import argparse

import numpy as np
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.core.metadata.v3 import RectilinearChunkGridMetadata

import canon
from sample import Record

zarr.config.set({"array.rectilinear_chunks": True})

SHAPE = (10, 12)


def shard(chunks, codecs=None, where="end", checksum=True):
    return ShardingCodec(chunk_shape=chunks, codecs=codecs or [BytesCodec(), ZstdCodec(level=1)], index_location=where,
                         index_codecs=[BytesCodec(), Crc32cCodec()] if checksum else [BytesCodec()])


def arrays():
    """Name, the chunks or shards, and the arguments of create_array."""
    plain = {"compressors": ZstdCodec(level=1)}
    for name, separator in ("default", "/"), ("default", "."), ("v2", "/"), ("v2", "."):
        yield f"keys_{name}_{'slash' if separator == '/' else 'dot'}", (4, 6), {**plain, "chunk_key_encoding": {"name": name, "separator": separator}}
    serial = lambda codec, after=None, before=None: {"serializer": codec, "compressors": after, "filters": before}
    transpose = TransposeCodec(order=(1, 0))
    yield "transposed", (4, 6), {**plain, "filters": transpose}
    yield "shards_end", (4, 6), serial(shard((2, 3)))
    yield "shards_start", (4, 6), serial(shard((2, 3), where="start"))
    yield "shards_without_checksum", (4, 6), serial(shard((2, 3), checksum=False))
    yield "shards_of_transposed_chunks", (4, 6), serial(shard((2, 3), [transpose, BytesCodec(endian="big")]))
    yield "shards_v2_keys", (4, 6), {**serial(shard((2, 3))), "chunk_key_encoding": {"name": "v2", "separator": "."}}
    yield "shards_in_shards", (8, 6), serial(shard((4, 3), [shard((2, 3), where="start")]))
    yield "shards_then_crc32c", (4, 6), serial(shard((2, 3)), Crc32cCodec())
    yield "shards_then_gzip", (4, 6), serial(shard((2, 3)), GzipCodec(level=1))
    rectilinear = RectilinearChunkGridMetadata(chunk_shapes=((2, 4, 4), (6, 2, 4)))
    yield "rectilinear_chunks", rectilinear, plain
    yield "rectilinear_shards", rectilinear, serial(shard((2, 2)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plus", type=int, default=0)
    p.add_argument("--describe", action="store_true")
    p.add_argument("out")
    try:
        args = p.parse_args()
        rec = Record({"name": "zarr", "version": zarr.__version__}, canon.json_attr)
        rec.group("/", {})
        data = (np.arange(120, dtype="i4").reshape(SHAPE) - 50) * 1000003
        data[8:, 6:] = -1  # the fill value
        data += args.plus
        root = None if args.describe else zarr.create_group(args.out, zarr_format=3)
        for name, chunks, kw in arrays():
            if root is not None:
                root.create_array(name, shape=SHAPE, dtype="i4", chunks=chunks, fill_value=-1, dimension_names=["y", "x"], **kw)[...] = data
            rec.variable("/" + name, data, ["y", "x"], None, -1, {})
        canon.emit(rec.document())
    except Exception as err:
        canon.fail("grids_v3.py", err)


if __name__ == "__main__":
    main()
