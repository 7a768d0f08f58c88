"""Quantize values with libnetcdf and print nothing: the bits go to a file.

    python quantize.py f4|f8 IN OUT

IN holds raw little-endian values. OUT gets, for each mode (BitGroom, GranularBitRound, BitRound) and each
number of digits or bits from 1 up that libnetcdf supports, all values as they were stored. Exit status: 0 written,
1 with one line on stderr.
"""
import sys

import netCDF4
import numpy as np

import canon

MOST = {"f4": {"BitGroom": 6, "GranularBitRound": 6, "BitRound": 23}, "f8": {"BitGroom": 15, "GranularBitRound": 15, "BitRound": 52}}


def main(kind, source, target):
    data = np.fromfile(source, "<" + kind)
    with netCDF4.Dataset("quantize.nc", "w", diskless=True, persist=False) as ds, open(target, "wb") as out:
        ds.createDimension("x", data.size)
        for mode, most in MOST[kind].items():
            for digits in range(1, most + 1):
                v = ds.createVariable(f"{mode}_{digits}", kind, ("x",), significant_digits=digits, quantize_mode=mode)
                v.set_auto_mask(False)
                v[:] = data
                np.asarray(v[:]).astype("<" + kind).tofile(out)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as err:
        canon.fail("quantize.py", err)
