"""Stores on disk and in buckets: their keys, and how zarr-python and tensorstore open them."""
import json
import os
import zipfile


def bucket(url):
    """An obstore store for http://host:port/bucket/key; the access keys come from the environment."""
    from urllib.parse import urlsplit
    from obstore.store import S3Store
    parts = urlsplit(url)
    name, _, prefix = parts.path.strip("/").partition("/")
    return S3Store(name, prefix=prefix, endpoint=f"{parts.scheme}://{parts.netloc}", region="us-east-1",
                   access_key_id=os.environ["AWS_ACCESS_KEY_ID"], secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
                   virtual_hosted_style_request=False, client_options={"allow_http": True})


def keys(path, storage):
    """All keys of a store, and the archive's top-level folder when the dataset is inside one."""
    if storage == "zip":
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if not n.endswith("/")]
        inside = {".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"}
        tops = {n.split("/")[0] for n in names}
        if not inside & set(names) and len(tops) == 1:
            top = tops.pop()
            return [n[len(top) + 1:] for n in names], top
        return names, ""
    if storage == "s3":
        return [o["path"] for page in bucket(path).list() for o in page], ""
    if not os.path.isdir(path):
        raise FileNotFoundError(f"{path}: no such directory")
    return [os.path.relpath(os.path.join(d, f), path) for d, _, fs in os.walk(path) for f in fs], ""


def nodes(path, storage, document):
    names, top = keys(path, storage)
    found = sorted(n[: -len(document)].rstrip("/") for n in names if n.split("/")[-1] == document)
    return found, top


def nodes_v3(path, storage):
    """The arrays and the groups of Zarr v3, and the top-level folder that keys returns."""
    found, top = nodes(path, storage, "zarr.json")
    text = {}
    if storage == "zip":
        with zipfile.ZipFile(path) as archive:
            text = {n: archive.read("/".join(p for p in (top, n, "zarr.json") if p)) for n in found}
    else:
        for n in found:
            with open(os.path.join(path, n, "zarr.json"), "rb") as f:
                text[n] = f.read()
    kinds = {n: json.loads(t)["node_type"] for n, t in text.items()}
    return [n for n in found if kinds[n] == "array"], [n for n in found if kinds[n] == "group"], top


def chunks_of(array):
    """The chunk shape of a zarr-python array; if the chunks differ in shape, the largest length of each dimension."""
    try:
        return array.chunks
    except NotImplementedError:
        return tuple(n if isinstance(n, int) else max(n) for n in array.metadata.chunk_grid.chunk_shapes)


def zarr_store(path, storage, mode="r"):
    """A zarr-python store; mode r opens one for reading, and w creates a new one."""
    import zarr
    if storage == "zip":
        return zarr.storage.ZipStore(path, mode=mode)
    if storage == "s3":
        return zarr.storage.ObjectStore(bucket(path), read_only=mode == "r")
    return zarr.storage.LocalStore(path, read_only=mode == "r")


def kvstore(path, storage, prefix):
    """A tensorstore key-value store spec; prefix is empty or ends in a slash."""
    path = os.path.abspath(path)
    if storage == "zip":
        return {"driver": "zip", "base": {"driver": "file", "path": path}, "path": prefix}
    return {"driver": "file", "path": f"{path}/{prefix}"}
