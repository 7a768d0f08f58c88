"""Write or read the attributes of a group and an array with zarr-python, exactly as JSON has them.

    python attrs.py write PATH         writes a store with the values below
    python attrs.py read [--consolidated] PATH

Both print {"/": attributes, "/v": attributes}, where NaN, true, 1, 1.0 and [1] are all different.
"""
import json
import math
import sys

import zarr

ONLY_JSON = {
    "null": None, "true": True, "false": False, "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "int": 1, "float": 1.0, "list": [1], "empty": [],
    "flags": [True, False], "nans": [math.nan], "mixed": [1, "x", None], "numbers": [1, 2.5], "object": {"a": 1, "b": {"c": [math.nan, None]}},
    "text of an object": "{\"a\": 1}", "text of a list": "[1, 2]", "text of NaN": "NaN", "list of NaN": ["NaN"], "text": "null", "one": ["one"],
    "nested": [[1, 2], [3]], "big": 2 ** 64, "none": "", "grün": "ü", "hello \"w\"\n": "a\tb",
}

if __name__ == "__main__":
    path = sys.argv[-1]
    if sys.argv[1] == "write":
        g = zarr.open_group(path, mode="w", zarr_format=2, attributes=ONLY_JSON)
        v = g.create_array("v", shape=(2,), chunks=(2,), dtype="i4", fill_value=0, attributes=ONLY_JSON)
        v[:] = [1, 2]
    else:
        store = zarr.storage.ZipStore(path, mode="r") if path.endswith(".zip") else path
        g = zarr.open_group(store, mode="r", zarr_format=2, use_consolidated="--consolidated" in sys.argv)
        v = g["v"]
    print(json.dumps({"/": dict(g.attrs), "/v": dict(v.attrs)}, sort_keys=True))
