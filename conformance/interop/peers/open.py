"""Open a dataset with a peer several times, and print the time of each in seconds.

Opening means that everything about all variables is known: shape, type and
attributes. The first time, which loads code, is not printed.
"""

import argparse
import json
import time


def with_zarr(path, consolidated):
    import zarr

    store = zarr.storage.ZipStore(path, mode="r") if path.endswith(".zip") else path
    group = zarr.open_group(store, mode="r", zarr_format=2, use_consolidated=consolidated)
    known = [(name, a.shape, a.dtype, a.attrs.asdict()) for name, a in group.arrays()]
    if path.endswith(".zip"):
        store.close()
    return len(known)


def with_netcdf4(url, consolidated):
    import netCDF4

    with netCDF4.Dataset(url) as ds:
        known = [(name, v.shape, v.dtype, v.__dict__) for name, v in ds.variables.items()]
    return len(known)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--with", dest="peer", choices=("zarr", "netcdf4"), required=True)
    p.add_argument("--consolidated", action="store_true")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("store")
    a = p.parse_args()
    opener = {"zarr": with_zarr, "netcdf4": with_netcdf4}[a.peer]
    seconds, count = [], 0
    for _ in range(a.runs + 1):
        began = time.perf_counter()
        count = opener(a.store, a.consolidated)
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"seconds": seconds[1:], "variables": count}))


if __name__ == "__main__":
    main()
