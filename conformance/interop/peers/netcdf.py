"""What read.py, write.py and convert.py share about the netCDF4 wheel."""
import os

import netCDF4

import canon


def mode(form, consolidated=False):
    """The fragment's mode list for nczarr, zarr or noxarray in a directory tree."""
    return form + ",file" + (",consolidated" if consolidated else "")


def url(path, modes):
    return f"file://{os.path.abspath(path)}#mode={modes}"


def peer():
    return {"name": "netcdf4", "version": netCDF4.__version__, "libnetcdf": netCDF4.getlibversion().split()[0]}


def describe_path(path):
    with netCDF4.Dataset(path) as root:
        return describe(root)


def describe(root):
    """Canonical description of an open netCDF4.Dataset, raw values."""
    groups, out, todo = {}, {}, [("/", root)]
    for path, g in todo:
        g.set_auto_maskandscale(False)
        g.set_auto_chartostring(False)
        attrs = lambda o: canon.attributes({k: o.getncattr(k) for k in o.ncattrs()}, canon.typed_attr)
        groups[path] = {"attrs": attrs(g), "dims": {
            k: {"size": len(d), "unlimited": d.isunlimited()} for k, d in g.dimensions.items()}}
        prefix = path.rstrip("/") + "/"
        for name, v in g.variables.items():
            chunks = None if v.ndim == 0 else v.chunking()
            try:
                values = v[...]
            except Exception as err:
                values = err
            out[prefix + name] = canon.variable(values, v.dimensions, chunks if isinstance(chunks, list) else None,
                                                v.get_fill_value(), attrs(v), v.dtype, v.shape)
        todo += [(prefix + k, s) for k, s in g.groups.items()]
    return canon.document(peer(), groups, out)
