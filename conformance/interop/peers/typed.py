"""Write arrays whose filters are bound to their element type, or print the values of all arrays of a store.

    python typed.py write|read PATH

The values are printed as numbers, whatever the element type; those of flags are 0 and 1.
"""
import json
import sys

import numcodecs
import numpy as np
import zarr

if __name__ == "__main__":
    path = sys.argv[-1]
    if sys.argv[1] == "write":
        g = zarr.open_group(path, mode="w", zarr_format=2)
        half = (np.arange(10) * 1.1).astype("<f2")
        flags = np.array([1, 0, 1, 1, 0, 0, 1, 0, 1, 1], bool)
        for name, data, codec in (
            ("packbits", flags, numcodecs.PackBits()), ("packbits_u1", flags.view("u1"), numcodecs.PackBits()), ("delta", half, numcodecs.Delta("<f2")),
            ("fixedscaleoffset", half, numcodecs.FixedScaleOffset(0, 10, "<f2", "|u1")), ("quantize", half, numcodecs.Quantize(2, "<f2")),
            ("astype", half, numcodecs.AsType("<f4", "<f2")), ("times", np.arange(10).astype("<M8[s]"), numcodecs.Delta("<i8")),
            ("bitround", half, numcodecs.BitRound(3)), ("delta_i4", np.arange(10, dtype="<i4"), numcodecs.Delta("<i4")),
        ):
            g.create_array(name, shape=data.shape, chunks=(4,), dtype=data.dtype, filters=[codec], compressors=None, fill_value=0)[:] = data
        # numcodecs decodes bitround of integers but refuses to encode it, so the codec
        # is added afterwards.
        a = g.create_array("bitround_i4", shape=(10,), chunks=(4,), dtype="<i4", filters=None, compressors=None, fill_value=0)
        a[:] = np.arange(10) * 1001
        doc = json.load(open(path + "/bitround_i4/.zarray"))
        doc["filters"] = [{"id": "bitround", "keepbits": 3}]
        json.dump(doc, open(path + "/bitround_i4/.zarray", "w"))
    g = zarr.open_group(path, mode="r", zarr_format=2)
    number = lambda v: v.astype("i8") if v.dtype.kind in "bM" else v
    print(json.dumps({name: [float(x) for x in number(a[:])] for name, a in g.arrays()}, sort_keys=True))
