"""Read a whole dataset with one peer and print its canonical description (canon.py) as JSON.

    python read.py --with zarr|zarrs|xarray|netcdf4|tensorstore|gdal|zarrita [--format nczarr|zarr|noxarray] [--storage file|zip]
                   [--consolidated] [--v3] PATH

--format matters to netcdf4 only (its mode). Without --consolidated, zarr opens every array that a
.zarray names, one by one, so that one bad array causes one "error"; with it, zarr trusts .zmetadata.
--v3 reads Zarr v3 with zarr, zarrs, xarray or tensorstore. zarrs is the codec pipeline of zarrs in zarr-python.
If the library of netcdf4 cannot read zip files, an archive is unpacked to a temporary directory for it.
Exit status: 0 read (perhaps with "error" in single variables), 1 refused, with one line on stderr.
"""
import argparse
import json
import os
import sys
import tempfile
import zipfile

import canon
import store


def with_zarr(args):
    import numcodecs
    import zarr
    zarr.config.set({"array.rectilinear_chunks": True})
    peer = {"name": "zarr", "version": zarr.__version__, "numcodecs": numcodecs.__version__}
    version = 3 if args.v3 else 2
    if args.v3:
        arrays, groups, top = store.nodes_v3(args.path, args.storage)
    else:
        arrays, top = store.nodes(args.path, args.storage, ".zarray")
        groups, _ = store.nodes(args.path, args.storage, ".zgroup")
    source = store.zarr_store(args.path, args.storage)
    at = lambda node: "/".join(p for p in (top, node) if p)
    attrs = lambda a: canon.attributes(a, canon.json_attr)
    if args.consolidated:
        root = zarr.open_group(source, mode="r", path=top, zarr_format=version, use_consolidated=True)
        members = dict(root.members(max_depth=None))
        arrays = [n for n, m in members.items() if isinstance(m, zarr.Array)]
        groups = [""] + [n for n in members if n not in arrays]
        opened = lambda n: root if n == "" else members[n]
    else:
        opened = lambda n: zarr.open(source, mode="r", path=at(n), zarr_format=version, **({"use_consolidated": False} if n in groups else {}))
    out_groups = {"/" + n: {"dims": None, "attrs": attrs(dict(opened(n).attrs))} for n in groups}
    out = {}
    for name in arrays:
        try:
            a = opened(name)
        except Exception as err:
            out["/" + name] = canon.variable(err, None, None, None, None)
            continue
        try:
            values = a[...]
        except Exception as err:
            values = err
        found = dict(a.attrs)
        dims = a.metadata.dimension_names if args.v3 else found.get("_ARRAY_DIMENSIONS")
        out["/" + name] = canon.variable(values, dims, store.chunks_of(a), a.fill_value,
                                         attrs(found), a.dtype, a.shape)
    return canon.document(peer, out_groups, out)


def with_zarrs(args):
    import importlib.metadata
    import zarr
    import zarrs  # noqa: F401 (registers the pipeline)
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    doc = with_zarr(args)
    doc["peer"]["zarrs"] = importlib.metadata.version("zarrs")
    return doc


def with_xarray(args):
    import xarray
    import zarr
    zarr.config.set({"array.rectilinear_chunks": True})
    peer = {"name": "xarray", "version": xarray.__version__, "zarr": zarr.__version__}
    top = store.nodes_v3(args.path, args.storage)[2] if args.v3 else store.nodes(args.path, args.storage, ".zgroup")[1]
    raw = dict.fromkeys(("mask_and_scale", "decode_times", "decode_timedelta", "decode_coords", "concat_characters"), False)
    groups = xarray.open_groups(store.zarr_store(args.path, args.storage), engine="zarr", zarr_format=3 if args.v3 else 2, **raw,
                                consolidated=args.consolidated, create_default_indexes=False,
                                **({"group": top} if top else {}))
    out_groups, out = {}, {}
    for path, ds in groups.items():
        path = "/" if path == "/." else path  # xarray's path of the dataset's root if it is a subgroup of the store
        prefix = path.rstrip("/") + "/"
        out_groups[path] = {"dims": None, "attrs": canon.attributes(ds.attrs, canon.json_attr)}
        for name, v in ds.variables.items():
            attrs = canon.attributes(v.attrs, canon.json_attr, drop=("_FillValue",))
            try:
                values = v.to_numpy()
            except Exception as err:
                values = err
            out[prefix + name] = canon.variable(values, v.dims, v.encoding.get("chunks"),
                                                v.attrs.get("_FillValue"), attrs, v.dtype, v.shape)
    return canon.document(peer, out_groups, out)


def with_netcdf4(args):
    import netcdf
    mode, unpacked = netcdf.mode(args), False
    try:
        doc = netcdf.describe_path(netcdf.url(args.path, mode))
    except OSError as err:
        if err.errno != netcdf.NOT_BUILT:
            raise
        _, top = store.keys(args.path, "zip")
        mode, unpacked = netcdf.mode(args, "file"), True
        with tempfile.TemporaryDirectory() as tmp:
            with zipfile.ZipFile(args.path) as archive:
                archive.extractall(tmp)
            doc = netcdf.describe_path(netcdf.url(os.path.join(tmp, top), mode))
    doc["peer"].update({"mode": mode, "unpacked": unpacked})
    return doc


def with_tensorstore(args):
    import importlib.metadata
    import numpy
    import tensorstore
    if args.v3:
        arrays, _, top = store.nodes_v3(args.path, args.storage)
    else:
        arrays, top = store.nodes(args.path, args.storage, ".zarray")
    out = {}
    for name in arrays:
        key = "/".join(p for p in (top, name) if p) + "/"
        kv = store.kvstore(args.path, args.storage, key)
        try:
            a = tensorstore.open({"driver": "zarr3" if args.v3 else "zarr", "kvstore": kv}, open=True, read=True).result()
            values = a.read().result()
            if values.dtype.kind in "SV" and values.dtype.itemsize == 0:
                raise TypeError("the Python binding returns characters without content")
            fill = a.fill_value
            out["/" + name] = canon.variable(numpy.asarray(values), None, a.chunk_layout.read_chunk.shape,
                                             None if fill is None else fill[()], None)
        except Exception as err:
            out["/" + name] = canon.variable(err, None, None, None, None)
    version = importlib.metadata.version("tensorstore")
    return canon.document({"name": "tensorstore", "version": version}, None, out)


def with_gdal(args):
    import gdal
    return gdal.read(os.path.abspath(args.path), args.storage)


def with_zarrita(args):
    import zarrita
    if args.storage != "file":
        raise ValueError("zarrita reads only directories")
    return json.loads(zarrita.describe(os.path.abspath(args.path)))


READERS = {"zarr": with_zarr, "zarrs": with_zarrs, "xarray": with_xarray, "netcdf4": with_netcdf4, "tensorstore": with_tensorstore, "gdal": with_gdal,
           "zarrita": with_zarrita}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--with", dest="peer", choices=READERS, required=True)
    p.add_argument("--format", choices=("nczarr", "zarr", "noxarray"), default="nczarr")
    p.add_argument("--storage", choices=("file", "zip", "s3"), default="file")
    p.add_argument("--consolidated", action="store_true")
    p.add_argument("--v3", action="store_true")
    p.add_argument("path")
    args = p.parse_args()
    try:
        canon.emit(READERS[args.peer](args))
    except Exception as err:
        canon.fail(f"read.py --with {args.peer}", err)


if __name__ == "__main__":
    main()
