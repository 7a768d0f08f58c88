"""The peer of TestRegistry.

  registry.py make DIR SEED COUNT   makes COUNT random cases of each id: N.json (configuration and array), N.raw (the
                                    array), N.enc (encoded by numcodecs) and N.dec (decoded again by numcodecs), and
                                    prints the ids of numcodecs' registry as JSON
  registry.py check DIR             decodes every N.ours and prints the names of those that differ from N.dec

Arrays are their bytes; elements of variable length are offsets of 4 bytes and data, as core/codec/driver lays them out.
"""

import json
import pathlib
import random
import sys
import warnings

warnings.simplefilter("ignore")
import numcodecs
import numcodecs.registry
import numpy as np

rng = random.Random()
WORDS = ["", "a", "bc", "größe", "日本", "\U0001f30d", "quote\" back\\ tab\t", "nul\0inside", "x" * 70, " spaces "]
FIXED = ["|u1", "|i1", "<u2", "<i2", ">i2", "<i4", ">u4", "<i8", ">i8", "<u8", "<f2", "<f4", ">f4", "<f8", ">f8", "|b1", "<M8[ns]", "|S5", "<U3", "<c8"]
INTS = ["|u1", "|i1", "<u2", "<i2", ">i2", "<u4", "<i4", ">i4", "<i8", ">u8"]
FLOATS = ["<f2", "<f4", ">f4", "<f8", ">f8"]


