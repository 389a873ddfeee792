// Compiles every ../*.ksy into a folder: node compile.mjs LANGUAGE OUT [--debug]
//
// The compiler has only a programming interface, and for Python it writes `import other`
// for an imported spec, which a package cannot resolve: that one line is rewritten. With
// --debug the parsers keep the byte range of each field; for Python they make a package of
// their own, chronotile_ksy.traced.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import compiler from "kaitai-struct-compiler";
import { importer, names, read } from "./specs.mjs";

const [language, out, mode] = process.argv.slice(2);
if (!["python", "javascript"].includes(language) || !out) {
  console.error("usage: node compile.mjs python|javascript OUT [--debug]");
  process.exit(2);
}

const home = mode === "--debug" ? "chronotile_ksy.traced" : "chronotile_ksy";
const packageImport = (text) =>
  text.replace(/^import ([a-z0-9_]+)$/gm, (line, module) =>
    names.includes(module) ? `from ${home} import ${module}` : line);

mkdirSync(out, { recursive: true });
for (const name of names) {
  try {
    const files = await compiler.compile(language, read(name), importer, mode === "--debug");
    for (const [file, text] of Object.entries(files))
      writeFileSync(join(out, file), language === "python" ? packageImport(text) : text);
  } catch (cause) {
    console.error(`${name}.ksy: ${cause.message ?? cause}`);
    process.exit(1);
  }
}
if (language === "python")
  writeFileSync(
    join(out, "__init__.py"),
    '"""Parsers generated from ksy/ by `make ksy`. Never edited by hand."""\n',
  );
