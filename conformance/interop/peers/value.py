"""Types, numbers and hashes of the canonical form; canon.py defines them."""
import hashlib
import math
import sys

import numpy as np

NAMES = {"i1": "byte", "u1": "ubyte", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint",
         "i8": "int64", "u8": "uint64", "f4": "float", "f8": "double", "S1": "char"}


def type_name(dtype):
    """Canonical name of a numpy dtype, or of str."""
    if dtype is str or np.dtype(dtype).kind in "OTU":
        return "string"
    dtype = np.dtype(dtype)
    name = f"{dtype.kind}{dtype.itemsize}"
    return NAMES.get(name, "string" if dtype.kind == "S" else name)


def text(value):
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return str(value).rstrip("\0")


def digest(values):
    """Hash of an array's values, as defined in canon.py."""
    values = np.asarray(values)
    h = hashlib.sha256()
    if type_name(values.dtype) == "string":
        for item in values.ravel(order="C").tolist():
            h.update(text(item).encode() + b"\0")
    else:
        if values.dtype.byteorder == ">" or (values.dtype.byteorder == "=" and sys.byteorder == "big"):
            values = values.astype(values.dtype.newbyteorder("<"))
        h.update(np.ascontiguousarray(values).tobytes())
    return h.hexdigest()


def scalar(value):
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64):
        return int(value)
    if isinstance(value, (float, np.floating)):
        value = float(value)
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return None if value is None else text(value)
