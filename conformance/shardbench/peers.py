"""One measurement of a peer for shardbench: peers.py zarr-python|tensorstore JOB.

JOB is the JSON of type job in main.go. Writes an array, or prints the seconds and the processor time of an operation as JSON.
Every part that is read is checked in a few elements after the measurement.
"""
import itertools
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

who, job = sys.argv[1], json.loads(sys.argv[2])
shape, chunk, inner = job["shape"], job["chunk"], job["inner"]


def expected(slices):
    """The values of a part: (k + floor(j*j/32) + i*i*i) mod 65536; with two dimensions k is 0."""
    i, j, *k = np.ogrid[tuple(slices)]
    return ((k[0] if k else 0) + j * j // 32 + i * i * i).astype(np.uint16)


def parts(size):
    return [tuple(slice(a, a + n) for a, n in zip(start, size)) for start in itertools.product(*(range(0, n, s) for n, s in zip(shape, size)))]


def with_zarr():
    import zarr

    opened = lambda: zarr.open_array(job["store"], mode="r")
    created = lambda: zarr.create_array(job["out"], shape=shape, dtype="u2", chunks=inner or chunk, shards=chunk if inner else None, fill_value=0,
                                        compressors=zarr.codecs.ZstdCodec(level=3) if job["zstd"] else None)
    return opened, created, lambda a, at: a[at], lambda a, at, data: a.__setitem__(at, data)


def with_tensorstore():
    import tensorstore as ts

    def spec(path):
        return {"driver": "zarr3", "kvstore": {"driver": "file", "path": path + "/"}}

    def created():
        with open(job["store"] + "/zarr.json", encoding="utf-8") as f:
            doc = json.load(f)
        keep = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs")
        return ts.open({**spec(job["out"]), "metadata": {k: doc[k] for k in keep}}, create=True).result()

    return lambda: ts.open(spec(job["store"])).result(), created, lambda a, at: a[at].read().result(), lambda a, at, data: a[at].write(data).result()


opened, created, get, put = {"zarr-python": with_zarr, "tensorstore": with_tensorstore}[who]()


def write():
    job["out"] = job["store"]
    a = created()
    for at in parts(chunk):
        put(a, at, expected(at))


def each(size, f):
    with ThreadPoolExecutor(job["flight"]) as pool:
        return list(pool.map(f, parts(size)))[-1]


def measured():
    a = opened()
    if job["op"] == "whole":
        return get(a, ...)
    if job["op"] == "roundtrip":
        out = created()
        each(chunk, lambda at: put(out, at, get(a, at)))
        return get(out, parts(chunk)[-1])
    last = parts(inner if job["op"] == "inner" else chunk)[-1]
    keep = {}

    def read(at):
        data = get(a, at)
        if at == last:
            keep[0] = data

    each(inner if job["op"] == "inner" else chunk, read)
    return keep[0]


begin, busy = time.perf_counter(), time.process_time()
got = write() if job["op"] == "write" else measured()
print(json.dumps({"seconds": time.perf_counter() - begin, "cpu": time.process_time() - busy}))
if got is not None:
    offset = [0] * len(shape) if job["op"] == "whole" else [n - m for n, m in zip(shape, got.shape)]
    want = expected([slice(o, n, 37) for o, n in zip(offset, shape)])
    if not np.array_equal(got[(slice(None, None, 37),) * len(shape)], want):
        sys.exit(f"{who} reads other values")
