// Writes a program in each of three languages that reads files by the specs: node readers.mjs OUT
//
// A program takes lines of a spec's name, a tab and a file, and answers each with a line: facts of
// the file as numbers, `closed` for a tile that no spec opens, or `refused`. What else a language
// needs, its compiler and Kaitai's runtime, is no matter of this script.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import compiler from "kaitai-struct-compiler";
import { importer, read, roots } from "./specs.mjs";

// What is asked of a file; the specs with a tile have the name of its payload first.
const FACTS = {
  tiledb_delete_commit: ["condition", "root.num_children", "root.level"],
  tiledb_update_commit: ["update", "values.num_values", "condition.num_children"],
  tiledb_array_schema_file: [
    ...["schema", "version", "capacity", "num_attributes", "domain.num_dimensions"],
    "offsets_filters.num_filters",
  ],
  tiledb_enumeration_file: ["enumeration", "num_labels", "labels.size", "len_data"],
  tiledb_array_metadata_file: ["metadata", "entries.size"],
  tiledb_group_details_file: ["details", "version", "num_members"],
  tiledb_consolidated_footers_file: ["footers", "num_fragments", "fragments.size"],
  tiledb_consolidated_commits: [null, "records.size"],
  tiledb_ignore_file: [null, "entries.size"],
  tiledb_vacuum_file: [null, "entries.size"],
  tiledb_fragment_metadata: [null, "tiles.size"],
};

const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const upper = (name) => camel(`_${name}`);
const path = (steps, step) => steps.split(".").map(step).join("");

const cpp = {
  target: "cpp_stl",
  file: "main.cpp",
  step: (name) => (name === "size" ? "->size()" : `->${name}()`),
  fact: (code) => `out << ' ' << static_cast<long long>(${code});`,
  closed: "!x->tile()->is_one_zlib_stream()",
  root: "x",
  text: (cases) => `#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <sstream>
${Object.keys(FACTS).map((spec) => `#include "${spec}.h"`).join("\n")}

// Code of compiler 0.11 frees a field of several types even if it was not reached: then it is to be 0.
void* operator new(size_t size) {
  if (void* zeroed = std::calloc(1, size ? size : 1)) return zeroed;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }

static std::string answer(const std::string& spec, const std::string& file) {
  std::ifstream in(file, std::ifstream::binary);
  std::ostringstream out;
  kaitai::kstream io(&in);
${cases(
  (spec) => `  if (spec == "${spec}") {\n    std::unique_ptr<${spec}_t> x(new ${spec}_t(&io));`,
  "    return out.str();\n  }",
  (condition) => `    if (${condition}) return " closed";`,
  "    if (!io.is_eof()) return \" refused\";",
)}
  return " no such spec";
}

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const size_t tab = line.find('\\t');
    try {
      std::cout << answer(line.substr(0, tab), line.substr(tab + 1)) << std::endl;
    } catch (const std::exception&) {
      std::cout << " refused" << std::endl;
    }
  }
}
`,
};

const java = {
  target: "java",
  file: "Main.java",
  step: (name) => `.${camel(name)}()`,
  fact: (code) => `out.append(' ').append(${code});`,
  closed: "!x.tile().isOneZlibStream()",
  root: "x",
  text: (cases) => `import io.kaitai.struct.ByteBufferKaitaiStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;

public class Main {
  static String answer(String spec, String file) throws Exception {
    StringBuilder out = new StringBuilder();
    try (ByteBufferKaitaiStream io = new ByteBufferKaitaiStream(file)) {
${cases(
  (spec) => `    if (spec.equals("${spec}")) {\n      ${upper(spec)} x = new ${upper(spec)}(io);`,
  "      return out.toString();\n    }",
  (condition) => `      if (${condition}) return " closed";`,
  "      if (!io.isEof()) return \" refused\";",
)}
    }
    return " no such spec";
  }

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line; (line = in.readLine()) != null; ) {
      String[] parts = line.split("\\t");
      try {
        System.out.println(answer(parts[0], parts[1]));
      } catch (Exception cause) {
        System.out.println(" refused");
      }
    }
  }
}
`,
};

const javascript = {
  target: "javascript",
  file: "main.js",
  step: (name) => (name === "size" ? ".length" : `.${camel(name)}`),
  fact: (code) => `out += \` \${${code}}\`;`,
  closed: "!x.tile.isOneZlibStream",
  root: "x",
  text: (cases) => `const fs = require("fs");
const KaitaiStream = require("kaitai-struct/KaitaiStream");

function answer(spec, file) {
  const io = new KaitaiStream(new Uint8Array(fs.readFileSync(file)).buffer);
  let out = "";
${cases(
  (spec) => `  if (spec === "${spec}") {
    const x = new (require("./${upper(spec)}").${upper(spec)})(io);`,
  "    return out;\n  }",
  (condition) => `    if (${condition}) return " closed";`,
  "    if (!io.isEof()) return \" refused\";",
)}
  return " no such spec";
}

for (const line of fs.readFileSync(0, "utf8").split("\\n").filter(Boolean)) {
  let said = " refused";
  try {
    said = answer(...line.split("\\t"));
  } catch {}
  console.log(said);
}
`,
};

const out = process.argv[2];
if (!out) {
  console.error("usage: node readers.mjs OUT");
  process.exit(2);
}
for (const language of [cpp, java, javascript]) {
  const folder = join(out, language.target);
  mkdirSync(folder, { recursive: true });
  for (const spec of roots())
    for (const [file, text] of Object.entries(
      await compiler.compile(language.target, read(spec), importer, false)))
      writeFileSync(join(folder, file.replace(/^(\/|src\/)*/, "")), text);
  const cases = (open, close, closed, whole) =>
    Object.entries(FACTS).map(([spec, [payload, ...facts]]) => [
      open(spec),
      whole,
      ...(payload ? [closed(language.closed)] : []),
      ...facts.map((fact) => {
        const at = path(payload ? `${payload}.${fact}` : fact, language.step);
        return `    ${language.fact(`${language.root}${at}`)}`;
      }),
      close,
    ].join("\n")).join("\n");
  writeFileSync(join(folder, language.file), language.text(cases));
}
writeFileSync(join(out, "facts.json"), JSON.stringify(FACTS));
