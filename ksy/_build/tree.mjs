// Parses files with the JavaScript parsers: node tree.mjs COMPILED < requests > answers
//
// COMPILED is a folder that compile.mjs filled with --debug, as the Web IDE does. A request
// is a line {"spec": "tiledb_delete_commit", "file": "..."}; its answer is a line with the lines that
// the Web IDE shows for the root and for each struct in it, and the whole tree, every instance
// evaluated; or an error, with the lines of what was read.

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import YAML from "yaml";

const here = dirname(fileURLToPath(import.meta.url));
const compiled = resolve(process.argv[2]);
const require = createRequire(import.meta.url);
const KaitaiStream = require("kaitai-struct/KaitaiStream");

// The compiled modules ask for the runtime by its package name, from outside this package.
const Module = require("node:module");
const runtime = require.resolve("kaitai-struct/KaitaiStream");
const find = Module._resolveFilename;
Module._resolveFilename = (name, ...rest) =>
  name === "kaitai-struct/KaitaiStream" ? runtime : find(name, ...rest);

const camel = (name) => name.split("_").map((part, i) => (i ? upper(part) : part)).join("");
const upper = (part) => part.charAt(0).toUpperCase() + part.slice(1);
const className = (name) => upper(camel(name));
const snake = (name) => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

const types = {};
const addTypes = (name, spec) => {
  types[className(name)] = spec;
  for (const [inner, type] of Object.entries(spec.types ?? {})) addTypes(inner, type);
};
for (const file of readdirSync(dirname(here)).filter((f) => f.endsWith(".ksy"))) {
  const spec = YAML.parse(readFileSync(join(dirname(here), file), "utf8"));
  addTypes(spec.meta.id, spec);
}

const isBytes = (value) => value instanceof Uint8Array;
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const fieldNames = (struct) => Object.keys(struct).filter((key) => key[0] !== "_");
const instanceNames = (struct) =>
  Object.getOwnPropertyNames(Object.getPrototypeOf(struct)).filter(
    (key) => key[0] !== "_" && key !== "constructor");

function tree(value) {
  if (isBytes(value)) return hex(value);
  if (Array.isArray(value)) return value.map(tree);
  if (value === null || value === undefined) return null;
  if (typeof value !== "object") return value;
  const out = { $type: snake(value.constructor.name).slice(1) };
  for (const key of [...fieldNames(value), ...instanceNames(value)])
    out[snake(key)] = tree(value[key]);
  return out;
}

// The rules by which the Web IDE decides which instances it shows without being asked: those that
// are eager or a mere value, and those that something else has read already.
function shownInstances(struct) {
  const instances = types[struct.constructor.name]?.instances ?? {};
  const isEager = ({ "-webide-parse-mode": mode, value }) =>
    mode === "eager" || (mode !== "lazy" && value);
  return Object.entries(instances)
    .filter(([name, one]) => Object.hasOwn(struct, `_m_${camel(name)}`) || isEager(one))
    .map(([name]) => camel(name));
}

function child(struct, key) {
  const isShown = fieldNames(struct).includes(key) || shownInstances(struct).includes(key);
  if (!isShown) return { isShown };
  try {
    return { isShown, value: struct[key] };
  } catch {
    return { isShown };
  }
}

// The rules by which it fills in `-webide-representation`.
function represent(struct) {
  const spec = types[struct.constructor.name];
  return (spec?.["-webide-representation"] ?? "").replace(/{(.*?)}/g, (_, inner) => {
    const [path, format = ""] = inner.split(":");
    const keys = path.split(".").map(camel);
    const key = keys.pop();
    const owner = keys.reduce((at, name) => at && child(at, name).value, struct);
    const { isShown, value } = owner ? child(owner, key) : {};
    if (!isShown) return "";
    if (value === undefined) return "<no value>";
    if (isBytes(value)) return format === "str" ? `"${Buffer.from(value)}"` : hex(value);
    if (Array.isArray(value)) return value.map(represent).join(", ");
    if (typeof value === "object") return represent(value);
    const enumName = owner._debug[key]?.enumName;
    if (enumName) return enumOf(enumName)[value] ?? `0x${value.toString(16)}`;
    return format === "dec" || !Number.isInteger(value) ? `${value}` : `0x${value.toString(16)}`;
  });
}

// What stands behind the names at the top of the tree.
function nodes(struct) {
  const found = {};
  for (const key of [...fieldNames(struct), ...shownInstances(struct)]) {
    const { value } = child(struct, key);
    if (value === undefined) found[snake(key)] = "<no value>";
    else if (typeof value === "object" && !isBytes(value) && !Array.isArray(value))
      found[snake(key)] = represent(value);
  }
  return found;
}

const enumOf = (path) => {
  const [module, ...rest] = path.split(".");
  return rest.reduce((at, part) => at[part], require(join(compiled, module))[module]);
};

for await (const line of createInterface({ input: process.stdin })) {
  const { spec, file } = JSON.parse(line);
  const name = className(spec);
  const answer = {};
  const stream = new KaitaiStream(new Uint8Array(readFileSync(file)).buffer);
  const struct = new (require(join(compiled, name))[name])(stream);
  try {
    struct._read();
  } catch (cause) {
    answer.error = `${cause.name}: ${cause.message}`;
  }
  answer.representation = represent(struct);
  answer.nodes = nodes(struct);
  answer.left = stream.size - stream.pos;
  try {
    if (!answer.error) answer.tree = tree(struct);
  } catch (cause) {
    answer.error = `${cause.name}: ${cause.message}`;
  }
  console.log(JSON.stringify(answer));
}
