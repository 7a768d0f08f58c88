"""GDAL through the C interface of the library in rasterio's wheel: the multidimensional model, driver Zarr."""
import ctypes
import importlib.metadata

import numpy as np

import canon
from sample import NUMERIC, SIZES, Record, smooth
from sample import values as values_of

MULTIDIM = 0x10
CLASS_NUMERIC, CLASS_STRING = 0, 1
TYPES = {1: "u1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "f8", 10: "c8", 11: "c16", 12: "u8", 13: "i8", 14: "i1", 15: "f2"}
CODES = {name: code for code, name in TYPES.items()}
P, SIZE, TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
# The result types of the functions; all others return an int.
RESULTS = {
    "GDALOpenEx": P, "GDALDatasetGetRootGroup": P, "GDALGroupGetMDArrayNames": P, "GDALGroupGetGroupNames": P, "GDALGroupOpenMDArray": P,
    "GDALGroupOpenGroup": P, "GDALMDArrayGetDimensions": P, "GDALDimensionGetSize": ctypes.c_uint64, "GDALDimensionGetName": TEXT,
    "GDALMDArrayGetDataType": P, "GDALExtendedDataTypeGetSize": SIZE, "GDALMDArrayGetBlockSize": P, "GDALMDArrayGetRawNoDataValue": P,
    "GDALMDArrayGetAttributes": P, "GDALGroupGetAttributes": P, "GDALAttributeGetName": TEXT, "GDALAttributeGetDataType": P,
    "GDALAttributeGetTotalElementsCount": ctypes.c_uint64, "GDALAttributeReadAsRaw": P, "GDALAttributeReadAsStringArray": P,
    "CPLGetLastErrorMsg": TEXT, "GDALVersionInfo": TEXT, "GDALGetDriverByName": P, "GDALCreateMultiDimensional": P, "GDALGroupCreateGroup": P,
    "GDALGroupCreateDimension": P, "GDALGroupCreateMDArray": P, "GDALExtendedDataTypeCreate": P, "GDALExtendedDataTypeCreateString": P,
    "GDALMDArrayCreateAttribute": P, "GDALGroupCreateAttribute": P, "GDALMDArrayGetUnit": TEXT, "GDALExtendedDataTypeGetMaxStringLength": SIZE,
}


class Error(Exception):
    pass


class Library:
    """libgdal's functions by name; call raises Error with GDAL's own message if GDAL reports a failure."""

    def __init__(self):
        name = next(f for f in importlib.metadata.files("rasterio") if f.name.startswith("libgdal"))
        self.lib = ctypes.CDLL(str(name.locate()))
        self.lib.CPLSetErrorHandler(ctypes.cast(self.lib.CPLQuietErrorHandler, P))
        self.lib.GDALAllRegister()
        self.version = importlib.metadata.version("rasterio"), self.call("GDALVersionInfo", b"RELEASE_NAME").decode()

    def call(self, name, *args):
        f = getattr(self.lib, name)
        f.restype = RESULTS.get(name, ctypes.c_int)
        self.lib.CPLErrorReset()
        out = f(*[P(a) if isinstance(a, int) and a > 2**31 else a for a in args])
        if self.lib.CPLGetLastErrorType() >= 3:
            self.lib.CPLGetLastErrorMsg.restype = TEXT
            raise Error(self.lib.CPLGetLastErrorMsg().decode(errors="replace"))
        return out

    def names(self, function, *args):
        """A list of C strings that ends with NULL."""
        return strings(self.call(function, *args, None))

    def handles(self, function, owner, *options):
        """An array of handles and its length."""
        n = SIZE()
        at = self.call(function, owner, ctypes.byref(n), *options)
        return list(ctypes.cast(at, ctypes.POINTER(P))[: n.value]) if at else []

    def dtype(self, handle):
        """numpy's name of an extended data type; str for strings; None for a compound type."""
        kind = self.call("GDALExtendedDataTypeGetClass", handle)
        if kind == CLASS_STRING:  # GDAL has no char type: a char is a string of length 1
            return "S1" if self.call("GDALExtendedDataTypeGetMaxStringLength", handle) == 1 else str
        return TYPES[self.call("GDALExtendedDataTypeGetNumericDataType", handle)] if kind == CLASS_NUMERIC else None


def strings(at):
    out = []
    pointers = ctypes.cast(at, ctypes.POINTER(TEXT))
    while at and pointers[len(out)] is not None:
        out.append(pointers[len(out)].decode("utf-8", "backslashreplace"))
    return out


def attributes(lib, function, owner):
    out = {}
    for a in lib.handles(function, owner, None):
        dtype = lib.dtype(lib.call("GDALAttributeGetDataType", a))
        n = lib.call("GDALAttributeGetTotalElementsCount", a)
        if dtype in (str, "S1"):
            value = strings(lib.call("GDALAttributeReadAsStringArray", a))
            value = value[0] if len(value) == 1 else value
        elif dtype is None:
            continue
        else:
            size = SIZE()
            raw = lib.call("GDALAttributeReadAsRaw", a, ctypes.byref(size))
            value = np.frombuffer(ctypes.string_at(raw, size.value), dtype)[:n].tolist()
            value = value[0] if len(value) == 1 else value
        out[lib.call("GDALAttributeGetName", a).decode()] = value
    return out


def values(lib, array, dtype, shape):
    handle = lib.call("GDALMDArrayGetDataType", array)
    n, rank = int(np.prod(shape, dtype=int)), len(shape)
    numbers = lambda kind, items: (kind * max(rank, 1))(*items)
    start, count = numbers(ctypes.c_uint64, [0] * rank), numbers(SIZE, shape)
    if dtype is None:
        raise Error("compound data type")
    text = dtype in (str, "S1")
    out = (TEXT * n)() if text else np.empty(n, dtype)
    at = ctypes.addressof(out) if text else out.ctypes.data
    if n and not lib.call("GDALMDArrayRead", array, start, count, None, None, handle, P(at), None, SIZE(0)):
        raise Error("the read failed without a message")
    if text:
        out = np.array([(s or b"").decode("utf-8", "backslashreplace") for s in out], object if dtype is str else dtype)
    return out.reshape(shape)


def variable(lib, array):
    dims = lib.handles("GDALMDArrayGetDimensions", array)
    shape = [lib.call("GDALDimensionGetSize", d) for d in dims]
    dtype = lib.dtype(lib.call("GDALMDArrayGetDataType", array))
    n = SIZE()
    at = lib.call("GDALMDArrayGetBlockSize", array, ctypes.byref(n))
    chunks = list(ctypes.cast(at, ctypes.POINTER(ctypes.c_uint64))[: n.value]) if at else None
    try:
        data = values(lib, array, dtype, shape)
    except Error as err:
        data = err
    attrs = attributes(lib, "GDALMDArrayGetAttributes", array)
    unit = lib.call("GDALMDArrayGetUnit", array)  # GDAL removes the attribute "units" from the list
    attrs.update({"units": unit.decode()} if unit else {})
    none = lib.call("GDALMDArrayGetRawNoDataValue", array)
    fill = None
    if none and dtype not in (str, "S1", None):
        fill = np.frombuffer(ctypes.string_at(none, np.dtype(dtype).itemsize), dtype)[0]
    return canon.variable(data, [lib.call("GDALDimensionGetName", d).decode() for d in dims], chunks, fill,
                          canon.attributes(attrs, canon.json_attr), dtype, shape)


def read(path, storage):
    lib = Library()
    drivers = (TEXT * 2)(b"Zarr", None)
    url = ("/vsizip/" if storage == "zip" else "") + path
    ds = lib.call("GDALOpenEx", ('ZARR:"%s"' % url).encode(), MULTIDIM, drivers, None, None)
    groups, out, pending = {}, {}, [("/", lib.call("GDALDatasetGetRootGroup", ds))]
    for where, g in pending:
        prefix = where.rstrip("/") + "/"
        groups[where] = {"dims": None, "attrs": canon.attributes(attributes(lib, "GDALGroupGetAttributes", g), canon.json_attr)}
        for name in lib.names("GDALGroupGetMDArrayNames", g):
            try:
                out[prefix + name] = variable(lib, lib.call("GDALGroupOpenMDArray", g, name.encode(), None))
            except Error as err:
                out[prefix + name] = canon.variable(err, None, None, None, None)
        pending += [(prefix + n, lib.call("GDALGroupOpenGroup", g, n.encode(), None)) for n in lib.names("GDALGroupGetGroupNames", g)]
    return canon.document({"name": "gdal", "version": lib.version[1], "rasterio": lib.version[0]}, groups, out)


class Writer:
    """Makes one Zarr dataset of version 2 or 3; every array and attribute is recorded as requested."""

    def __init__(self, lib, path, rec, version):
        self.lib, self.rec = lib, rec
        self.ds = lib.call("GDALCreateMultiDimensional", lib.call("GDALGetDriverByName", b"Zarr"), path.encode(), None, options(FORMAT=f"ZARR_V{version}"))
        self.groups = {"/": lib.call("GDALDatasetGetRootGroup", self.ds)}
        self.dims = {}

    def close(self):
        self.lib.call("GDALClose", self.ds)

    def group(self, path, attrs):
        if path != "/":
            parent, name = path.rsplit("/", 1)
            self.groups[path] = self.lib.call("GDALGroupCreateGroup", self.groups[parent or "/"], name.encode(), None)
        for name, value in attrs.items():
            self.attribute("GDALGroupCreateAttribute", self.groups[path], name, value)
        self.rec.group(path, attrs)

    def attribute(self, create, owner, name, value):
        text = isinstance(value, str)
        data = value.encode() if text else np.atleast_1d(value)
        kind = self.lib.call("GDALExtendedDataTypeCreateString", SIZE(0)) if text else self.lib.call(
            "GDALExtendedDataTypeCreate", CODES[data.dtype.str[1:]])
        shape = (ctypes.c_uint64 * 1)(1 if text else data.size)
        at = self.lib.call(create, owner, name.encode(), SIZE(0 if text or np.ndim(value) == 0 else 1), shape, kind, None)
        if text:
            self.lib.call("GDALAttributeWriteString", at, data)
        else:
            self.lib.call("GDALAttributeWriteRaw", at, P(data.ctypes.data), SIZE(data.nbytes))

    def put(self, path, data, dims, chunks, attrs=None, **how):
        lib, attrs = self.lib, attrs or {}
        parent, name = path.rsplit("/", 1)
        g = self.groups[parent or "/"]
        for d, n in zip(dims, data.shape):
            if d not in self.dims:
                self.dims[d] = lib.call("GDALGroupCreateDimension", self.groups["/"], d.encode(), None, None, ctypes.c_uint64(n), None)
        handles = (P * max(len(dims), 1))(*[self.dims[d] for d in dims])
        kind = lib.call("GDALExtendedDataTypeCreate", CODES[data.dtype.str[1:]])
        array = lib.call("GDALGroupCreateMDArray", g, name.encode(), SIZE(len(dims)), handles, kind,
                         options(BLOCKSIZE=",".join(map(str, chunks)), **how) if dims else None)
        for key, value in attrs.items():
            self.attribute("GDALMDArrayCreateAttribute", array, key, value)
        rank = max(data.ndim, 1)
        start, count = (ctypes.c_uint64 * rank)(), (SIZE * rank)(*data.shape)
        data = np.array(data, order="C")
        if not lib.call("GDALMDArrayWrite", array, start, count, None, None, kind, P(data.ctypes.data), None, SIZE(0)):
            raise Error(f"{path}: the write failed without a message")
        lib.call("GDALMDArrayRelease", array)
        self.rec.variable(path, data, dims, chunks, None, attrs)


def options(**pairs):
    items = [f"{k}={v}".encode() for k, v in pairs.items()]
    return (TEXT * (len(items) + 1))(*items, None)


def write(path, version):
    """Every numeric type, scalars, groups, attributes, both orders and separators, and each compressor that GDAL writes."""
    lib = Library()
    rec = Record({"name": "gdal", "version": lib.version[1], "rasterio": lib.version[0]}, canon.json_attr)
    w = Writer(lib, path, rec, version)
    shape = lambda *dims: tuple(SIZES[d] for d in dims)
    w.group("/", {"title": "interop sample", "version": np.int32(3)})
    for t in (*NUMERIC, "c8", "c16", "f2"):
        w.put(f"/{t}", values_of(t, shape("y", "x")), ("y", "x"), (2, 3), {"long_name": "Größe", "half": 0.5, "levels": np.array([1, 2, 3], "i4")})
        w.put(f"/scalar_{t}", values_of(t, ()), (), ())
    for order in "CF":
        for sep in "./":
            w.put(f"/order_{order}_{'dot' if sep == '.' else 'slash'}", values_of("i4", shape("t", "y", "x")), ("t", "y", "x"), (4, 2, 3),
                  CHUNK_MEMORY_LAYOUT=order, DIM_SEPARATOR=sep)
    only_v2 = {"zlib": {"COMPRESS": "ZLIB"}, "lzma": {"COMPRESS": "LZMA"}, "zlib_delta": {"COMPRESS": "ZLIB", "FILTER": "delta"}}
    for name, how in {**(only_v2 if version == 2 else {}), "gzip": {"COMPRESS": "GZIP"}, "zstd": {"COMPRESS": "ZSTD"}, **{f"blosc_{c}_{s.lower()}": {
                          "COMPRESS": "BLOSC", "BLOSC_CNAME": c, "BLOSC_SHUFFLE": s} for c in ("lz4", "lz4hc", "blosclz", "zlib", "zstd")
                          for s in ("NONE", "BYTE", "BIT")}}.items():
        w.put(f"/codec_{name}", smooth("f4"), ("row", "col"), (20, 30), **how)
    w.group("/g", {"level": np.int32(1)})
    w.put("/g/v", values_of("u1", shape("z", "y")), ("z", "y"), (1, 5))
    w.close()
    return rec.document()
