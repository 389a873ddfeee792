// Compiles every ../*.ksy into a folder: node compile.mjs LANGUAGE OUT [--debug | --read-write]
//
// The compiler has only a programming interface, and for Python it writes `import other`
// for an imported spec, which a package cannot resolve: that one line is rewritten. With
// --debug the parsers keep the byte range of each field; for Python they make a package of
// their own, chronotile_ksy.traced. With --read-write the code writes too; for Python it makes
// a package of the folder's name.

import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import compiler from "kaitai-struct-compiler";
import { importer, names, read, roots } from "./specs.mjs";

const [language, out, mode] = process.argv.slice(2);
if (!["python", "javascript"].includes(language) || !out) {
  console.error("usage: node compile.mjs python|javascript OUT [--debug | --read-write]");
  process.exit(2);
}

const homes = { "--debug": "chronotile_ksy.traced", "--read-write": basename(out) };
const home = homes[mode] ?? "chronotile_ksy";
const packageImport = (text) =>
  text.replace(/^import ([a-z0-9_]+)$/gm, (line, module) =>
    names.includes(module) ? `from ${home} import ${module}` : line);

// The programming interface has no switch for this, but the compiler's own settings have. What an
// object inherits from here stands above what the compiler assigns to it.
if (mode === "--read-write")
  for (const [setting, value] of Object.entries({ readWrite: true, autoRead: false }))
    Object.defineProperty(Object.prototype, `Lio_kaitai_struct_RuntimeConfig__f_${setting}`, {
      get: () => value,
      set() {},
    });

mkdirSync(out, { recursive: true });
// What a spec imports comes with it.
for (const name of roots()) {
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
