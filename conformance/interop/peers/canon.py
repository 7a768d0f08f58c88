"""The canonical description of a dataset, which every tool here prints as one line of JSON.

    {"canonical": 1,
     "peer": {"name": "zarr", "version": "3.4.2", ...},        who read or wrote; not for comparing
     "groups": {"/": GROUP, "/a": GROUP, "/a/b": GROUP},       every group by absolute path; null: not known
     "variables": {"/v": VARIABLE, "/a/w": VARIABLE}}          every variable by absolute path

GROUP = {"dims": {"t": {"size": 2, "unlimited": true}} or null (reader has no such notion), "attrs": ATTRS}
VARIABLE = {
  "type":   byte ubyte short ushort int uint int64 uint64 float double char string; other types keep
            numpy's kind and item size: b1 f2 c8 c16 M8 m8 V4
  "shape":  [12, 90, 180]; [] is a scalar
  "dims":   ["t", "y", "x"], names without path, or null when the reader does not know them
  "chunks": chunk shape, or null when not known (contiguous, scalar)
  "fill":   SCALAR: what a missing chunk reads as; null if none is declared or the reader does not report it
  "attrs":  ATTRS
  "sha256": hash of all values, see below; absent when "error": "one line" says why they cannot be read
  "also": the hash that a reader without the type may have instead: of char, each element as a string; of
          f2, each as a float. "parts": {"real": hash, "imag": hash} of a complex type, {"field": hash} of a
          structured one, for a reader that has a variable for each. Only some tests use these two}

ATTRS = {"name": {"type": T, "value": V}} or null (the reader does not see attributes). By T:
  byte ... uint64, float, double   V is a list, of length 1 for a scalar; the reader knows the stored type
  integer, real                    the same, from a reader that sees JSON only: all integers, or numbers
  text                             V is one string; char and single string attributes are not distinguished
  strings                          V is a list of strings
  json                             V is any other JSON value (bool, null, object, mixed, nested, empty list)
Omitted: _ARRAY_DIMENSIONS (it is "dims"), _NCProperties, names that begin with _nczarr_ in any case. _FillValue
is kept if the reader shows it as an attribute. It is omitted for xarray, which invents it.

SCALAR: integers exact (up to 64 bits); float and double as the shortest decimal of the value widened to
double, so compare after rounding to the element type; the strings "NaN", "Infinity", "-Infinity"; text
for char and string; true and false for b1; anything else as text.

sha256 is over all values in C order, scale, offset and mask not applied:
  numbers   raw little-endian bytes, NaN bits as they are; b1 is one byte, 0 or 1
  char      one byte per element, as stored
  string    for each element its UTF-8 bytes without trailing NULs, then one NUL (a missing string is empty;
            a byte that is not UTF-8 becomes the four characters \\xhh); fixed-size strings are strings
"""
import json
import logging
import os
import sys
import warnings

import numpy as np

from value import digest, scalar, text, type_name

warnings.simplefilter("ignore")
logging.getLogger("asyncio").setLevel(logging.CRITICAL)


def own(name):
    return name in ("_ARRAY_DIMENSIONS", "_NCProperties") or name.lower().startswith("_nczarr_")


def typed_attr(value):
    """An attribute with a stored type that the reader reports: numpy scalar or array, str, or list of str."""
    if isinstance(value, (str, bytes)):
        return {"type": "text", "value": text(value)}
    if isinstance(value, (list, tuple)):
        return {"type": "strings", "value": [text(v) for v in value]}
    value = np.atleast_1d(value)
    return {"type": type_name(value.dtype), "value": [scalar(v) for v in value.ravel()]}


def json_attr(value):
    """An attribute seen as JSON only."""
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    items = value if isinstance(value, (list, tuple)) else [value]
    if isinstance(value, str):
        return {"type": "text", "value": value}
    if items and all(isinstance(v, str) for v in items):
        return {"type": "strings", "value": list(items)}
    if items and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in items):
        kind = "integer" if all(isinstance(v, int) for v in items) else "real"
        return {"type": kind, "value": [scalar(v) for v in items]}
    return {"type": "json", "value": value}


def attributes(attrs, one, drop=()):
    return {k: one(v) for k, v in attrs.items() if not own(k) and k not in drop}


def variable(values, dims, chunks, fill, attrs, dtype=None, shape=None):
    """One VARIABLE; values may be an exception, which becomes "error" (dtype and shape are then needed)."""
    failed = isinstance(values, Exception)
    dtype = dtype if dtype is not None else getattr(values, "dtype", None)
    shape = shape if shape is not None else getattr(values, "shape", None)
    out = {"type": None if dtype is None else type_name(dtype),
           "shape": None if shape is None else [int(n) for n in shape],
           "dims": None if dims is None else list(dims),
           "chunks": None if chunks is None else [int(n) for n in chunks],
           "fill": scalar(fill), "attrs": attrs}
    out.update({"error": one_line(values)} if failed else {"sha256": digest(values)})
    if not failed:
        out.update(other_views(np.asarray(values), out["type"]))
    return out


def other_views(values, name):
    if name == "char":
        return {"also": digest(values.astype(object))}
    if name == "f2":
        return {"also": digest(values.astype("f4"))}
    if values.dtype.kind == "c":
        return {"parts": {"real": digest(values.real), "imag": digest(values.imag)}}
    if values.dtype.names:
        return {"parts": {field: digest(values[field]) for field in values.dtype.names}}
    return {}


def one_line(err):
    line = " ".join(f"{type(err).__name__}: {err}".split()).split(" [tensorstore_spec=")[0]
    return line if len(line) <= 300 else line[:300] + "..."


def document(peer, groups, variables):
    return {"canonical": 1, "peer": peer, "groups": groups, "variables": variables}


def emit(doc):
    print(json.dumps(doc, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def fail(tool, err):
    """Print one line on stderr and exit with status 1, without waiting for the threads of a peer."""
    print(f"{tool}: {err if isinstance(err, str) else one_line(err)}", file=sys.stderr, flush=True)
    os._exit(1)
