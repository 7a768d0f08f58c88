"""Random arrays for write.py --case random: any type, shape, chunks, order, codecs and fill value, some chunks absent."""
import numcodecs
import numpy as np

NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "f2", "?", "M8[ns]", "m8[25s]")
TEXTS = ["", "a", "\u65e5\u672c", "x\0y", "two words", "\U0001f30a", "0", "null", "'\"\\"]


def shown(data):
    """The values with the types of netCDF: bools and times as integers, half floats as floats."""
    kind = data.dtype.kind
    if kind == "b":
        return data.view("u1")
    if kind in "Mm":
        return data.view(data.dtype.str[0] + "i8")
    return single(data.astype("<f2")) if data.dtype.str[1:] == "f2" else data


def single(half):
    """Half floats as floats, converted here because the hardware would make signaling NaNs quiet."""
    bits = half.view("<u2").astype("<u4")
    nan = (bits & 0x8000) << 16 | 0x7F800000 | (bits & 0x3FF) << 13
    return np.where(np.isnan(half), nan, half.astype("<f4").view("<u4")).astype("<u4").view("<f4")


def values(rng, dtype, shape):
    n = int(np.prod(shape, dtype=int))
    if dtype == "str":
        return np.array([TEXTS[i] for i in rng.integers(0, len(TEXTS), n)], object).reshape(shape)
    dtype = np.dtype(dtype)
    if dtype.kind in "SU":
        list_ = [TEXTS[i] for i in rng.integers(0, len(TEXTS), n)]
        if dtype.kind == "S":
            list_ = [t.encode()[: dtype.itemsize].decode("utf-8", "ignore").encode() for t in list_]
        return np.array(list_, dtype).reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, n).astype("?").reshape(shape)
    return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).reshape(shape)  # any bits, including NaNs with payloads


def fill_of(rng, dtype, data):
    """A fill value that JSON can hold: null, zero, a word, an end of the range."""
    kind = "O" if dtype == "str" else np.dtype(dtype).kind
    if kind == "O":
        return "", [""]
    if kind in "SU":
        return (b"" if kind == "S" else ""), [np.zeros((), dtype)[()]]
    if kind == "b":
        return True, [True]
    if kind in "Mm":
        fill = np.array(int(rng.integers(-5, 5)), data.dtype)[()]
        return fill, [fill]
    if rng.integers(4) == 0:
        return None, [0]
    if kind == "f":
        fill = [np.nan, np.inf, -np.inf, -0.0, 1.1, 1e-40][rng.integers(6)]
    else:
        info = np.iinfo(data.dtype)
        fill = [0, 1, info.min, info.max][rng.integers(4)]
    fill = np.array(fill).astype(data.dtype)[()]
    return fill, [fill]


def codecs(rng, data, dtype):
    size = 1 if dtype == "str" else data.dtype.itemsize
    compressor = [None, numcodecs.Zlib(1), numcodecs.Zstd(1), numcodecs.GZip(1), numcodecs.Blosc("lz4", 5, 1),
                  numcodecs.Blosc("zstd", 1, 2), numcodecs.LZ4(), numcodecs.BZ2(1)][rng.integers(8)]
    filters = []
    if dtype != "str" and data.dtype.kind in "iu" and rng.integers(2):
        filters.append(numcodecs.Delta(data.dtype.str))
    if dtype != "str" and rng.integers(2):
        filters.append(numcodecs.Shuffle(size))
    if rng.integers(4) == 0:
        filters.append(numcodecs.CRC32())
    if dtype == "str":
        filters = [numcodecs.VLenUTF8(), *filters]
    return {"compressors": compressor, "filters": filters or None}


def arrays(seed, count):
    """Returns the name, all values, the region that is written, shown values, chunks, fill value and codecs."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        dtype = [*NUMBERS, "S5", "U3", "str"][rng.integers(len(NUMBERS) + 3)]
        if dtype not in ("str", "?", "i1", "u1", "S5"):
            dtype = "<>"[rng.integers(2)] + dtype
        shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(0, 4)))
        chunks = tuple(int(n) for n in rng.integers(1, 10, len(shape)))
        written = values(rng, dtype, shape)
        fill, one = fill_of(rng, dtype, written)
        data, part = written, None
        if shape and rng.integers(2):  # the end of the first dimension stays unwritten
            data, part = written.copy(), slice(0, int(rng.integers(0, shape[0] + 1)))
            data[part.stop:] = one[0]
        kw = codecs(rng, written, dtype)
        kw["order"] = "CF"[rng.integers(2)]
        yield f"/r{i}_{dtype.strip('<>').split('[')[0].strip('?') or 'b1'}", data, part, dtype, chunks, fill, "./"[rng.integers(2)], kw
