"""Turn a Zarr v2 directory into reference files of kerchunk.

    python references.py DIRECTORY FILE

The objects of the arrays are packed into FILE.data, with unused bytes between them. FILE.1.json has
version 1 and refers to ranges of that file through a template; FILE.0.json has version 0 and no
template. Documents, and every third chunk of at most 1,000 bytes, are inline, as text or in base64.
The only chunk of an array has a file of its own, FILE.N, to which both refer as a whole.
"""
import base64
import collections
import json
import pathlib
import sys


def main(directory, file):
    root, packed, refs, whole = pathlib.Path(directory), bytearray(b"unused"), {}, 0
    objects = sorted(p for p in root.rglob("*") if p.is_file())
    siblings = collections.Counter(p.parent for p in objects if not p.name.startswith(".z"))
    for i, path in enumerate(objects):
        key, data = path.relative_to(root).as_posix(), path.read_bytes()
        if path.name.startswith(".z"):
            refs[key] = data.decode()
        elif i % 3 == 0 and len(data) <= 1000:
            refs[key] = "base64:" + base64.b64encode(data).decode()
        elif siblings[path.parent] == 1:
            whole += 1
            pathlib.Path(f"{file}.{whole}").write_bytes(data)
            refs[key] = [f"{file}.{whole}"]
        else:
            refs[key] = ["{{u}}", len(packed), len(data)]
            packed += data + b"\0" * 7
    pathlib.Path(file + ".data").write_bytes(packed)
    plain = {key: [file + ".data", *ref[1:]] if ref[0] == "{{u}}" else ref for key, ref in refs.items()}
    pathlib.Path(file + ".0.json").write_text(json.dumps(plain))
    pathlib.Path(file + ".1.json").write_text(json.dumps({"version": 1, "templates": {"u": file + ".data"}, "refs": refs}))


main(*sys.argv[1:])
