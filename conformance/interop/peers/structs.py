"""Write or read arrays of structures with zarr-python.

    python structs.py write PATH    writes a dataset of Zarr v2 with the arrays below
    python structs.py read PATH     reads a dataset of any version

Both print {array: [values, fill value]}, with the byte order left out.
"""
import json
import sys
import warnings

import numcodecs
import numpy as np
import zarr

warnings.simplefilter("ignore")


def dtypes():
    for name, order in {"little": "<", "big": ">"}.items():
        flat = [("a", order + "i4"), ("b", order + "f8"), ("s", "S3"), ("u", order + "U2"), ("bool", "?"), ("c", order + "c8"), ("raw", "V2")]
        yield name, np.dtype(flat)
        yield "nested_" + name, np.dtype([("a", order + "i2"), ("n", [("x", order + "f4"), ("m", [("y", "u1"), ("t", order + "M8[s]")])])])
    yield "bytes", np.dtype([("a", "u1"), ("b", "i1")])
    yield "mixed", np.dtype([("a", "<i4"), ("b", ">i4")])


def shown(values):
    return [v.hex() if isinstance(v, bytes) else str(v) for v in flat(values.tolist())]


def flat(v):
    if isinstance(v, (list, tuple)):
        for e in v:
            yield from flat(e)
    else:
        yield v


if __name__ == "__main__":
    path = sys.argv[2]
    out = {}
    if sys.argv[1] == "write":
        random = np.random.default_rng(7)
        g = zarr.open_group(path, mode="w", zarr_format=2)
        for i, (name, dtype) in enumerate(dtypes()):
            data = np.zeros((5, 4), dtype)

            def fill(part):
                for field in part.dtype.names or ():
                    if part.dtype[field].names:
                        fill(part[field])
                    elif part.dtype[field].kind == "S":
                        part[field] = b"xy"
                    elif part.dtype[field].kind == "U":
                        part[field] = "é"
                    elif part.dtype[field].kind != "V":
                        part[field] = random.integers(0, 100, part[field].shape)
            fill(data)
            compressors = [None, numcodecs.Zlib(1), numcodecs.Blosc("lz4", 1, 1)][i % 3]
            v = g.create_array(name, shape=data.shape, chunks=(2, 3), dtype=dtype, fill_value=data[0, 0] if i % 2 else np.zeros((), dtype)[()],
                               compressors=compressors)
            v[:4] = data[:4]
            v.attrs["name"] = name
    for name, v in sorted(zarr.open_group(path, mode="r").arrays()):
        fill = np.zeros((), v.dtype) if v.fill_value is None else np.array(v.fill_value)  # a fill value of zero is null in copies to Zarr v2
        out[name] = [shown(v[:]), shown(fill)]
    print(json.dumps(out, sort_keys=True))
