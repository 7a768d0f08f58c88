"""What stored numbers mean to netCDF4-python, and which positions xarray selects.

    python meaning.py numbers PATH    {"/v": [NaN or number]}: masked and scaled; PATH is an NCZarr directory
    python meaning.py dates PATH      {"/v": [text]}: variables with units of time, decoded
    python meaning.py select IN       IN is a list of {"coord": [...], "nearest": [...], "between": [[low, high], ...]};
                                      the output is a list of lists of positions, one for each of nearest and between
"""
import json
import sys

import numpy as np

import canon


def numbers(path):
    import netCDF4
    with netCDF4.Dataset(f"file://{path}#mode=nczarr,file") as ds:
        return {"/" + name: np.ma.filled(np.ma.asarray(v[...], dtype="f8"), np.nan).ravel().tolist() for name, v in ds.variables.items()}


def dates(path):
    import netCDF4
    with netCDF4.Dataset(f"file://{path}#mode=nczarr,file") as ds:
        ds.set_auto_mask(False)
        return {"/" + name: [d.strftime("%Y-%m-%dT%H:%M:%S.%f") for d in netCDF4.num2date(v[...], v.units, v.calendar, only_use_cftime_datetimes=True)]
                for name, v in ds.variables.items()}


def select(path):
    import xarray
    out = []
    with open(path) as f:
        for case in json.load(f):
            coord = case["coord"]
            a = xarray.DataArray(np.arange(len(coord)), coords={"x": coord}, dims="x")
            turn = len(coord) > 1 and coord[0] > coord[-1]
            found = [[int(a.sel(x=x, method="nearest"))] for x in case["nearest"]]
            found += [a.sel(x=slice(high, low) if turn else slice(low, high)).values.tolist() for low, high in case["between"]]
            out.append(found)
    return out


if __name__ == "__main__":
    try:
        print(json.dumps({"numbers": numbers, "dates": dates, "select": select}[sys.argv[1]](sys.argv[2])))
    except Exception as err:
        canon.fail("meaning.py", err)
