"""Encode and decode files with a codec of numcodecs, and measure the times.

    python codecs.py

A request is a line of JSON on stdin, and its response is a line on stdout, in the order of the requests:

{"file": PATH, "itemsize": 4, "codec": {"id": "zstd", "level": 3}, "runs": 1}
    encodes the bytes of the file as elements of that size, decodes the result, and responds with the fastest of the runs:
    {"size": 123, "encode": 0.01, "decode": 0.004}, in bytes and seconds of processor time
{"unpack": FOLDER, "to": FOLDER, "bytes": 4194304}
    writes the first bytes of every numeric variable of the netCDF files in a folder to separate files, little-endian,
    except variables of less than 256 KiB, and responds with their list: {"files": [{"path": PATH, "dtype": "<f4"}]}
{"versions": true}
    {"numcodecs": "0.17.1", "zstd": "1.5.6", "blosc": "1.21.7"}

The program uses one thread.
"""
import json
import os
import pathlib
import sys
import time

import numcodecs
import numpy
from numcodecs import blosc, zstd


def timed(f, *args):
    start = time.process_time()
    out = f(*args)
    return time.process_time() - start, out


def measure(q):
    data = numpy.fromfile(q["file"], f"<u{q['itemsize']}")
    codec = numcodecs.get_codec(q["codec"])
    encode, decode = [], []
    for _ in range(q["runs"]):
        seconds, enc = timed(codec.encode, data)
        encode.append(seconds)
        seconds, dec = timed(codec.decode, enc)
        decode.append(seconds)
    if bytes(dec) != data.tobytes():
        raise ValueError(f"{q}: the decoded bytes differ from the input")
    return {"size": len(enc), "encode": min(encode), "decode": min(decode)}


def unpack(q):
    import netCDF4
    files = []
    for path in sorted(pathlib.Path(q["unpack"]).iterdir()):
        if path.suffix not in (".cdf", ".nc"):
            continue
        with netCDF4.Dataset(path) as d:
            d.set_auto_maskandscale(False)
            for v in d.variables.values():
                if v.dtype is str or v.dtype.kind not in "iuf" or v.size * v.dtype.itemsize < 1 << 18:
                    continue
                data = numpy.ascontiguousarray(v[...], v.dtype.newbyteorder("<")).reshape(-1)
                to = os.path.join(q["to"], f"{path.stem}-{v.name}")
                data[:q["bytes"] // v.dtype.itemsize].tofile(to)
                files.append({"path": to, "dtype": data.dtype.str})
    return {"files": files}


def versions():
    n = zstd.VERSION_NUMBER
    return {"numcodecs": numcodecs.__version__, "zstd": f"{n // 10000}.{n // 100 % 100}.{n % 100}", "blosc": blosc.VERSION_STRING}


def main():
    blosc.use_threads = False
    for line in sys.stdin:
        q = json.loads(line)
        answer = versions() if "versions" in q else unpack(q) if "unpack" in q else measure(q)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
