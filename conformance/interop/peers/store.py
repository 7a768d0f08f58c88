"""Stores on disk: their keys, and how zarr-python and tensorstore open them."""
import os
import zipfile


def keys(path, storage):
    """All keys of a store, and the archive's top-level folder when the dataset is inside one."""
    if storage == "zip":
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if not n.endswith("/")]
        inside = {".zgroup", ".zarray", ".zattrs", ".zmetadata"}
        tops = {n.split("/")[0] for n in names}
        if not inside & set(names) and len(tops) == 1:
            top = tops.pop()
            return [n[len(top) + 1:] for n in names], top
        return names, ""
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{path}: no such directory")
    return [os.path.relpath(os.path.join(d, f), path) for d, _, fs in os.walk(path) for f in fs], ""


def nodes(path, storage, document):
    names, top = keys(path, storage)
    found = sorted(n[: -len(document)].rstrip("/") for n in names if n.split("/")[-1] == document)
    return found, top


def zarr_store(path, storage, mode="r"):
    """A zarr-python store: mode r reads, w makes a new one."""
    import zarr
    if storage == "zip":
        return zarr.storage.ZipStore(path, mode=mode)
    return zarr.storage.LocalStore(path, read_only=mode == "r")


def kvstore(path, storage, prefix):
    """A tensorstore key-value store spec; prefix is empty or ends in a slash."""
    path = os.path.abspath(path)
    if storage == "zip":
        return {"driver": "zip", "base": {"driver": "file", "path": path}, "path": prefix}
    return {"driver": "file", "path": f"{path}/{prefix}"}
