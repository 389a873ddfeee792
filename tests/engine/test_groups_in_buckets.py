"""Groups in buckets: members in other buckets, merged lists, and the engine as the judge."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import tiledb
from support.corpus_cases import CASES
from support.engine_arrays import s3_settings
from support.verbs import consolidate_group, vacuum_group

import chronotile as ct
from chronotile.cli import main
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    import pytest
    from support.servers import S3Server


def upload(uri: str, case: str, options: dict[str, str]) -> None:
    store = open_store(uri, options)
    for file in CASES[case].files():
        store.put_if_absent(str(file.relative), file.path.read_bytes())


def by_engine(uri: str, settings: dict[str, str]) -> set[tuple[str, str]]:
    with tiledb.Group(uri, "r", ctx=tiledb.Ctx(settings)) as group:
        return {(str(one.name), one.uri) for one in group}


def test_members_in_another_bucket(
    s3: S3Server, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, options = s3_settings(s3), s3.options
    other = s3.make_bucket(f"test-{uuid.uuid4().hex[:12]}")
    upload(f"{other}/far", "sparse-loose", options)
    group = f"{bucket}/lake/group"
    ctx = tiledb.Ctx(settings)
    tiledb.Group.create(group, ctx=ctx)
    upload(f"{group}/near", "bare", options)
    for at, uri, name in ((10, f"{other}/far", "far"), (20, "near", "near"), (30, "near", "again")):
        timed = tiledb.Config({**settings, "sm.group.timestamp_end": str(at)})
        with tiledb.Group(group, "w", timed, ctx) as writer:
            writer.add(uri, name, relative="://" not in uri)
    dataset = ct.open_dataset(group, storage_options=options)
    assert {(m.name, m.uri) for m in dataset.members()} == by_engine(group, settings)
    found = {node.path: (node.found, node.is_inside) for node in dataset.tree()}
    assert found == {
        "again": ("array", True),
        "far": ("array", False),
        "near": ("doubled", True),
    }
    assert len(dataset.logs()["far"].view().fragments) > 0
    # Merged lists name their files as the engine does: its open then reads one list.
    before = by_engine(group, settings)
    consolidate_group(group, storage_options=options)
    assert by_engine(group, settings) == before
    names = [f.name.text for f in ct.open_dataset(group, storage_options=options).group.files]
    vacuum_group(group, storage_options=options)
    left = ct.open_dataset(group, storage_options=options)
    assert len(left.group.files) == 1 < len(names)
    assert by_engine(group, settings) == before == {(m.name, m.uri) for m in left.members()}
    # A command on the group reads the member in the other bucket, and does not change it.
    storage = [word for pair in options.items() for word in ("--storage", "=".join(pair))]
    assert main(["consolidate", group, *storage]) == 0
    assert "far: it lies outside of the dataset's folder" in capsys.readouterr().out
    assert not [e for e in open_store(f"{other}/far", options).list_prefix() if ".con" in e.path]
    assert main(["check", f"{bucket}/lake", *storage, "--log-only", "--fail-on", "error"]) == 0
    assert "2 arrays" in capsys.readouterr().out
