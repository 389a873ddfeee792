// Holds every spec to the style guide of Kaitai Struct: node style.mjs
//
// The order of keys, names, and the form of the text. What a spec means is no matter of this file.

import { names, read, text } from "./specs.mjs";

const SECTIONS = ["meta", "doc", "doc-ref", "-webide-representation", "params", "seq", "instances"];
const META = [
  ...["id", "title", "application", "file-extension", "xref", "tags", "license", "ks-version"],
  ...["imports", "encoding", "endian", "bit-endian"],
];
const FIELD = [
  ...["id", "-orig-id", "io", "pos", "value", "size", "size-eos", "type", "enum", "terminator"],
  ...["include", "consume", "eos-error", "pad-right", "encoding", "process", "valid", "contents"],
  ...["repeat", "repeat-expr", "repeat-until", "if", "-webide-parse-mode", "doc", "doc-ref"],
];
const PREFIXES = { num_: /_(num|count)$/, len_: /_(size|length|width)$/, ofs_: /_(offset|offsets)$/ };
const PLURAL = /(s|minima|maxima|children)$/;
const LONGEST = 80;

function* ordered(where, keys, order) {
  const ranks = keys.map((key) => order.indexOf(key));
  for (const [at, rank] of ranks.entries())
    if (rank < 0) yield `${where}: ${keys[at]} has no place in the style guide's order`;
    else if (at && ranks[at - 1] > rank) yield `${where}: ${keys[at]} stands behind ${keys[at - 1]}`;
}

function* field(where, id, spec) {
  yield* ordered(where, Object.keys(spec), FIELD);
  if (spec["-orig-id"] === id) yield `${where}: -orig-id repeats the id`;
  for (const [prefix, suffix] of Object.entries(PREFIXES))
    if (suffix.test(id) && !/^(is|has|num|len|ofs)_/.test(id))
      yield `${where}: a name like this starts with ${prefix}`;
  if (spec.repeat && !PLURAL.test(id)) yield `${where}: what is repeated has a name in the plural`;
  if (spec.valid?.expr === "_.length == 0") yield `${where}: to be empty is valid: '[].as<bytes>'`;
}

function* type(where, spec) {
  const last = Object.keys(spec).filter((key) => key === "types" || key === "enums");
  const first = Object.keys(spec).slice(0, -last.length || undefined);
  yield* ordered(where, first, SECTIONS);
  if (spec.seq && !spec.seq.length) yield `${where}: an empty seq`;
  for (const one of [...(spec.params ?? []), ...(spec.seq ?? [])])
    yield* field(`${where}.${one.id}`, one.id, one);
  for (const [id, one] of Object.entries(spec.instances ?? {})) yield* field(`${where}.${id}`, id, one);
  for (const [id, one] of Object.entries(spec.types ?? {})) yield* type(`${where}.${id}`, one);
}

function* sorted(where, values) {
  if (`${values}` !== `${[...values].sort()}`) yield `${where} are not in alphabetic order`;
}

function* lines(name) {
  const all = text(name).split("\n");
  if (all.at(-1) !== "" || all.at(-2) === "") yield `${name}: the file does not end in one newline`;
  for (const [at, line] of all.entries()) {
    if (line.length > LONGEST && !/^ *doc-ref: /.test(line))
      yield `${name}:${at + 1}: a line of ${line.length} columns`;
    if (/[\t\r]|\s$|^(---|%)/.test(line)) yield `${name}:${at + 1}: a tab, a space at the end, or ---`;
  }
}

function* problems(name) {
  const spec = read(name);
  if (spec.meta.id !== name) yield `${name}: its id is ${spec.meta.id}`;
  if (!spec.meta.tags?.length) yield `${name}: no tags`;
  yield* ordered(`${name}.meta`, Object.keys(spec.meta), META);
  yield* sorted(`${name}.meta.tags`, spec.meta.tags ?? []);
  yield* sorted(`${name}.meta.xref`, Object.keys(spec.meta.xref ?? {}));
  yield* type(name, spec);
  yield* lines(name);
}

const found = names.flatMap((name) => [...problems(name)]);
for (const problem of found) console.error(problem);
if (found.length) process.exit(1);
console.log(`${names.length} specs keep to the style guide`);
