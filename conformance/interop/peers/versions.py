"""Print JSON: peer -> {"version": "..."} or {"absent": "why"}; for libnetcdf also what it can do.

    {"netcdf4": {"version": "1.7.5"}, "libnetcdf": {"version": "4.10.1", "hdf5": "2.2.0", "nczarr": true,
     "zip": false, "codecs": ["blosc", "bzip2", "zlib", "zstd"]}, "netcdf-bin": {"absent": "not root"}, ...}

nczarr, zip and codecs are found by writing a small store and reading it back, not by asking. Exit status 0.
"""
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import tempfile

PYTHON = ("zarr", "numcodecs", "xarray", "netCDF4", "tensorstore", "obstore", "numpy", "zarrs")
DEBIAN = ("netcdf-bin", "ferret-datasets", "zip", "unzip")


def line(err):
    return " ".join(f"{type(err).__name__}: {err}".split())


def python_peer(name):
    try:
        importlib.import_module(name)
        return {"version": importlib.metadata.version(name)}
    except Exception as err:
        return {"absent": line(err)}


def debian_peer(name):
    why = os.environ.get("PEERS_WHY_NOT") or "not installed"
    try:
        found = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Version}", name],
                               capture_output=True, text=True, check=False).stdout
    except OSError:
        return {"absent": why}
    return {"version": found[3:].strip()} if found.startswith("ii") else {"absent": why}


def round_trip(directory, mode, compression=None):
    """Whether values written with this mode and codec come back, and the store says so."""
    import netCDF4
    import numpy
    path = os.path.join(directory, f"{mode}-{compression}".replace(",", "-"))
    data = (numpy.arange(6000) // 9).astype("f4").reshape(60, 100)
    try:
        with netCDF4.Dataset(f"file://{path}#mode={mode}", "w") as d:
            d.createDimension("y", 60)
            d.createDimension("x", 100)
            v = d.createVariable("v", "f4", ("y", "x"), chunksizes=(30, 50), compression=compression)
            v[...] = data
        with netCDF4.Dataset(f"file://{path}#mode={mode}") as d:
            if not numpy.array_equal(numpy.asarray(d["v"][...]), data):
                return False
        if compression:
            with open(os.path.join(path, "v", ".zarray"), encoding="utf-8") as f:
                return json.load(f)["compressor"] is not None
        return True
    except Exception:
        return False


def libnetcdf():
    import netCDF4
    with tempfile.TemporaryDirectory() as tmp:
        codecs = {"zlib": "zlib", "zstd": "zstd", "bzip2": "bzip2", "blosc": "blosc_lz4"}
        return {"version": netCDF4.getlibversion().split()[0], "hdf5": netCDF4.__hdf5libversion__,
                "nczarr": round_trip(tmp, "nczarr,file"), "zip": round_trip(tmp, "nczarr,zip"),
                "codecs": sorted(k for k, v in codecs.items() if round_trip(tmp, "nczarr,file", v))}


def gdal_peer():
    try:
        import gdal
        rasterio, version = gdal.Library().version
        return {"version": version, "rasterio": rasterio}
    except Exception as err:
        return {"absent": line(err)}


def node_peer(name):
    try:
        with open(os.path.join(os.environ["PEERS_NODE"], "node_modules", name, "package.json"), encoding="utf-8") as f:
            version = json.load(f)["version"]
        node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        return {"version": version, "node": node}
    except Exception as err:
        return {"absent": line(err)}


def main():
    os.environ.pop("HDF5_PLUGIN_PATH", None)  # with this variable libnetcdf would not find the codecs in the wheel
    out = {"python": {"version": platform.python_version()}}
    out.update({name.lower(): python_peer(name) for name in PYTHON})
    try:
        out["libnetcdf"] = libnetcdf()
    except Exception as err:
        out["libnetcdf"] = {"absent": line(err)}
    out["gdal"] = gdal_peer()
    out["zarrita"] = node_peer("zarrita")
    out.update({name: debian_peer(name) for name in DEBIAN})
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
