// Parses files with the JavaScript parsers: node tree.mjs COMPILED < requests > answers
//
// COMPILED is a folder that compile.mjs filled with --debug, as the Web IDE does. A request
// is a line {"spec": "tiledb_delete_commit", "file": "..."}; its answer is a line with the whole
// tree, every instance evaluated, and the line that the Web IDE would show for the root.

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

// The rules by which the Web IDE fills in `-webide-representation`.
function represent(struct) {
  const spec = types[struct.constructor.name];
  const eager = Object.entries(spec?.instances ?? {})
    .filter(([, instance]) => instance["-webide-parse-mode"] === "eager")
    .map(([name]) => camel(name));
  const shown = new Set([...fieldNames(struct), ...eager]);
  return (spec?.["-webide-representation"] ?? "").replace(/{(.*?)}/g, (_, inner) => {
    const [path, format = ""] = inner.split(":");
    const key = camel(path);
    const value = shown.has(key) ? struct[key] : undefined;
    if (value === undefined) return shown.has(key) ? "<no value>" : "";
    if (isBytes(value)) return format === "str" ? `"${Buffer.from(value)}"` : hex(value);
    if (Array.isArray(value)) return value.map(represent).join(", ");
    if (typeof value === "object") return represent(value);
    const enumName = struct._debug[key]?.enumName;
    if (enumName) return enumOf(enumName)[value];
    return format === "dec" || !Number.isInteger(value) ? `${value}` : `0x${value.toString(16)}`;
  });
}

const enumOf = (path) => {
  const [module, ...rest] = path.split(".");
  return rest.reduce((at, part) => at[part], require(join(compiled, module))[module]);
};

for await (const line of createInterface({ input: process.stdin })) {
  const { spec, file } = JSON.parse(line);
  const name = className(spec);
  let answer;
  try {
    const stream = new KaitaiStream(new Uint8Array(readFileSync(file)).buffer);
    const struct = new (require(join(compiled, name))[name])(stream);
    struct._read();
    answer = { tree: tree(struct), representation: represent(struct), left: stream.size - stream.pos };
  } catch (cause) {
    answer = { error: `${cause.name}: ${cause.message}` };
  }
  console.log(JSON.stringify(answer));
}
