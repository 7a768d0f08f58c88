"""Writes known.json: values encoded by numcodecs, for the check codec.examples.known.

    "$(sh conformance/interop/peers/install.sh)/venv/bin/python" conformance/codecsuite/testdata/known.py >conformance/codecsuite/testdata/known.json

Elements of variable length are offsets of 4 bytes and data, as core/codec/driver lays them out.
"""

import json
import warnings

warnings.simplefilter("ignore")
import numcodecs
import numcodecs.blosc
import numpy as np

WORDS = ["", "a", "bc", "größe", "\U0001f30d", "nul\0inside", "x" * 40]


def noise(n):
    """Random bytes from a fixed linear congruential generator."""
    x, out = 12345, bytearray()
    for _ in range(n):
        x = (x * 1103515245 + 12345) % 2**31
        out.append(x >> 16 & 0xFF)
    return bytes(out)


def mixed(dtype, n):
    """A run, a ramp and noise."""
    a = np.zeros(n, dtype)
    third = n // 3
    ramp = np.arange(third) * 3 % 100
    a[third:2 * third] = ramp
    rest = n - 2 * third
    a[2 * third:] = np.frombuffer(noise(4 * rest), "<i4") % 100 if a.dtype.kind == "f" else np.frombuffer(noise(a.itemsize * rest), dtype)
    return a


def objects(items):
    a = np.empty(len(items), object)
    a[:] = items
    return a


LONG = [mixed("<i4", 150), mixed("|u1", 61)]  # for codecs that compress
SHORT = [mixed("|u1", 13), mixed("<i2", 9), mixed(">i4", 8), mixed("<f8", 7)]
FLOATS = np.array([0, -0.0, 1.1, -3.14159, 271.15, 1e-3, 12345.678, 0.5], "<f8")

