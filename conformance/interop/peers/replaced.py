"""Report whether a store that is being replaced is one of the expected datasets and complete.

    python replaced.py make DIR                                     # write the datasets old, new and other as Zarr v2 directories
    python replaced.py look [--storage file|zip] PLACE NAME...      # describe the stores with these names and all other files in PLACE

look prints {"stores": {NAME: {"state": S, "why": LINE, "claimed": B}}, "files": {PATH: DESCRIPTION}}. S is the name of the dataset
if the store has exactly its arrays, attributes and values, "absent" if the store does not exist, and "neither" otherwise, with the
first reason for each dataset. The only additional object that a store may have is the one that claims its place for a replacement
(claimed). A store in a bucket of versitygw is the directory in which the server keeps it. The store is read with the standard
library and numpy only: json, zlib, and the layout of chunks of the Zarr v2 specification. Expected values are computed with a
formula and not taken from another copy. Files are described by mode, owner, size, time and hash.
Exit status: 0, or 1 with one line on stderr.
"""
import argparse
import hashlib
import json
import math
import os
import re
import stat
import sys
import zipfile
import zlib

import numpy as np

# Arrays of each dataset: path -> (dtype, shape, chunks, factor of the formula). Some arrays share
# path and grid, so that a chunk of one could be mistaken for a chunk of another. "sparse" has
# chunks with only fill values, which need not be stored.
DATASETS = {
    "old": {"a": ("<i4", (40, 30), (10, 10), 7919), "g/b": ("<f8", (25,), (10,), 31), "sparse": ("<i2", (30, 4), (10, 4), 0),
            "only_old": ("<i4", (6, 6), (3, 3), 17)},
    "new": {"a": ("<i4", (40, 30), (10, 10), 104729), "g/b": ("<f8", (25,), (10,), 37), "sparse": ("<i2", (30, 4), (10, 4), 5),
            "only_new": ("<u1", (64,), (16,), 13)},
    "other": {"a": ("<i4", (20, 50), (10, 10), 1299709), "h/c": ("<f4", (12, 5), (4, 5), 41), "only_other": ("<i8", (9,), (4,), 3)},
}
FILL = -1
DOCUMENTS = {".zgroup", ".zarray", ".zattrs", ".zmetadata", ".nczgroup", ".nczarray", ".nczattr"}


def values(spec):
    """The values of an array. None is the fill value, except with factor 0, where only the last block of rows holds data."""
    dtype, shape, chunks, factor = spec
    n = math.prod(shape)
    if np.dtype(dtype).itemsize == 1:
        return (np.arange(n) * factor % 250).astype(dtype).reshape(shape)
    out = (np.arange(n, dtype="i8") * (factor or 11) % 30011 + 1).astype(dtype).reshape(shape)
    if factor == 0:
        out[: shape[0] - chunks[0]] = FILL
    return out


def grid(shape, chunks):
    return np.ndindex(*(-(-n // c) for n, c in zip(shape, chunks)))


def make(name, root):
    os.makedirs(root)
    put = lambda key, data: (os.makedirs(os.path.dirname(os.path.join(root, key)), exist_ok=True),
                             open(os.path.join(root, key), "wb").write(data))
    doc = lambda key, value: put(key, json.dumps(value).encode())
    doc(".zgroup", {"zarr_format": 2})
    doc(".zattrs", {"dataset": name})
    for path, spec in DATASETS[name].items():
        dtype, shape, chunks, _ = spec
        if "/" in path:
            doc(path.rsplit("/", 1)[0] + "/.zgroup", {"zarr_format": 2})
        fill = FILL if np.dtype(dtype).kind != "u" else 255
        doc(path + "/.zarray", {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "order": "C", "filters": None,
                                "fill_value": fill, "compressor": {"id": "zlib", "level": 1}})
        doc(path + "/.zattrs", {"_ARRAY_DIMENSIONS": [f"{path.replace('/', '_')}_{i}" for i in range(len(shape))]})
        whole = values(spec)
        for index in grid(shape, chunks):
            part = whole[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks))]
            if (part == fill).all():
                continue
            full = np.full(chunks, fill, dtype)
            full[tuple(slice(0, n) for n in part.shape)] = part
            put(path + "/" + ".".join(map(str, index)), zlib.compress(full.tobytes(), 1))


def objects(store, storage):
    """The contents of a store by key."""
    if storage == "zip":
        with zipfile.ZipFile(store) as archive:
            if bad := archive.testzip():
                raise ValueError(f"{bad}: damaged")
            out = {n: archive.read(n) for n in archive.namelist() if not n.endswith("/")}
        if ".zgroup" not in out:  # the dataset is in a separate folder
            top = {n.split("/")[0] for n in out}
            if len(top) == 1:
                cut = len(top.pop()) + 1
                out = {n[cut:]: data for n, data in out.items()}
        return out
    out = {}
    for dir_, _, files in os.walk(store):
        for name in files:
            path = os.path.join(dir_, name)
            with open(path, "rb") as f:
                out[os.path.relpath(path, store)] = f.read()
    return out


def decode(doc, data):
    for step in reversed([*(doc["filters"] or []), *([doc["compressor"]] if doc["compressor"] else [])]):
        if step["id"] != "zlib":
            raise ValueError(f"codec {step['id']}")
        data = zlib.decompress(data)
    return np.frombuffer(data, doc["dtype"]).reshape(doc["chunks"], order=doc["order"])


def read_array(found, path, used):
    doc = json.loads(found[path + "/.zarray"])
    out = np.full(doc["shape"], doc["fill_value"], doc["dtype"])
    for index in grid(doc["shape"], doc["chunks"]):
        key = path + "/" + doc.get("dimension_separator", ".").join(map(str, index))
        if key in found:
            used.add(key)
            part = out[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, doc["chunks"]))]
            part[...] = decode(doc, found[key])[tuple(slice(0, n) for n in part.shape)]
    return out


