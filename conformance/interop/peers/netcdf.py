"""Helpers for the netCDF4 wheel, used by read.py, write.py and convert.py."""
import os

# With an inherited filter path, even an empty one, libnetcdf would not find the codecs
# in the wheel.
os.environ.pop("HDF5_PLUGIN_PATH", None)

import netCDF4

import canon


NOT_BUILT = -128  # error of libnetcdf for a feature that it was built without, such as zip in the wheel


def mode(args, storage=None):
    """The fragment's mode list from --format (nczarr, zarr or noxarray), --storage and --consolidated."""
    return f"{args.format},{storage or args.storage}" + (",consolidated" if args.consolidated else "")


def url(path, modes):
    return f"file://{os.path.abspath(path)}#mode={modes}"


def peer():
    return {"name": "netcdf4", "version": netCDF4.__version__, "libnetcdf": netCDF4.getlibversion().split()[0]}


def describe_path(path):
    with netCDF4.Dataset(path) as root:
        return describe(root)


def attributes(owner):
    return canon.attributes({k: owner.getncattr(k) for k in owner.ncattrs()}, canon.typed_attr)


def describe(root):
    """Canonical description of an open netCDF4.Dataset, raw values."""
    groups, out, pending = {}, {}, [("/", root)]
    for path, g in pending:
        g.set_auto_maskandscale(False)
        g.set_auto_chartostring(False)
        groups[path] = {"attrs": attributes(g), "dims": {
            k: {"size": len(d), "unlimited": d.isunlimited()} for k, d in g.dimensions.items()}}
        prefix = path.rstrip("/") + "/"
        for name, v in g.variables.items():
            chunks = None if v.ndim == 0 else v.chunking()
            try:
                values = v[...]
            except Exception as err:
                values = err
            out[prefix + name] = canon.variable(values, v.dimensions, chunks if isinstance(chunks, list) else None,
                                                v.get_fill_value(), attributes(v), v.dtype, v.shape)
        pending += [(prefix + k, s) for k, s in g.groups.items()]
    return canon.document(peer(), groups, out)