# For each codec: whether only one encoding is valid, and pairs of parameters and arrays.
CASES = {
    "adler32": (True, [({}, a) for a in SHORT] + [({"location": "end"}, SHORT[1]), ({}, np.full(600, 255, "|u1"))]),
    "astype": (True, [({"encode_dtype": "<f4", "decode_dtype": "<f8"}, mixed("<f8", 9)), ({"encode_dtype": ">i2", "decode_dtype": "<i4"}, np.arange(-4, 5, dtype="<i4"))]),
    "base64": (True, [({}, a) for a in SHORT]),
    "bitround": (True, [({"keepbits": 5}, FLOATS.astype("<f4")), ({"keepbits": 20}, FLOATS)]),
    "blosc": (False, [({"cname": name, "clevel": 5, "shuffle": shuffle, "blocksize": size}, a)
                      for name, shuffle, size, a in [
                          ("lz4", 1, 0, LONG[0]), ("lz4", 2, 0, LONG[0]), ("lz4", 0, 0, LONG[1]), ("lz4", 1, 256, LONG[0]), ("lz4", 1, 0, mixed("<f8", 40)),
                          ("lz4hc", 1, 0, LONG[0]), ("blosclz", 1, 0, LONG[0]), ("zlib", 1, 0, LONG[0]), ("zstd", 2, 0, LONG[0])]]),
    "bz2": (False, [({"level": 1}, a) for a in LONG]),
    "categorize": (True, [({"labels": WORDS, "dtype": "|O", "astype": t}, objects([WORDS[i * 3 % 7] for i in range(12)])) for t in ("|u1", ">i4")]),
    "crc32": (True, [({}, a) for a in SHORT] + [({"location": "end"}, SHORT[1])]),
    "crc32c": (True, [({"location": where}, a) for where in ("start", "end") for a in SHORT[:2]]),
    "delta": (True, [({"dtype": a.dtype.str}, a) for a in SHORT[:3]] + [({"dtype": "<i4", "astype": "<i2"}, np.array([100, 90, 95, 300, -5], "<i4"))]),
    "fixedscaleoffset": (True, [({"dtype": "<f8", "astype": "<i2", "offset": 100, "scale": 10}, np.array([100, 101.5, 99.96, 127.3], "<f8")),
                                ({"dtype": ">f4", "astype": "|u1", "offset": 0, "scale": 2}, np.array([0, 1.5, 100], ">f4"))]),
    "fletcher32": (True, [({}, a) for a in SHORT[1:]] + [({}, np.full(1000, 255, "|u1"))]),
    "gzip": (False, [({"level": 1}, LONG[0]), ({"level": 9}, LONG[1])]),
    "jenkins_lookup3": (True, [({"initval": 0}, SHORT[0]), ({"initval": 0}, SHORT[3]), ({"initval": 7}, SHORT[1])]),
    "json2": (False, [({}, mixed("<i4", 6)), ({}, objects(WORDS))]),
    "lz4": (False, [({}, a) for a in LONG]),
    "lzma": (False, [({}, LONG[0]), ({"preset": 1}, LONG[1]), ({"format": 2}, LONG[0]), ({"format": 1, "check": 0}, LONG[1]), ({"format": 1, "check": 1}, LONG[1]),
                     ({"format": 3, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]}, LONG[0])]),
    "msgpack2": (False, [({}, mixed("<i4", 6)), ({}, objects(WORDS))]),
    "packbits": (True, [({}, np.array([int(c) for c in bits], "|b1")) for bits in ("1", "10110011", "110100111", "00000000000000001")]),
    "quantize": (True, [({"digits": 1, "dtype": "<f8"}, FLOATS), ({"digits": 2, "dtype": "<f4"}, FLOATS.astype("<f4"))]),
    "shuffle": (True, [({"elementsize": a.itemsize}, a) for a in SHORT] + [({"elementsize": 4}, SHORT[3])]),
    "vlen-array": (True, [({"dtype": "|u1"}, objects([np.frombuffer(noise(k), "|u1") for k in (3, 0, 1, 7)]))]),
    "vlen-bytes": (True, [({}, objects([noise(k) for k in (3, 0, 1, 7)]))]),
    "vlen-utf8": (True, [({}, objects(WORDS))]),
    "zlib": (False, [({"level": 1}, LONG[0]), ({"level": 9}, LONG[0]), ({"level": 1}, LONG[1]), ({"level": 0}, LONG[1])]),
    "zstd": (False, [({"level": 0}, LONG[0]), ({"level": 9, "checksum": True}, LONG[0]), ({"level": -5}, LONG[1])]),
}


def layout(a, like):
    a = np.asarray(a)
    if like.dtype != object:
        return a.tobytes()
    items = [x.encode() if isinstance(x, str) else x if isinstance(x, bytes) else x.tobytes() for x in a.reshape(-1)]
    ends = np.cumsum([0] + [len(i) for i in items]).astype("<u4")
    return ends.tobytes() + b"".join(items)


def example(id, config, a, unique):
    config = {"id": id} | config
    codec = numcodecs.get_codec(dict(config))
    enc = codec.encode(a)
    enc = enc.encode() if isinstance(enc, str) else enc if isinstance(enc, bytes) else np.asarray(enc).tobytes()
    if id == "gzip":
        enc = enc[:4] + bytes(4) + enc[8:]  # clear the time stamp
    dec = codec.decode(np.frombuffer(enc, a.dtype) if id == "bitround" else enc)
    if isinstance(dec, (bytes, bytearray, memoryview)) and a.dtype != object:
        dec = np.frombuffer(dec, a.dtype)
    x = {"codec": config, "dtype": a.dtype.str, "shape": list(a.shape)}
    source, decoded = layout(a, a), layout(dec, a)
    if source != decoded:
        x["source"] = source.hex()
    x |= {"decoded": decoded.hex(), "encoded": enc.hex()}
    if unique:
        x["unique"] = True
    return json.dumps(x)


numcodecs.blosc.use_threads = False
lines = [example(id, config, a, unique) for id, (unique, cases) in sorted(CASES.items()) for config, a in cases]
print("[\n" + ",\n".join(lines) + "\n]")
