// Read Zarr v2 and v3 datasets with zarrita.js. Each line on stdin is the absolute path of one; the response is a line, "ok" and
// the canonical description (canon.py) as JSON, or "error" and a message.
//   (cd FOLDER && node --input-type=module -e "$(cat zarrita.mjs)")
// FOLDER has node_modules with zarrita: a module that is an argument finds its imports there.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import * as zarr from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";

const version = JSON.parse(readFileSync("node_modules/zarrita/package.json")).version;

const NAMES = {
  int8: "byte", uint8: "ubyte", int16: "short", uint16: "ushort", int32: "int", uint32: "uint", int64: "int64", uint64: "uint64",
  float32: "float", float64: "double", float16: "f2", bool: "b1",
};

function documents(root, name) {
  return readdirSync(root, { recursive: true }).filter((f) => f.split("/").at(-1) === name).map((f) => "/" + dirname(f).replace(/^\.$/, "")).sort();
}

function scalar(value) {
  if (typeof value === "bigint") return { big: value.toString() };
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return value ?? null;
}

// attribute returns one attribute as seen in JSON, like canon.json_attr.
function attribute(value) {
  const items = Array.isArray(value) ? value : [value];
  if (typeof value === "string") return { type: "text", value };
  if (items.length && items.every((v) => typeof v === "string")) return { type: "strings", value: items };
  if (items.length && items.every((v) => typeof v === "number")) return { type: items.every(Number.isInteger) ? "integer" : "real", value: items.map(scalar) };
  return { type: "json", value };
}

const own = (name) => ["_ARRAY_DIMENSIONS", "_NCProperties"].includes(name) || name.toLowerCase().startsWith("_nczarr_");
const attributes = (attrs) => Object.fromEntries(Object.entries(attrs).filter(([k]) => !own(k)).map(([k, v]) => [k, attribute(v)]));

function digest(dtype, data) {
  const hash = createHash("sha256");
  if (/^v2:[SU]|string|object/.test(dtype) && dtype !== "v2:S1") {
    for (const item of data) hash.update(String(item ?? "").replace(/\0+$/, "") + "\0");
  } else if (dtype === "v2:S1") {
    for (const item of data) hash.update(item === "" ? "\0" : item, "latin1");
  } else if (dtype === "bool") {
    hash.update(Uint8Array.from(data, Number));
  } else {
    hash.update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  }
  return hash.digest("hex");
}

// inOrder returns the values in C order. zarrita returns the values of an array with order F in
// storage order.
function inOrder({ data, shape, stride }) {
  const natural = shape.map((_, d) => shape.slice(d + 1).reduce((product, n) => product * n, 1));
  if (natural.every((n, d) => n === stride[d])) return data;
  const out = new data.constructor(data.length);
  const at = shape.map(() => 0);
  for (let i = 0; i < data.length; i++) {
    out[i] = data[at.reduce((sum, n, d) => sum + n * stride[d], 0)];
    for (let d = shape.length - 1; d >= 0 && ++at[d] === shape[d]; d--) at[d] = 0;
  }
  return out;
}

async function variable(root, path, open) {
  const out = { type: null, shape: null, dims: null, chunks: null, fill: null, attrs: null };
  try {
    const array = await open(root.resolve(path), { kind: "array" });
    const dtype = String(array.dtype).replace(/^v2:[<>|]/, "v2:");
    Object.assign(out, { type: NAMES[dtype] ?? (dtype === "v2:S1" ? "char" : "string"), shape: array.shape, chunks: array.chunks,
      dims: array.dimensionNames ?? array.attrs._ARRAY_DIMENSIONS ?? null, fill: scalar(array.fillValue), attrs: attributes(array.attrs) });
    const all = array.shape.length ? await zarr.get(array) : await array.getChunk([]);
    out.sha256 = digest(dtype, inOrder(all));
  } catch (err) {
    out.error = `${err.name}: ${err.message}`.replace(/\s+/g, " ").slice(0, 300);
  }
  return out;
}

async function describe(path) {
  const root = zarr.root(new FileSystemStore(path));
  const groups = {}, variables = {};
  const nodes = documents(path, "zarr.json"), open = nodes.length ? zarr.open.v3 : zarr.open.v2;
  const isArray = (name) => JSON.parse(readFileSync(path + name + "/zarr.json")).node_type === "array";
  for (const name of nodes.length ? nodes.filter((n) => !isArray(n)) : documents(path, ".zgroup")) {
    const group = await open(root.resolve(name), { kind: "group" });
    groups[name] = { dims: null, attrs: attributes(group.attrs) };
  }
  for (const name of nodes.length ? nodes.filter(isArray) : documents(path, ".zarray")) variables[name] = await variable(root, name, open);
  return { canonical: 1, peer: { name: "zarrita", version }, groups, variables };
}

// JSON.stringify cannot write integers beyond 2^53, so they are written as marked text, which
// becomes bare digits here.
const text = (doc) => JSON.stringify(doc).replace(/\{"big":"(-?\d+)"\}/g, "$1");
for await (const path of createInterface({ input: process.stdin })) {
  try {
    console.log("ok " + text(await describe(path)));
  } catch (err) {
    console.log("error " + `${err.name}: ${err.message}`.replace(/\s+/g, " "));
  }
}
