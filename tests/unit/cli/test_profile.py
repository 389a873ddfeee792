"""The profile of a user, and `config`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.corpus_cases import CASES
from support.servers import s3_server

from chronotile.cli import sample
from chronotile.cli.program import main
from chronotile.storage.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from support.servers import S3Server

SECRET = "s3cr3t-of-mine"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a profile; nothing of the environment applies."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("AWS_REGION", "AWS_ENDPOINT_URL", "CHRONOTILE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config" / "chronotile").mkdir(parents=True)
    return tmp_path / "config" / "chronotile"


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def profile_of(storage: dict[str, dict[str, str]]) -> str:
    return "\n".join(
        line
        for prefix, options in storage.items()
        for line in (
            f'[storage."{prefix}"]',
            *(f"{name} = {json.dumps(text)}" for name, text in options.items()),
        )
    )


def put_sample(tmp_path: Path, uri: str, s3: S3Server) -> Path:
    array = sample.unpack(tmp_path / "sample").array
    store = open_store(uri, s3.options)
    for path in sorted(array.rglob("*")):
        if path.is_file():
            store.put_if_absent(str(path.relative_to(array)), path.read_bytes())
    return array


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_the_longest_prefix_counts_option_by_option(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        folder,
        f'''
        [storage."s3://lake"]
        region = "eu-west-1"
        secret_access_key = "{SECRET}"
        allow_http = true
        [storage."s3://lake/sales"]
        region = "eu-central-1"
        [storage."s3://lakeside"]
        region = "us-east-1"
        [keys]
        "s3://lake" = "/keys/lake"
        "s3://lake/sales/eu" = "/keys/eu"
        ''',
    )
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", SECRET)
    found = answer(capsys, "config", "s3://lake/sales/eu/2024")["applies"]
    assert {name: one["value"] for name, one in found.items() if not name.startswith("AWS_")} == {
        "region": "eu-central-1",
        "secret_access_key": "(hidden)",
        "allow_http": "true",
        "key file": "/keys/eu",
    }
    assert found["region"]["source"] == '[storage."s3://lake/sales"]'
    hidden = {"value": "(hidden)", "source": "the environment"}
    assert found["AWS_WEB_IDENTITY_TOKEN_FILE"] == hidden
    assert main(["config", "s3://lake"]) == 0
    out = capsys.readouterr().out
    assert "eu-west-1" in out
    assert SECRET not in out
    assert answer(capsys, "config", "/data")["applies"] == {}
    assert answer(capsys, "config")["keys"] == ["s3://lake", "s3://lake/sales/eu"]


def test_the_environment_comes_before_the_profile(
    folder: Path,
    tmp_path: Path,
    s3: S3Server,
    bucket: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_sample(tmp_path, f"{bucket}/array", s3)
    wrong = s3.options | {"endpoint": "http://127.0.0.1:1", "session_token": SECRET}
    write(folder, profile_of({bucket: wrong}))
    assert main(["log", f"{bucket}/array"]) == 3
    capsys.readouterr()
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    applies = answer(capsys, "config", bucket)["applies"]
    assert "AWS_ENDPOINT_URL" in applies
    assert "endpoint" not in applies
    answer(capsys, "log", f"{bucket}/array")
    # Credentials belong together: no token of the profile goes with a key of the environment.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    names = ["AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"]
    assert [*answer(capsys, "config", bucket)["applies"]] == names
    # The command line comes before both.
    assert main(["log", f"{bucket}/array", "--storage", "aws_endpoint=http://127.0.0.1:1"]) == 3


@pytest.mark.parametrize(
    "value",
    [
        f"https://user:{SECRET}@host",
        f"https://host/path?sig={SECRET}",
        f"DefaultEndpointsProtocol=https;AccountKey={SECRET}",
    ],
)
def test_a_secret_in_a_value_is_hidden(
    value: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, profile_of({"s3://lake": {"endpoint": value}}))
    monkeypatch.setenv("AWS_PROXY_URL", value)
    for more in ((), ("--json",)):
        assert main(["config", "s3://lake", *more]) == 0
        out = capsys.readouterr().out
        assert SECRET not in out
        assert "endpoint" in out


def test_each_place_of_a_call_has_its_own_options(
    folder: Path,
    tmp_path: Path,
    s3: S3Server,
    bucket: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    source = f"{bucket}/array"
    put_sample(tmp_path, source, s3)
    with s3_server() as other:
        elsewhere = other.make_bucket("elsewhere")
        write(folder, profile_of({bucket: s3.options, elsewhere: other.options}))
        for command in ("clone", "replicate"):
            target = f"{elsewhere}/{command}"
            assert main([command, source, target]) == 0, capsys.readouterr().err
            capsys.readouterr()
            assert answer(capsys, "visible", target)
        token = "session_token=of-the-target"
        again = ["replicate", source, f"{elsewhere}/replicate", "--target-storage", token]
        assert main(again) == 0, capsys.readouterr().err
        capsys.readouterr()
        assert main(["tables", bucket, "--out", f"{elsewhere}/tables"]) == 0
        page = str(tmp_path / "report.html")
        assert main(["report", f"{elsewhere}/tables", "-o", page]) == 0
        capsys.readouterr()
        kinds = {one["uri"]: one["kind"] for one in answer(capsys, "ls", bucket, elsewhere)}
        assert kinds == dict.fromkeys(
            (source, f"{elsewhere}/clone", f"{elsewhere}/replicate"), "sparse"
        )


def test_a_command_needs_no_flags(
    folder: Path,
    tmp_path: Path,
    s3: S3Server,
    bucket: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    array = put_sample(tmp_path, f"{bucket}/array", s3)
    write(folder, profile_of({bucket: s3.options}))
    assert len(answer(capsys, "log", f"{bucket}/array")) == len(answer(capsys, "log", str(array)))
    # What is typed comes before the profile.
    assert main(["log", f"{bucket}/array", "--storage", "endpoint=http://127.0.0.1:1"]) == 3


def test_a_key_is_found_by_its_prefix(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = next(case for case in CASES.values() if case.key is not None)
    key = folder / "key"
    key.write_bytes(case.key or b"")
    write(folder, f'[keys]\n"{case.array.parent}" = "{key}"')
    assert main(["visible", str(case.array)]) == 0
    assert "encrypted" not in capsys.readouterr().out
    # The key of another file of the call is not that of this one.
    schema = next((case.array / "__schema").glob("__[0-9]*"))
    plain = next(one for one in CASES.values() if one.key is None)
    other = next((plain.array / "__schema").glob("__[0-9]*"))
    shown = answer(capsys, "show", str(other), str(schema))
    assert [one["kind"] for one in shown] == ["schema", "schema"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[storag]", "did you mean storage?"),
        ("storage = 3", "expected [storage."),
        ("[storage]\nregion = 'x'", "expected [storage."),
        ("[keys]\na = [1]", "expected a text for 'a'"),
        ("[", "expected a profile in TOML"),
    ],
)
def test_a_wrong_profile_is_one_line(
    text: str, problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, text)
    assert main(["config"]) != 0
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert problem in err


def test_a_profile_that_others_can_write_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, '[storage."s3://lake"]\nendpoint = "http://elsewhere"').chmod(0o666)
    assert main(["config", "s3://lake"]) == 1
    assert "expected a file that you alone can write" in capsys.readouterr().err


def test_no_profile_is_taken_from_the_working_folder(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(folder, '[storage."s3://lake"]\nendpoint = "http://elsewhere"')
    for name in ("config.toml", ".chronotile.toml", "chronotile.toml"):
        (tmp_path / name).write_text((folder / "config.toml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    assert answer(capsys, "config", "s3://lake")["applies"] == {}
