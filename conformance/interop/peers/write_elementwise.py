"""Write random arrays of Zarr v3 with zarr-python whose shards have element-wise codecs before sharding_indexed, and print the canonical description (canon.py).

    python write_elementwise.py --seed N [--count 24] OUT

The codecs scale_offset, numcodecs.fixedscaleoffset, numcodecs.astype, numcodecs.bitround and numcodecs.quantize precede
sharding_indexed, some with a transpose before or after them; some arrays have shards in shards, and such codecs at both
levels. Some chunks are absent, some in a shard that exists. OUT is a directory that must not exist.
Exit status: 0 written, 1 with one line on stderr.
"""
import argparse
import importlib.metadata
import warnings

import numpy as np
import zarr
from zarr.codecs import BytesCodec, GzipCodec, ScaleOffset, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.codecs import numcodecs as nc

import canon
from sample import Record

KINDS = ["scale_offset", "fixedscaleoffset", "astype", "bitround", "quantize"]

# Codecs whose encoders return arrays of one dimension in zarr-python 3.4.2.
FLAT = ["fixedscaleoffset"]


def element_wise(kind):
    """Return the data type, the fill value and the codecs of an array."""
    if kind == "scale_offset":
        return "float64", 7.0, [ScaleOffset(offset=3.0, scale=4.0)]
    if kind == "fixedscaleoffset":
        return "float64", 0.0, [nc.FixedScaleOffset(offset=0, scale=4, dtype="<f8", astype="<i2")]
    if kind == "astype":
        return "int32", 7, [nc.AsType(encode_dtype="<i2", decode_dtype="<i4")]
    if kind == "bitround":
        return "float32", 7.0, [nc.BitRound(keepbits=4)]
    return "float64", 7.0, [nc.Quantize(digits=1, dtype="<f8")]


def write(args):
    rng = np.random.default_rng(args.seed)
    rec = Record({"name": "zarr", "version": importlib.metadata.version("zarr")}, canon.json_attr)
    root = zarr.create_group(args.out)
    rec.group("/", {})
    for i in range(args.count):
        kind = KINDS[i % len(KINDS)]
        rank = 1 if kind in FLAT else int(rng.integers(1, 4))
        dtype, fill, codecs = element_wise(kind)
        shape = [int(n) for n in rng.integers(1, 14, rank)]
        # zarr-python checks the shape of chunks in shards before it transposes them, so that transposed shards are cubes.
        turn = bool(rng.integers(2))
        lengths = (lambda low: np.full(rank, rng.integers(low, 4))) if turn else (lambda low: rng.integers(low, 4, rank))
        inner = lengths(1)
        chain = [BytesCodec(), *[[], [GzipCodec(level=1)], [ZstdCodec(level=1)]][rng.integers(3)]]
        shards = 1 + int(rng.integers(2))
        before = [codecs, []]
        if kind == "scale_offset" and rng.integers(2):
            before = [codecs, codecs] if shards == 2 else [codecs * 2, []]
        for level in range(shards - 1, -1, -1):
            location = ["start", "end"][rng.integers(2)]
            chain = [ShardingCodec(chunk_shape=tuple(int(n) for n in inner), codecs=chain, index_location=location)]
            inner = inner * lengths(1)
            chain = [*before[level], *chain]
        if turn:
            at = [0, len(before[0])][rng.integers(2)]
            chain.insert(at, TransposeCodec(order=[int(d) for d in rng.permutation(rank)]))
        a = root.create_array(
            f"t{i}", shape=shape, dtype=dtype, fill_value=fill, chunks=[int(n) for n in inner], filters=chain[:-1], serializer=chain[-1], compressors=None)
        data = (rng.integers(0, 400, shape) / 4).astype(dtype)
        first = int(rng.integers(0, shape[0]))
        a[first:] = data[first:]
        rec.variable(f"/t{i}", a[...], None, None, fill, {})
    return rec.document()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--count", type=int, default=24)
    p.add_argument("out")
    warnings.simplefilter("ignore")
    try:
        canon.emit(write(p.parse_args()))
    except Exception as err:
        canon.fail("write_elementwise.py", err)


if __name__ == "__main__":
    main()
