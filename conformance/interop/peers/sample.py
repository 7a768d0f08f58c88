"""Deterministic sample values and a recorder of what a writer wrote; used by write.py."""
import numpy as np

import canon

SIZES = {"t": 6, "z": 3, "y": 5, "x": 7, "n": 9, "row": 64, "col": 50}
NUMERIC = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
TEXTS = ["", "a", "Meßwert", "deg_C", "日本", "two words", "1e5", "true", "{}"]


def values(dtype, shape):
    """Numbers that use the whole range of the type: both ends, both signs, NaN and infinities."""
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=int))
    if dtype.kind == "b":
        return (np.arange(n) % 3 == 0).reshape(shape)
    if dtype.kind == "S":
        texts = [s.encode()[: dtype.itemsize] for s in (TEXTS if dtype.itemsize > 1 else "0aZ~ x")]
        texts = [t.decode("utf-8", "ignore").encode() for t in texts]
        return np.array([texts[i % len(texts)] for i in range(n)], dtype).reshape(shape)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        out = [(info.max // 7 * (i % 7) + i) % info.max * (-1 if i % 2 and dtype.kind == "i" else 1) for i in range(n)]
        out[:2] = [info.min, info.max][:n] if n > 1 else [42]
        return np.array(out, dtype).reshape(shape)
    out = (np.arange(n) * 0.37 - 5).astype(dtype)
    if n > 4:
        out[1:5] = [np.nan, np.inf, -np.inf, -0.0]
    return out.reshape(shape)


def smooth(dtype, dims=("row", "col")):
    """A field that compresses: slowly rising with a small ripple."""
    shape = [SIZES[d] for d in dims]
    i = np.arange(int(np.prod(shape)))
    return (i // 16 + i % 5).astype(dtype).reshape(shape)


class Record:
    """Collects the canonical description while a writer writes."""

    def __init__(self, peer, one_attr):
        self.peer, self.one_attr = peer, one_attr
        self.groups, self.variables = {}, {}

    def group(self, path, attrs, dims=None):
        self.groups[path] = {"attrs": canon.attributes(attrs, self.one_attr), "dims": dims}

    def variable(self, path, data, dims, chunks, fill, attrs, dtype=None, drop=()):
        shown = canon.attributes(attrs, self.one_attr, drop)
        self.variables[path] = canon.variable(data, dims, chunks, fill, shown, dtype)

    def document(self):
        return canon.document(self.peer, self.groups, self.variables)
