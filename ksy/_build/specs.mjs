// The specs of the folder above, as the compiler takes them.
//
// Out: their names, each one as text and parsed, those that no other imports, and an importer.
// Knows nothing of languages.

import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import YAML from "yaml";

const folder = dirname(dirname(fileURLToPath(import.meta.url)));

export const names = readdirSync(folder)
  .filter((file) => file.endsWith(".ksy"))
  .map((file) => file.slice(0, -".ksy".length))
  .sort();

export const text = (name) => readFileSync(join(folder, `${name}.ksy`), "utf8");

export const read = (name) => YAML.parse(text(name));

export const importer = { importYaml: async (name) => read(name) };

export const roots = () => {
  const imported = new Set(names.flatMap((name) => read(name).meta.imports ?? []));
  return names.filter((name) => !imported.has(name));
};
