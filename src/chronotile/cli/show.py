"""`chronotile show`: one file of any kind, decoded.

In: a file, in its array or away from it. Out: its content as a tree or as JSON, and the byte range
of each field. The schema that the user gives, or the array around the file, types the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chronotile.cli.options import Place, access_options, command, reporting
from chronotile.errors import ChronotileError
from chronotile.format.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from chronotile.cli.options import Access
    from chronotile.format.schema import Schema
    from chronotile.show.byte_ranges import Region
    from chronotile.single_file.decode import AnyFile

_HEX = 16
"""Bytes of a field that a table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowReport:
    """One file."""

    place: str
    size: int
    file: AnyFile
    schemas: tuple[Schema, ...]
    key: bytes | None
    regions: tuple[Region, ...] | None
    """The byte ranges, if they were asked for."""

    def _content(self) -> dict[str, Any]:
        from chronotile.show.file_json import name_json, to_json

        name = name_json(self.place, self.file.kind)
        return name | to_json(self.file, self.schemas, self.key)

    def to_json(self) -> dict[str, Any]:
        """The file, its kind and size, its content, and the byte ranges."""
        document = {"file": self.place, "kind": self.file.kind, "size": self.size}
        document |= self._content()
        if self.regions is not None:
            document["layout"] = [_region_json(region) for region in self.regions]
        return document

    def to_text(self) -> Iterator[RenderableType]:
        """A tree; with byte ranges, a table for each region after it."""
        from rich.tree import Tree

        from chronotile.show.file_json import WORDS
        from chronotile.show.output import Text, size_text

        title = f"{self.place.rpartition('/')[2]}: {WORDS[self.file.kind]}, {size_text(self.size)}"
        tree = Tree(Text(title, "bold"), guide_style="dim")
        _grow(tree, self._content())
        yield tree
        for region in self.regions or ():
            yield ""
            yield Text(f"{region.title}: {size_text(len(region.data))}", "bold")
            yield _region_table(region)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowReports:
    """Several files, and those that could not be read."""

    shown: tuple[ShowReport, ...]
    errors: tuple[ChronotileError, ...]

    @property
    def status(self) -> int:
        """That of the worst error, or 0."""
        return max((error.exit_code for error in self.errors), default=0)

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each file; one that could not be read has an `error`."""
        failed = [{"file": error.where, "error": error.to_dict()} for error in self.errors]
        return [*(report.to_json() for report in self.shown), *failed]

    def to_text(self) -> Iterator[RenderableType]:
        """One file after the other, then the errors."""
        from chronotile.show.output import Text

        for number, report in enumerate(self.shown):
            if number:
                yield ""
            yield from report.to_text()
        for error in self.errors:
            yield Text(str(error), "red")


def _grow(tree: Any, document: Any) -> None:
    """Adds a JSON value to a tree: one line for each value that fits a line."""
    from chronotile.show.output import Text

    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in pairs:
        label = Text(str(name), "cyan")
        line = _one_line(value)
        if line is not None:
            tree.add(label.append("  ").append(line, "default"))
        else:
            _grow(tree.add(label), value)


def _per_cell(values: Any) -> str:
    """How many values a cell has, unless it is one."""
    if values == 1:
        return ""
    return ", variable length" if not isinstance(values, int) else f", {values} values in each cell"


def _one_line(value: Any) -> str | None:
    match value:
        case {"uri": uri, "type": kind, "deleted": deleted}:
            named = "" if value["name"] is None else f"{value['name']}: "
            where = "below the group" if value["relative"] else "absolute"
            return f"{named}{kind} {uri} ({where}){', removed' if deleted else ''}"
        case {"key": key, "removed": True}:
            return f"{key} removed"
        case {"key": key, "value": of_key, "datatype": datatype}:
            return f"{key} = {of_key} ({datatype.lower()})"
        case {"field": field, "raw": raw}:
            shown = f" {value['value']}" if value.get("value") is not None else ""
            return f"{field} {value.get('op', '=')}{shown}, raw {raw or 'empty'}"
        case {"uri": uri, "offset": offset} if len(value) == 2:
            return f"{uri} at byte {offset}"
        case {"name": name, "datatype": datatype, "nullable": nullable}:
            several = _per_cell(value["values"])
            labels = f", labels of {value['enumeration']}" if value["enumeration"] else ""
            return f"{name}: {datatype.lower()}{several}{', nullable' if nullable else ''}{labels}"
        case dict():
            return None
    if isinstance(value, list):
        flat = all(not isinstance(item, dict | list) for item in value)
        line = ", ".join(map(str, value))
        return line or "none" if flat and (len(line) <= 60 or not value) else None
    return "none" if value is None else str(value)


def _region_json(region: Region) -> dict[str, Any]:
    fields = [
        {
            "field": span.path,
            "start": span.start,
            "end": span.end,
            "value": _plain(span.value),
            "raw": region.data[span.start : span.end].hex(),
        }
        for span in region.spans
    ]
    return {"region": region.title, "size": len(region.data), "fields": fields}


def _region_table(region: Region) -> RenderableType:
    from chronotile.show.output import plain_table

    table = plain_table("from", "to", "bytes", "field", "value", right=2)
    for span in region.spans:
        raw = region.data[span.start : span.end]
        more = " …" if len(raw) > _HEX else ""
        shown = "" if isinstance(span.value, bytes) else str(_plain(span.value))
        table.add_row(str(span.start), str(span.end), raw[:_HEX].hex(" ") + more, span.path, shown)
    return table


def _plain(value: Any) -> Any:
    """A value of the generated parsers for JSON: bytes as hex, an enum as its name."""
    if isinstance(value, bytes):
        return value.hex()
    return value.name if hasattr(value, "name") else value


def _schemas_near(place: str, access: Access) -> tuple[Schema, ...]:
    """The schemas of the array that a file lies in; none if it lies in no array."""
    from chronotile.single_file.decode import split_place
    from chronotile.single_file.nearby_schemas import read_schemas

    array, _ = split_place(place)
    while array.rpartition("/")[2].startswith("__"):
        array = array.rpartition("/")[0]
    try:
        return read_schemas(array, access.storage, access.key)
    except ChronotileError:
        return ()


@command(epilog="\b\nExample:\n  chronotile show demo/array/__commits/*.del --hex")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=Place("file"))
@click.option("--kind", type=click.Choice(KINDS), help="What it is, if its name does not tell.")
@click.option("--schema", metavar="PLACE", type=Place("file"), help="Schema file, or an array.")
@click.option("--hex", "as_hex", is_flag=True, help="The byte range of each field.")
@access_options
@reporting
def show(
    files: tuple[str, ...], kind: str | None, schema: str | None, as_hex: bool, access: Access
) -> ShowReport | ShowReports:
    """Decode each FILE, of any kind: commit, schema, enumeration, metadata of array or fragment.

    The array that the file lies in types the values. Away from it they stay raw, unless --schema
    names a schema file or an array. If the name of a file does not tell its kind, its content may.
    """
    if len(files) == 1:
        return _show(files[0], kind, schema, access, as_hex=as_hex)
    shown, errors = [], []
    for file in files:
        try:
            shown.append(_show(file, kind, schema, access, as_hex=as_hex))
        except ChronotileError as error:
            errors.append(error)
    return ShowReports(shown=tuple(shown), errors=tuple(errors))


def _show(
    file: str, kind: str | None, schema: str | None, access: Access, *, as_hex: bool
) -> ShowReport:
    from chronotile.show.byte_ranges import layout
    from chronotile.single_file.decode import decode, kind_of_name, read_file, recognise
    from chronotile.single_file.nearby_schemas import read_schemas

    key = access.key
    data = read_file(file, access.storage)
    chosen: Any = kind or kind_of_name(file) or recognise(data, file, key=key)
    decoded = decode(data, chosen, file, key=key)
    schemas = (
        _schemas_near(file, access) if schema is None else read_schemas(schema, access.storage, key)
    )
    return ShowReport(
        place=file,
        size=len(data),
        file=decoded,
        schemas=schemas,
        key=key,
        regions=layout(data, chosen, file, key=key, schemas=schemas) if as_hex else None,
    )
