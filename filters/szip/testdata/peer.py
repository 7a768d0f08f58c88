"""The peer of TestLibaec: libaec's szip library, as distributed with netCDF4.

  peer.py make DIR SEED COUNT   makes N.json (parameters, shape, type), N.raw and N.enc as HDF5 stores it
  peer.py check DIR             decodes every N.ours and prints the names of those that differ from N.raw
"""

import ctypes
import glob
import json
import os
import pathlib
import random
import struct
import sys

import netCDF4  # loads the libraries that libsz needs
import numpy as np

libs = glob.glob(os.path.join(os.path.dirname(netCDF4.__file__), "..", "netcdf4.libs", "libsz*")) + ["libsz.so.2"]
sz = ctypes.CDLL(libs[0])


class Param(ctypes.Structure):
    _fields_ = [("mask", ctypes.c_int), ("bits", ctypes.c_int), ("block", ctypes.c_int), ("line", ctypes.c_int)]


def call(f, data, room, c):
    dst = ctypes.create_string_buffer(room)
    n = ctypes.c_size_t(room)
    p = Param(c["mask"], c["bits-per-pixel"], c["pixels-per-block"], c["pixels-per-scanline"])
    rc = f(dst, ctypes.byref(n), data, ctypes.c_size_t(len(data)), ctypes.byref(p))
    if rc != 0:
        raise RuntimeError(f"libsz returns {rc}")
    return dst.raw[: n.value]


def scanline(shape, block):
    """The length of a scanline that H5Zszip.c chooses."""
    total, line = int(np.prod(shape)), shape[-1]
    if line < block:
        return min(block * 128, total)
    return min(block * 128, line) if line <= 4096 else block * 128


def data(rng, dtype, n):
    g = np.random.default_rng(rng.getrandbits(32))
    kind = rng.randrange(5)
    if kind == 0:
        v = np.zeros(n)
    elif kind == 1:
        v = 100 + 20 * np.sin(np.arange(n) / 30) + g.normal(0, 0.3, n)
    elif kind == 2:
        return g.bytes(n * np.dtype(dtype).itemsize)
    elif kind == 3:
        v = np.where(g.random(n) < 0.02, g.integers(0, 100, n), 0)
    else:
        v = np.cumsum(g.integers(-1, 2, n)) + 60
        v = np.clip(v, 0, 120)
    return v.astype(dtype).tobytes()


def make(folder, seed, count):
    rng = random.Random(seed)
    for i in range(count):
        dtype = rng.choice(["|u1", "|i1", "<u2", "<i2", ">i2", "<i4", ">i4", "<f4", ">f4", "<i8", "<f8", ">f8"])
        block = rng.choice([2, 4, 8, 10, 16, 32])
        shape = rng.choice([(rng.randrange(block, 6000),), (rng.randrange(1, 40), rng.randrange(block, 300)), (rng.randrange(20, 90), rng.randrange(2, 9)), (20000,)])
        if np.prod(shape) < block:
            continue
        order = 16 if dtype[0] == ">" else 8
        c = {"mask": rng.choice([4, 32]) | 128 | order, "pixels-per-block": block, "bits-per-pixel": 8 * np.dtype(dtype).itemsize, "pixels-per-scanline": scanline(shape, block)}
        raw = data(rng, dtype, int(np.prod(shape)))
        enc = struct.pack("<I", len(raw)) + call(sz.SZ_BufftoBuffCompress, raw, 2 * len(raw) + 10000, c)
        f = folder / f"{i:04}"
        f.with_suffix(".json").write_text(json.dumps({"config": c, "dtype": dtype, "shape": shape}))
        f.with_suffix(".raw").write_bytes(raw)
        f.with_suffix(".enc").write_bytes(enc)


def check(folder):
    for f in sorted(folder.glob("*.json")):
        about = json.loads(f.read_text())
        raw = f.with_suffix(".raw").read_bytes()
        try:
            out = call(sz.SZ_BufftoBuffDecompress, f.with_suffix(".ours").read_bytes()[4:], len(raw), about["config"])
        except Exception as e:
            out = repr(e)
        if out != raw:
            print(f.stem, about, "libsz does not decode our encoding", out[:80] if isinstance(out, str) else "")


match sys.argv[1]:
    case "make":
        make(pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    case "check":
        check(pathlib.Path(sys.argv[2]))
