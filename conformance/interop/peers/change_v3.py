"""Change a dataset of Zarr v3 with zarr-python, and print the canonical description (canon.py) of every array afterwards.

    python change_v3.py PATH

Every array of integers gets its first element and an attribute; the group /ours, if it exists, gets an array.
Exit status: 0 changed, 1 with one line on stderr.
"""
import argparse

import numpy as np
import zarr

import canon
import store

zarr.config.set({"array.rectilinear_chunks": True})


def change(path):
    root = zarr.open_group(path, mode="r+", zarr_format=3, use_consolidated=False)
    variables, groups = {}, {"/": {"dims": None, "attrs": canon.attributes(dict(root.attrs), canon.json_attr)}}
    if "ours" in root:
        root["ours"].create_array("theirs", shape=(3,), chunks=(2,), dtype="i2", fill_value=-1, dimension_names=["k"])[:2] = [5, 6]
    for name, node in root.members(max_depth=None):
        if isinstance(node, zarr.Group):
            groups["/" + name] = {"dims": None, "attrs": canon.attributes(dict(node.attrs), canon.json_attr)}
            continue
        if np.dtype(node.dtype).kind in "iu":
            node[(0,) * node.ndim] = 77
            node.attrs["changed"] = "by zarr-python"
        attrs = canon.attributes(dict(node.attrs), canon.json_attr)
        variables["/" + name] = canon.variable(node[...], node.metadata.dimension_names, store.chunks_of(node), node.fill_value, attrs, node.dtype, node.shape)
    return canon.document({"name": "zarr", "version": zarr.__version__}, groups, variables)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("path")
    try:
        canon.emit(change(p.parse_args().path))
    except Exception as err:
        canon.fail("change_v3.py", err)


if __name__ == "__main__":
    main()