def shape():
    n = rng.choice([0, 1, 2, 7, 8, 9, 33, 100, 1000, 5003]) if rng.random() < 0.7 else rng.randrange(20000)
    if rng.random() < 0.3 and n > 6:
        return (2, max(n // 6, 1), 3)
    return (n,)


def numbers(dtype, size, top=None):
    """Random numbers of a type: constant, smooth or noise, below top."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        lo, hi = int(info.min), int(info.max)
    else:
        lo, hi = -1000, 1000
    if top is not None:
        lo, hi = max(lo, -top), min(hi, top)
    n = int(np.prod(size))
    kind = rng.choice(["constant", "smooth", "noise"])
    if kind == "constant":
        flat = np.full(n, rng.uniform(lo, hi))
    elif kind == "smooth":
        flat = (lo + hi) / 2 + (hi - lo) / 3 * np.sin(np.arange(n) / 50)
    else:
        flat = np.random.default_rng(rng.getrandbits(32)).uniform(lo, hi, n)
    if dtype.kind in "iu":
        flat = np.clip(np.floor(flat), lo, hi if hi < 2**53 else hi - 2**12)
    return flat.astype(dtype).reshape(size)


def plain(dtype=None):
    """An array of any type of fixed size."""
    dtype = np.dtype(dtype or rng.choice(FIXED))
    size = shape()
    if dtype.kind in "iuf":
        return numbers(dtype, size)
    n = int(np.prod(size))
    if dtype.kind == "b":
        return np.array([rng.random() < 0.4 for _ in range(n)], dtype).reshape(size)
    if dtype.kind in "US":
        return np.array([rng.choice(["", "a", "bc", "def"]) for _ in range(n)], dtype).reshape(size)
    if dtype.kind == "c":
        return (numbers("f4", size) + 1j * numbers("f4", size)).astype(dtype)
    return numbers("<i8", size, 2**40).view(dtype)


def objects(make, order=True):
    size = shape() if rng.random() < 0.8 else (0,)
    flat = np.empty(int(np.prod(size)), object)
    for i in range(len(flat)):
        flat[i] = make()
    a = flat.reshape(size)
    return np.asfortranarray(a) if order and rng.random() < 0.3 else a


def text():
    return rng.choice(WORDS)


def lzma_config():
    if rng.random() < 0.3:
        filters = [{"id": rng.choice([0x21, 0x4000000000000001]), "preset": rng.randrange(4)}]
        if rng.random() < 0.3:
            filters[0] |= {"lc": 2, "lp": 1, "pb": 0}
        if rng.random() < 0.5:
            filters.insert(0, {"id": 3, "dist": rng.choice([1, 2, 4, 8])})
        return {"format": 3, "filters": filters}
    if rng.random() < 0.3:
        return {"format": 2, "preset": rng.randrange(7)}
    return {"format": 1, "check": rng.choice([-1, 0, 1, 4, 10]), "preset": rng.choice([None, 0, 1, 6])}


def astype():
    a, b = rng.choice(INTS + FLOATS), rng.choice(INTS + FLOATS)
    top = 100 if "|i1" in (a, b) or "u" in a + b else 1000
    x = numbers(a, shape(), top)
    if "u" in b:
        x = np.abs(x).astype(a)
    if rng.random() < 0.2:
        b = "|b1"
    return {"encode_dtype": b, "decode_dtype": a}, x


def fixedscaleoffset():
    a = rng.choice(["<f4", "<f8", ">f4", ">f8", "<i2", "<i4", ">i4"])
    b = rng.choice(["<i2", "<i4", ">i4", "<i8", "<f4", "<f8"])
    c = {"dtype": a, "astype": b, "offset": rng.choice([0, 10, -3.5, 0.1]), "scale": rng.choice([1, 10, 0.5, 7, 3.3])}
    if a[1] == "i" and b[1] == "i" and rng.random() < 0.5:
        c["offset"], c["scale"] = 10, 2
    return c, numbers(a, shape(), 1000)


def quantize():
    c = {"dtype": rng.choice(["<f4", "<f8", ">f4", ">f8"]), "digits": rng.randrange(-3, 9)}
    if rng.random() < 0.5:
        c["astype"] = rng.choice(FLOATS)
    return c, numbers(c["dtype"], shape())


def bitround():
    a = rng.choice(["<f2", "<f4", "<f8"])
    return {"keepbits": rng.randrange({"2": 10, "4": 23, "8": 52}[a[2]] + 1)}, numbers(a, shape())


def delta():
    a = rng.choice(INTS + ["<f4", ">f4", "<f8"])
    c = {"dtype": a}
    if rng.random() < 0.4:
        # Differences of unsigned numbers wrap around. Their sums as floats exceed the type, where the result of a cast is undefined in C.
        c["astype"] = rng.choice(["<i4", ">i4", "<i8"] + ["<f8"] * ("u" not in a))
        return c, numbers(a, shape(), 50)
    return c, numbers(a, shape())


def categorize():
    labels = rng.sample(WORDS, rng.randrange(2, len(WORDS)))
    a = objects(lambda: rng.choice(labels))
    c = {"labels": labels, "dtype": "|O", "astype": rng.choice(["|u1", "<i2", ">i4", "<u8"])}
    if rng.random() < 0.4:
        labels = [w for w in labels if "\0" not in w]
        c |= {"labels": labels, "dtype": "<U80"}
        a = np.array([rng.choice(labels or [""]) for _ in a.flat], "<U80").reshape(a.shape)
    return c, a


def json2():
    kind = rng.randrange(3)
    c = {"ensure_ascii": rng.random() < 0.5, "indent": rng.choice([None, None, 2])}
    if kind == 0:
        return c, plain(rng.choice(INTS + FLOATS + ["|b1"]))
    if kind == 1:
        return c, plain("<U3")
    return c, objects(text, order=False)


def vlen_array():
    dtype = rng.choice(["<i2", ">f4", "<f8", "|u1"])
    return {"dtype": dtype}, objects(lambda: np.arange(rng.randrange(6)).astype(dtype))


def location(end=("start", "end")):
    return {"location": rng.choice(end)} if rng.random() < 0.5 else {}


CASES = {
    "adler32": lambda: (location(), plain()),
    "astype": astype,
    "base64": lambda: ({}, plain()),
    "bitround": bitround,
    "blosc": lambda: ({"cname": rng.choice(numcodecs.blosc.list_compressors()), "clevel": rng.randrange(10), "shuffle": rng.randrange(-1, 3),
                       "blocksize": rng.choice([0, 0, 0, 1000, 4096])}, plain()),
    "bz2": lambda: ({"level": rng.randrange(1, 10)}, plain()),
    "categorize": categorize,
    "crc32": lambda: (location(), plain()),
    "crc32c": lambda: (location(), plain()),
    "delta": delta,
    "fixedscaleoffset": fixedscaleoffset,
    "fletcher32": lambda: ({}, plain()),
    "gzip": lambda: ({"level": rng.randrange(10)}, plain()),
    "jenkins_lookup3": lambda: ({"initval": rng.choice([0, 1, 2**32 - 1])}, plain()),
    "json2": json2,
    "lz4": lambda: ({"acceleration": rng.randrange(-2, 30)}, plain()),
    "lzma": lambda: (lzma_config(), plain()),
    "packbits": lambda: ({}, plain("|b1")),
    "quantize": quantize,
    "shuffle": lambda: (lambda a: ({"elementsize": rng.choice([k for k in (a.itemsize, 2, 4) if a.nbytes % k == 0])}, a))(plain()),
    "vlen-array": vlen_array,
    "vlen-bytes": lambda: ({}, objects(lambda: rng.randbytes(rng.randrange(12)))),
    "vlen-utf8": lambda: ({}, objects(text)),
    "zlib": lambda: ({"level": rng.randrange(-1, 10)}, plain()),
    "zstd": lambda: ({"level": rng.randrange(-3, 10), "checksum": rng.random() < 0.5}, plain()),
    "msgpack2": lambda: ({"use_bin_type": rng.random() < 0.5, "use_single_float": False}, rng.choice([lambda: plain(rng.choice(INTS + ["<f8", "|b1"])), lambda: objects(text, order=False)])()),
}


def layout(a, like):
    """The bytes of an array in the memory layout of like."""
    a = np.asarray(a)
    if like.dtype != object:
        return a.tobytes(order="A")
    order = "F" if like.flags.f_contiguous and not like.flags.c_contiguous else "C"
    if a.shape == like.shape:
        a = a.reshape(-1, order=order)
    items = []
    for x in a.reshape(-1, order="C"):
        items.append(x.encode() if isinstance(x, str) else x if isinstance(x, bytes) else x.tobytes())
    ends = np.cumsum([0] + [len(i) for i in items]).astype("<u4")
    return ends.tobytes() + b"".join(items)


def make(folder, seed, count):
    rng.seed(seed)
    for id in sorted(CASES):
        if id not in numcodecs.registry.codec_registry:
            continue
        for i in range(count):
            while True:
                config, a = CASES[id]()
                config["id"] = id
                codec = numcodecs.get_codec(dict(config))
                try:
                    enc = codec.encode(a)
                    enc = enc.encode() if isinstance(enc, str) else enc if isinstance(enc, bytes) else np.asarray(enc).tobytes(order="A")
                    dec = decode(codec, config, enc, a)
                    break
                except Exception:
                    if a.size > 0:  # many of its codecs fail on empty arrays
                        raise
            f = folder / f"{id}-{i:04}"
            order = "F" if a.ndim > 1 and a.flags.f_contiguous and not a.flags.c_contiguous else "C"
            kind = "bytes" if id in ("vlen-bytes", "vlen-array") else ""
            about = {"config": config, "dtype": a.dtype.str, "shape": a.shape, "order": order, "kind": kind}
            f.with_suffix(".json").write_text(json.dumps(about))
            f.with_suffix(".raw").write_bytes(layout(a, a))
            f.with_suffix(".enc").write_bytes(enc)
            f.with_suffix(".dec").write_bytes(layout(dec, a))


def decode(codec, config, enc, a):
    """Decodes with numcodecs. Filters of elements need an array of the stored type."""
    if config["id"] == "bitround":
        enc = np.frombuffer(enc, a.dtype)
    dec = codec.decode(enc)
    return np.frombuffer(dec, a.dtype) if isinstance(dec, (bytes, memoryview)) and a.dtype != object else dec


def check(folder):
    for f in sorted(folder.glob("*.json")):
        about = json.loads(f.read_text())
        codec = numcodecs.get_codec(dict(about["config"]))
        like = np.empty(about["shape"], about["dtype"], order=about["order"])
        try:
            dec = layout(decode(codec, about["config"], f.with_suffix(".ours").read_bytes(), like), like)
        except Exception as e:
            print(f.stem, about["config"], "numcodecs rejects our encoding:", repr(e)[:200])
            continue
        if dec != f.with_suffix(".dec").read_bytes():
            print(f.stem, about["config"], about["dtype"], about["shape"], "numcodecs decodes our encoding to other values")


match sys.argv[1]:
    case "make":
        print(json.dumps(sorted(numcodecs.registry.codec_registry)))
        make(pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    case "check":
        check(pathlib.Path(sys.argv[2]))
