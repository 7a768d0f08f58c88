"""What xarray shows of arrays with every kind of fill value, with its default decoding.

    python masks.py write FORMAT PATH    write arrays of Zarr v2 or v3: each type with each fill value, with and without _FillValue
    python masks.py read PATH            print {array: [value, or null if it is missing]}

The names of the arrays are TYPE_FILL or TYPE_FILL_attr. Every array has six elements, the last two of which are an absent
chunk. The first is zero or empty text, the second 5 or "abcd".
"""
import base64
import json
import struct
import sys
import warnings

import numpy as np
import xarray
import zarr

import canon

warnings.simplefilter("ignore")
NUMBERS = ["i1", "u1", "i2", ">i4", "i8", "u8", "f2", "f4", "f8"]


def encoded(fill, kind):
    if kind == "f":
        return base64.b64encode(struct.pack("<d", fill)).decode()
    return fill


def cases(v3):
    """Yield (name, dtype, data, fill value or "null", attributes)."""
    for dtype in NUMBERS:
        data = np.array([0, 5, 7, 1], dtype)
        for fill in [0, 5, "null"] + [np.nan] * ("f" in dtype):
            for attr in [False, True]:
                name = f"{dtype.strip('>')}_{fill}" + "_attr" * attr
                if fill == "null":
                    if not v3 and not attr:
                        yield name, dtype, data, fill, {}
                    continue
                shown = encoded(fill, np.dtype(dtype).kind) if v3 else "NaN" if fill != fill else fill
                yield name, dtype, data, fill, {"_FillValue": shown} if attr else {}
    packed = np.array([0, 5, 7, 1], "i2")
    for fill in [0, 5] + ["null"] * (not v3):
        yield f"packed_{fill}", "i2", packed, fill, {"scale_factor": 0.5, "add_offset": 10.0}
        yield f"scaled_{fill}", "i2", packed, fill, {"scale_factor": 10.0}
        yield f"time_{fill}", "i8", packed.astype("i8"), fill, {"units": "days since 2000-01-01", "calendar": "standard"}
        yield f"unsigned_{fill}", "i1", np.array([0, 5, -7, 1], "i1"), fill, {"_Unsigned": "true"}
    yield "default", "u1", np.array([0, 255, 7, 1], "u1"), 255, {"scale_factor": 0.5, **({"_FillValue": 255} if v3 else {})}
    for fill in [False, True] + ["null"] * (not v3):
        yield f"bool_{fill}", "?", np.array([False, True, True, False]), fill, {}
    for name, dtype in {"bytes": "S4", "text": "U4", "string": str}.items():
        one = "" if name != "bytes" else b""
        word = b"abcd" if name == "bytes" else "abcd"
        data = np.array(["", "abcd", "x", "r"], object if dtype is str else dtype)
        for fill, label in [(one, "empty"), (word, "abcd")] + [("null", "null")] * (not v3):
            yield f"{name}_{label}", dtype, data, fill, {}
    for fill in [0, 5, "NaT"] + ["null"] * (not v3):
        yield f"datetime_{fill}", "M8[s]", np.array([0, 5, 7, 1], "M8[s]"), fill, {}


def write(version, path):
    v3 = version == "3"
    group = zarr.open_group(path, mode="w", zarr_format=int(version))
    for name, dtype, data, fill, attrs in cases(v3):
        options = {"dimension_names": ["x"]} if v3 else {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}
        if dtype == "M8[s]" and fill not in ("null", "NaT"):
            fill = np.datetime64(fill, "s")
        if dtype == "M8[s]" and fill == "NaT":
            fill = np.datetime64("NaT", "s")
        a = group.create_array(name, shape=(6,), chunks=(2,), dtype=dtype if dtype is str else np.dtype(dtype),
                               fill_value=None if isinstance(fill, str) and fill == "null" else fill, config={"write_empty_chunks": True}, **options)
        a[:4] = data
        a.attrs.update(attrs)


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value.astype("M8[s]"))
    if isinstance(value, (str, np.str_)):
        return str(value)
    return None if value != value else complex(value).real


def read(path):
    store = zarr.storage.ZipStore(path, mode="r") if path.endswith(".zip") else path
    with xarray.open_zarr(store, chunks=None) as ds:
        return {str(name): [plain(x) for x in np.asarray(v.values).astype(object if v.dtype.kind != "M" else v.dtype)] for name, v in ds.variables.items()}


if __name__ == "__main__":
    try:
        if sys.argv[1] == "write":
            write(*sys.argv[2:])
        else:
            print(json.dumps(read(sys.argv[2]), sort_keys=True))
    except Exception as err:
        canon.fail("masks.py", err)
