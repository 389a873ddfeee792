// Compiles every spec to every language that the compiler knows: node targets.mjs OUT
//
// Each language gets one flat folder below OUT, as in the public gallery of formats. It is an
// error if a spec does not compile, unless refused.json lists it with the compiler's own words;
// if one that is listed there does compile; and if two specs would write the same file.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import compiler from "kaitai-struct-compiler";
import { importer, names, read, roots } from "./specs.mjs";

const [out] = process.argv.slice(2);
if (!out) {
  console.error("usage: node targets.mjs OUT");
  process.exit(2);
}

const listed = JSON.parse(readFileSync(new URL("refused.json", import.meta.url), "utf8"));
const expected = new Map(
  listed.flatMap(({ target, words, specs }) => specs.map((spec) => [`${target} ${spec}`, words])));
const problems = [];

// The compiler wraps what went wrong in exceptions that say nothing; the innermost has the words.
function words(cause) {
  let inner = cause;
  while (inner.jl_Throwable__f_e) inner = inner.jl_Throwable__f_e;
  return `${inner}`;
}

async function compile(target, spec) {
  try {
    return { files: await compiler.compile(target, read(spec), importer, false) };
  } catch (cause) {
    return { refused: words(cause) };
  }
}

// A spec is compiled together with what it imports: the roots are all of them, unless one fails.
async function outcomes(target) {
  const whole = await Promise.all(roots().map(async (spec) => [spec, await compile(target, spec)]));
  if (whole.every(([, { files }]) => files)) return whole;
  return Promise.all(names.map(async (spec) => [spec, await compile(target, spec)]));
}

function collect(target, spec, files, written) {
  for (const [path, text] of Object.entries(files)) {
    // Go and Java put the folder of a package before the name; the specs have none.
    const file = path.replace(/^\//, "");
    // Some file systems do not tell upper from lower case.
    const key = file.toLowerCase();
    const other = written.get(key);
    if (file.includes("/")) problems.push(`${target}: ${spec} writes ${file}, into a folder`);
    else if (other && (other.file !== file || other.text !== text))
      problems.push(`${target}: ${spec} writes ${file}, and ${other.spec} writes ${other.file}`);
    written.set(key, { spec, file, text });
  }
}

for (const target of compiler.languages) {
  const written = new Map();
  const refused = new Map();
  for (const [spec, { files, refused: said }] of await outcomes(target))
    if (files) collect(target, spec, files, written);
    else refused.set(spec, said);
  for (const spec of names) {
    const known = expected.get(`${target} ${spec}`);
    const said = refused.get(spec);
    expected.delete(`${target} ${spec}`);
    if (said === known) continue;
    if (said === undefined) problems.push(`${target}: ${spec} compiles, but refused.json lists it`);
    else problems.push(`${target}: ${spec}.ksy: ${said}`);
  }
  mkdirSync(join(out, target), { recursive: true });
  for (const { file, text } of written.values()) writeFileSync(join(out, target, file), text);
  if (refused.size === 0 && written.size < names.length)
    problems.push(`${target}: expected a file for each of ${names.length} specs, found ${written.size}`);
}
for (const entry of expected.keys()) problems.push(`refused.json lists ${entry}, which is not there`);

for (const problem of problems) console.error(problem);
if (problems.length) process.exit(1);
const less = listed.map(({ target, specs }) => `, but ${specs.length} not to ${target}`).join("");
console.log(`${names.length} specs compile to ${compiler.languages.length} languages${less}`);
