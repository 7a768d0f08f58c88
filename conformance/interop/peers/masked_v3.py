"""Open a dataset of Zarr v3 with xarray, with and without masking, and compare.

    python masked_v3.py [--consolidated] PATH

Prints the number of variables, and the number of variables with masked values. A value must be NaN exactly if the raw value is
_FillValue or NaN.
Exit status: 0 they agree, 1 with one line on stderr.
"""
import argparse
import json

import numpy as np
import xarray

import canon


def check(args):
    kw = {"consolidated": args.consolidated, "zarr_format": 3, "decode_times": False, "decode_coords": False, "create_default_indexes": False}
    raw = xarray.open_zarr(args.path, mask_and_scale=False, **kw)
    shown = xarray.open_zarr(args.path, mask_and_scale=True, **kw)
    masked = 0
    for name, v in raw.variables.items():
        a, b = v.to_numpy(), shown.variables[name].to_numpy()
        if "_FillValue" not in v.attrs or a.dtype.kind not in "iuf":
            continue
        fill = np.asarray(v.attrs["_FillValue"]).astype(a.dtype)
        want = (a == fill) | (a != a)
        if not np.array_equal(np.isnan(b.astype("f8")), want):
            raise ValueError(f"{name}: masked {np.isnan(b.astype('f8')).tolist()}, the values are {a.tolist()}, _FillValue {fill}")
        masked += bool(want.any())
    return {"variables": len(raw.variables), "masked": masked}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--consolidated", action="store_true")
    p.add_argument("path")
    try:
        print(json.dumps(check(p.parse_args())))
    except Exception as err:
        canon.fail("masked_v3.py", err)


if __name__ == "__main__":
    main()
