"""Write random arrays of Zarr v3 with tensorstore whose shards are transposed as a whole, and print the canonical description (canon.py).

    python write_transposed.py --seed N [--count 24] OUT

Every array has a transpose codec before sharding_indexed; some have shards in shards, also transposed, chunks that
are transposed again, and an index at the start. Some chunks are absent. OUT is a directory that must not exist.
Exit status: 0 written, 1 with one line on stderr.
"""
import argparse
import importlib.metadata
import json
import os

import numpy as np
import tensorstore

import canon
from sample import Record


def turn(rng, rank):
    return {"name": "transpose", "configuration": {"order": [int(d) for d in rng.permutation(rank)]}}


def write(args):
    rng = np.random.default_rng(args.seed)
    rec = Record({"name": "tensorstore", "version": importlib.metadata.version("tensorstore")}, canon.json_attr)
    os.makedirs(args.out)
    with open(os.path.join(args.out, "zarr.json"), "w") as f:
        json.dump({"zarr_format": 3, "node_type": "group", "attributes": {}}, f)
    rec.group("/", {})
    for i in range(args.count):
        rank = int(rng.integers(2, 5))
        kind = ["uint8", "int16", "float32", "int64"][rng.integers(4)]
        shape = [int(n) for n in rng.integers(1, 14, rank)]
        chunks = [int(n) for n in rng.integers(1, 4, rank)]
        little = {"name": "bytes", "configuration": {"endian": "little"}}
        codecs = [little, *[[], [{"name": "gzip", "configuration": {"level": 1}}], [{"name": "zstd", "configuration": {"level": 1}}]][rng.integers(3)]]
        if rng.integers(2):
            codecs = [turn(rng, rank), *codecs]
        # Build the levels from the innermost outwards. inner is the shape of a chunk of the level,
        # and outer is the shape of a shard, both with the dimensions in the order of the level.
        inner = np.array(chunks)
        for _ in range(1 + int(rng.integers(2))):
            outer = inner * rng.integers(1, 4, rank)
            index = [little, {"name": "crc32c"}] if rng.integers(4) else [little]
            codecs = [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": [int(n) for n in inner], "codecs": codecs, "index_codecs": index, "index_location": ["start", "end"][rng.integers(2)]}}]
            before = turn(rng, rank)
            codecs = [before, *codecs]
            inner = np.empty(rank, int)
            inner[before["configuration"]["order"]] = outer
        a = tensorstore.open({
            "driver": "zarr3", "kvstore": {"driver": "file", "path": os.path.join(args.out, f"t{i}") + "/"},
            "metadata": {"shape": shape, "data_type": kind, "fill_value": 7, "codecs": codecs,
                         "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [int(n) for n in inner]}}}}, create=True).result()
        data = rng.integers(0, 100, shape).astype(kind)
        first = int(rng.integers(0, shape[0]))
        a[first:].write(data[first:]).result()
        data[:first] = 7
        rec.variable(f"/t{i}", data, None, None, 7, {})
    return rec.document()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--count", type=int, default=24)
    p.add_argument("out")
    try:
        canon.emit(write(p.parse_args()))
    except Exception as err:
        canon.fail("write_transposed.py", err)


if __name__ == "__main__":
    main()