PROBE = re.compile(r"\.nczprobe-[A-Z2-7]{26}")


def differs(found, name):
    """The first reason why the objects are not the dataset, or None."""
    arrays = DATASETS[name]
    nodes = {"", *arrays, *(p.rsplit("/", 1)[0] for p in arrays if "/" in p)}
    used = set()
    for key in found:
        node, _, last = key.rpartition("/")
        if last in DOCUMENTS:
            json.loads(found[key])
            if node not in nodes:
                return f"{key} is of another dataset"
            used.add(key)
    if json.loads(found.get(".zattrs", b"{}")).get("dataset") != name:
        return "another attribute in the root"
    for node in nodes - set(arrays):
        if f"{node}/.zgroup".lstrip("/") not in found:
            return f"the group /{node} has no document"
    for path, spec in arrays.items():
        if path + "/.zarray" not in found:
            return f"{path} is missing"
        want, got = values(spec), read_array(found, path, used)
        if want.dtype != got.dtype or want.shape != got.shape:
            return f"{path} is {got.dtype} {got.shape}"
        if want.tobytes() != got.tobytes():
            at = tuple(map(int, np.argwhere(want != got)[0]))
            return f"{path}{list(at)} is {got[at]}, want {want[at]}"
    if extra := sorted(set(found) - used):
        return f"{extra[0]} does not belong to it"
    return None


def check(store, storage):
    claimed, why = False, []
    try:
        found = objects(store, storage) if os.path.lexists(store) else {}
        claimed = found.pop(".nczreplacing", None) is not None
        for key in [k for k in found if PROBE.fullmatch(k)]:
            del found[key]  # left by a copy that was killed while it compared two places
        if not found:
            return {"state": "absent", "why": "", "claimed": claimed}
        for name in DATASETS:
            reason = differs(found, name)
            if reason is None:
                return {"state": name, "why": "", "claimed": claimed}
            why.append(f"not {name}: {reason}")
    except (ValueError, KeyError, OSError, zlib.error, zipfile.BadZipFile) as err:
        why.append(f"{type(err).__name__}: {err}")
    return {"state": "neither", "why": "; ".join(why), "claimed": claimed}


def describe(path):
    info = os.lstat(path)
    head = f"{stat.filemode(info.st_mode)} {info.st_uid}:{info.st_gid} "
    if stat.S_ISLNK(info.st_mode):
        return head + os.readlink(path)
    if not stat.S_ISREG(info.st_mode):
        return head
    with open(path, "rb") as f:
        return f"{head}{info.st_size} {info.st_mtime_ns} {hashlib.sha256(f.read()).hexdigest()}"


def files(root, leave):
    out = {}
    for dir_, dirs, names in os.walk(root):
        if dir_ == root:
            dirs[:] = [d for d in dirs if d not in leave]
            names = [n for n in names if n not in leave]
        for name in [*dirs, *names]:
            path = os.path.join(dir_, name)
            out[os.path.relpath(path, root)] = describe(path)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--storage", choices=("file", "zip"), default="file")
    p.add_argument("verb", choices=("make", "look"))
    p.add_argument("place")
    p.add_argument("names", nargs="*")
    args = p.parse_args()
    try:
        if args.verb == "make":
            for name in DATASETS:
                make(name, os.path.join(args.place, name))
        else:
            stores = {n: check(os.path.join(args.place, n), args.storage) for n in args.names}
            json.dump({"stores": stores, "files": files(args.place, set(args.names))}, sys.stdout, sort_keys=True)
    except Exception as err:
        sys.exit(f"replaced.py {args.verb}: {type(err).__name__}: {err}")


if __name__ == "__main__":
    main()
