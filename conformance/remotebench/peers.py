"""One measurement of a peer for remotebench: peers.py OP WHO SETTINGS, prints seconds, peak memory and checksum as JSON."""
import hashlib
import json
import os
import resource
import sys
import time

import numpy as np

op, who, conf = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
shape, chunks = (conf["MiB"] // 4, 1024, 1024), (1, 1024, 1024)
path = f"{'ours' if op == 'read' else who}{conf['Turn']}.zarr/data"
array = None
if op == "write":
    array = ((np.arange(conf["MiB"] << 18, dtype=np.int64) % 1000003).astype(np.float32) * np.float32(0.5)).reshape(shape)


def with_zarr():
    import zarr
    from obstore.store import S3Store
    from zarr.storage import ObjectStore

    zarr.config.set({"async.concurrency": conf["Flying"]})
    store = ObjectStore(S3Store(conf["Bucket"], prefix=path, endpoint=conf["Endpoint"], region=conf["Region"],
                                access_key_id=os.environ["AWS_ACCESS_KEY_ID"], secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
                                virtual_hosted_style_request=False, client_options={"allow_http": True}))
    if op == "read":
        return zarr.open_array(store, mode="r", zarr_format=2)[...]
    z = zarr.create_array(store, shape=shape, chunks=chunks, dtype="f4", compressors=None, filters=None, fill_value=0, zarr_format=2)
    z[...] = array


def with_tensorstore():
    import tensorstore as ts

    spec = {"driver": "zarr", "kvstore": {"driver": "s3", "bucket": conf["Bucket"], "path": path + "/", "endpoint": conf["Endpoint"],
                                          "aws_region": conf["Region"], "aws_credentials": {"type": "environment"}},
            "context": {"s3_request_concurrency": {"limit": conf["Flying"]}}}
    if op == "read":
        return ts.open(spec).result().read().result()
    spec["metadata"] = {"shape": shape, "chunks": chunks, "dtype": "<f4", "compressor": None, "fill_value": 0}
    ts.open(spec, create=True, delete_existing=True).result().write(array).result()


begin, busy = time.perf_counter(), time.process_time()
got = {"zarr": with_zarr, "tensorstore": with_tensorstore}[who]()
out = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - busy, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}
if op == "read":
    out["sum"] = hashlib.sha256(np.ascontiguousarray(got)).hexdigest()
print(json.dumps(out))
