"""Time whole-array reads or writes of one float32 array with zarr-python or tensorstore; JSON on stdout.

    python bench.py read  [--with zarr|tensorstore] [--storage file|zip] [--array NAME] [--runs N] [--threads N] STORE
    python bench.py write [--with zarr|tensorstore] [--storage file|zip] [--array NAME] [--runs N] [--threads N]
                          --like STORE [--like-storage file|zip] OUT

read: opens the store anew and reads the array into new memory, once to warm up and then N times (5).
write: reads the array of --like once, untimed, then writes it N + 1 times with the same shape, chunks and codecs to
OUT, which is replaced each time and not deleted. Zarr v2 only.
--threads limits the workers of the peer; the default is that of the peer. --array is empty for an array at the root.

{"mode": "read", "with": "zarr", "version": "3.4.2", "seconds": [0.51, ...], "bytes": 536870912, "stored_bytes": 305000000,
 "chunks": [1024, 1024], "compressor": {}, "filters": null, "sha256": "...", "peak_rss_mib": 561.2, "base_rss_mib": 49.8}
bytes is the array, stored_bytes all files of the store, base_rss_mib before the array is touched, so that peak - base -
array is the additional memory of the peer (writing: peak includes the reading of --like). sha256 as in canon.py.
"""
import argparse
import importlib.metadata
import json
import os
import resource
import shutil
import time

import canon
import store
import value


def rss():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def stored(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files)


class Zarr:
    name = "zarr"

    def __init__(self, threads):
        import zarr
        if threads:
            zarr.config.set({"threading.max_workers": threads, "async.concurrency": threads})

    def read(self, path, storage, array):
        import zarr
        target = store.zarr_store(path, storage, "r")
        try:
            return zarr.open_array(target, path=array, mode="r", zarr_format=2)[...]
        finally:
            target.close()

    def write(self, path, storage, array, data, meta):
        import numcodecs
        import zarr
        target = store.zarr_store(path, storage, "w")
        codec = lambda c: numcodecs.get_codec(dict(c))
        if array:
            zarr.create_group(target, zarr_format=2)
        a = zarr.create_array(target, name=array or None, shape=data.shape, dtype=data.dtype, chunks=tuple(meta["chunks"]),
                              zarr_format=2, fill_value=meta["fill_value"], order=meta["order"],
                              compressors=codec(meta["compressor"]) if meta["compressor"] else None,
                              filters=[codec(f) for f in meta["filters"]] if meta["filters"] else None,
                              chunk_key_encoding={"name": "v2", "separator": meta.get("dimension_separator", ".")})
        a[...] = data
        target.close()


class TensorStore:
    name = "tensorstore"

    def __init__(self, threads):
        import tensorstore
        limit = {"limit": threads} if threads else {}
        self.context = tensorstore.Context({"data_copy_concurrency": limit, "file_io_concurrency": limit})

    def read(self, path, storage, array):
        import tensorstore
        spec = {"driver": "zarr", "kvstore": store.kvstore(path, storage, array + "/" if array else "")}
        return tensorstore.open(spec, open=True, read=True, context=self.context).result().read().result()

    def write(self, path, storage, array, data, meta):
        import tensorstore
        if storage == "zip":
            raise NotImplementedError("tensorstore cannot write zip")
        if meta["filters"]:
            raise NotImplementedError("tensorstore has no filters in Zarr v2")
        spec = {"driver": "zarr", "kvstore": store.kvstore(path, storage, array + "/" if array else ""), "metadata": meta}
        tensorstore.open(spec, create=True, delete_existing=True, context=self.context).result().write(data).result()


def metadata(path, storage, array):
    import zipfile
    key = f"{array}/.zarray" if array else ".zarray"
    if storage == "zip":
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read(key))
    with open(os.path.join(path, key), encoding="utf-8") as f:
        return json.load(f)


def run(args):
    source, storage = (args.path, args.storage) if args.mode == "read" else (args.like, args.like_storage)
    meta = metadata(source, storage, args.array)
    peer = {"zarr": Zarr, "tensorstore": TensorStore}[args.peer](args.threads)
    base, seconds, data = rss(), [], None
    if args.mode == "write":
        data = Zarr(0).read(source, storage, args.array)
    for _ in range(args.runs + 1):
        if args.mode == "write":
            if os.path.isdir(args.path):
                shutil.rmtree(args.path)
            start = time.perf_counter()
            peer.write(args.path, args.storage, args.array, data, meta)
        else:
            data = None
            start = time.perf_counter()
            data = peer.read(source, storage, args.array)
        seconds.append(round(time.perf_counter() - start, 6))
    peak = rss()
    return {"mode": args.mode, "with": peer.name, "version": importlib.metadata.version(peer.name), "seconds": seconds[1:],
            "bytes": data.nbytes, "stored_bytes": stored(args.path), "chunks": meta["chunks"], "compressor": meta["compressor"],
            "filters": meta["filters"], "peak_rss_mib": peak, "base_rss_mib": base, "sha256": value.digest(data)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mode", choices=("read", "write"))
    p.add_argument("--with", dest="peer", choices=("zarr", "tensorstore"), default="zarr")
    p.add_argument("--storage", choices=("file", "zip"), default="file")
    p.add_argument("--array", default="")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--like")
    p.add_argument("--like-storage", choices=("file", "zip"), default="file")
    p.add_argument("path")
    args = p.parse_args()
    try:
        if args.mode == "write" and (not args.like or os.path.realpath(args.like) == os.path.realpath(args.path)):
            raise ValueError("write needs --like STORE, another store than OUT")
        canon.emit(run(args))
    except Exception as err:
        canon.fail(f"bench.py {args.mode} --with {args.peer}", err)


if __name__ == "__main__":
    main()
