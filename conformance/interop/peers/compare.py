"""Compare two canonical descriptions (canon.py) and print one line per difference.

    python compare.py WANT.json GOT.json [--ignore dims,chunks,fill,attrs]

A field that a reader cannot determine (null) equals anything. An attribute of class integer or real equals one of an
exact type with the same numbers; float and double are compared after rounding to the coarser of the
two types. A _FillValue attribute that only one side shows is not a difference if "fill" agrees. A scalar that NCZarr stores as one element (shape [1] on dimension _scalar_) equals a scalar.
Exit status: 0 equal, 1 different.
"""
import argparse
import json
import sys

import numpy as np

INTEGER = {"byte", "ubyte", "short", "ushort", "int", "uint", "int64", "uint64", "integer"}
REAL = {"float", "double", "real"}


def number(value, single):
    if isinstance(value, str):
        value = float(value.replace("Infinity", "inf"))
    return str(np.float32(value)) if single else str(value + 0.0 if isinstance(value, float) else value)


def same_numbers(a, b, types):
    if len(a) != len(b):
        return False
    if types <= INTEGER:
        return a == b
    return all(number(x, "float" in types) == number(y, "float" in types) for x, y in zip(
        *([float(v) if isinstance(v, int) else v for v in side] for side in (a, b))))


def same_attr(a, b):
    if a is None or b is None or a["type"] == b["type"]:
        return a == b
    types = {a["type"], b["type"]}
    classes = types & {"integer", "real"}
    if classes and types <= INTEGER | REAL:
        return same_numbers(a["value"], b["value"], types)
    return False


def plain_scalar(v):
    return {**v, "shape": [], "dims": [], "chunks": None} if v["dims"] == ["_scalar_"] and v["shape"] == [1] else v


def same_field(field, a, b, va):
    if field == "fill" and isinstance(a, (int, float, str)) and isinstance(b, (int, float, str)) and va["type"] in REAL:
        return same_numbers([a], [b], {va["type"], "real"})
    if field == "chunks":
        a, b = a or None, b or None
    unknown = field in ("dims", "chunks", "fill", "attrs") and (a is None or b is None)
    return unknown or a == b


def differences(want, got, ignore):
    for kind in ("groups", "variables"):
        if want[kind] is None or got[kind] is None:
            continue
        for path in sorted(set(want[kind]) | set(got[kind])):
            a, b = want[kind].get(path), got[kind].get(path)
            if a is None or b is None:
                yield f"{path}: {'not wanted' if a is None else 'missing'}"
                continue
            if kind == "variables":
                a, b = plain_scalar(a), plain_scalar(b)
                if "error" in b and "error" not in a:
                    yield f"{path}: {b['error']}"
                    continue
            for field in sorted((set(a) | set(b)) - ignore - {"attrs", "also", "parts"}):
                if not same_field(field, a.get(field), b.get(field), a):
                    yield f"{path}: {field}: want {a.get(field)!r}, got {b.get(field)!r}"
            if "attrs" not in ignore and a["attrs"] is not None and b["attrs"] is not None:
                for name in sorted(set(a["attrs"]) | set(b["attrs"])):
                    x, y = a["attrs"].get(name), b["attrs"].get(name)
                    if name == "_FillValue" and (x is None or y is None) and same_field("fill", a["fill"], b["fill"], a):
                        continue
                    if not same_attr(x, y):
                        yield f"{path}:{name}: want {x}, got {y}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ignore", default="")
    p.add_argument("want")
    p.add_argument("got")
    args = p.parse_args()
    docs = []
    for path in (args.want, args.got):
        with open(path, encoding="utf-8") as f:
            docs.append(json.load(f))
    lines = list(differences(*docs, set(args.ignore.split(","))))
    print("\n".join(lines) if lines else f"equal: {len(docs[0]['variables'])} variables")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
