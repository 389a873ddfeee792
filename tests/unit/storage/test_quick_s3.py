"""The S3 server of the tests: its short cuts answer as moto does, and its front speaks HTTP."""

from __future__ import annotations

import re
import socket
import uuid
from http.client import HTTPConnection
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
from moto.moto_server.werkzeug_app import create_backend_app
from support.quick_s3 import LOOPBACK, Answer, Request, answer, by_moto, quickly, serve
from werkzeug.test import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNED = {
    "host": LOOPBACK,
    "authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request,"
    " SignedHeaders=host, Signature=abc",
    "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
    "x-amz-date": "20260101T000000Z",
    "x-amz-api-version": "2006-03-01",
}
NAMES = (
    *("a", "a/b", "a/b/c", "a/b/d", "a/c", "a//d", "ab", "b/__commits/1", "b/__commits/2"),
    *("a b/c d", "a+b/c", "umlaut-ü/ß", "<&>\"'/é&amp;", "a/b/", "zz%20/y", "1970-01-01"),
)
IGNORED = {
    *("date", "server", "connection", "x-amzn-requestid", "last-modified"),
    *("content-length", "access-control-allow-origin"),
}
"""Headers that a server adds, that differ each time, or that need a browser."""


@pytest.fixture(scope="module")
def moto() -> Client:
    """Moto's own server, as it comes."""
    return Client(create_backend_app("s3"))


@pytest.fixture(scope="module")
def full(moto: Client) -> str:
    """A bucket with names of many kinds."""
    name = f"full-{uuid.uuid4().hex[:12]}"
    moto.put(f"/{name}")
    for size, key in enumerate(NAMES):
        moto.put(f"/{name}/{quote(key)}", data=bytes(range(size)), headers=SIGNED)
    return name


def ask(method: str, target: str, body: bytes = b"", **headers: str) -> Request:
    length = {"content-length": str(len(body))} if body or method == "PUT" else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, target, SIGNED | length | named, body)


def facts(status: int, headers: dict[str, Any], body: bytes) -> tuple[Any, ...]:
    kept = {name.lower(): str(value) for name, value in headers.items()}
    if not body and kept.get("content-type", "").startswith("text/html"):
        del kept["content-type"]  # the web framework says what the body would be
    numbered = re.sub(rb"(?<=<RequestId>).*(?=</RequestId>)", b"", body)
    return status, {name: kept[name] for name in kept.keys() - IGNORED}, numbered


def of_moto(moto: Client, request: Request) -> tuple[Any, ...]:
    path, _, query = request.target.partition("?")
    got = moto.open(
        path,
        method=request.method,
        query_string=query,
        headers=request.headers,
        data=request.body,
        environ_overrides={"RAW_URI": request.target},
    )
    return facts(got.status_code, dict(got.headers), got.get_data())


def of(answered: Answer | None) -> tuple[Any, ...]:
    assert answered is not None, "it was left to moto"
    return facts(*answered)


LISTS = [
    {"list-type": "2"} | {name: value for name, value in zip(names, values, strict=True) if value}
    for names in [("prefix", "delimiter", "max-keys", "start-after", "encoding-type")]
    for values in product(
        ("", "a", "a/", "a/b/", "none/", "<&>", "umlaut-ü/", "a "),
        ("", "/", "b/"),
        ("", "0", "1", "3", "16", "17"),
        ("", "a/b", "zzz", "<"),
        ("", "url"),
    )
]


def test_lists_are_those_of_moto(moto: Client, full: str) -> None:
    for asked in LISTS:
        request = ask("GET", f"/{full}?{urlencode(asked)}")
        assert of(quickly(request)) == of_moto(moto, request), asked
    for asked in LISTS[::7]:
        request = ask("GET", f"/{full}?{urlencode(asked)}")
        assert of(by_moto(request)) == of_moto(moto, request), asked


@pytest.mark.parametrize("delimiter", ["", "/"])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_pages_are_those_of_moto(moto: Client, full: str, delimiter: str, most: int) -> None:
    token, pages = "", 0
    while token or not pages:
        asked = {"list-type": "2", "max-keys": str(most), "prefix": "", "delimiter": delimiter}
        if token:
            asked["continuation-token"] = token
        request = ask("GET", f"/{full}?{urlencode(asked)}")
        status, headers, body = of(quickly(request))
        assert (status, headers, body) == of_moto(moto, request)
        _, _, rest = body.decode().partition("<NextContinuationToken>")
        token, pages = rest.partition("<")[0], pages + 1
    assert pages > 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("part", ["", "bytes=0-3", "bytes=2-", "bytes=1-1000", "bytes=3-3"])
def test_objects_are_those_of_moto(moto: Client, full: str, method: str, part: str) -> None:
    wanted = {"x_amz_checksum_mode": "ENABLED"} | ({"range": part} if part else {})
    quick = 0
    for key in (*NAMES, "none"):
        request = ask(method, f"/{full}/{quote(key)}", b"", **wanted)
        assert of(answer(request)) == of_moto(moto, request), key
        assert of(by_moto(request)) == of_moto(moto, request), key
        quick += quickly(request) is not None
    assert quick >= (0 if method == "HEAD" and part else 10)


def length_of(moto: Client, request: Request) -> str:
    return str(moto.open(request.target, method="HEAD", headers=SIGNED).headers["Content-Length"])


def test_a_look_gives_the_size(moto: Client, full: str) -> None:
    for size, key in enumerate(NAMES):
        request = ask("HEAD", f"/{full}/{quote(key)}")
        looked = quickly(request)
        assert looked is not None
        assert looked.headers["content-length"] == str(size) == length_of(moto, request)


@pytest.mark.parametrize("condition", ["", "*"])
@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_a_put_is_that_of_moto(moto: Client, condition: str, kind: str) -> None:
    name = f"puts-{uuid.uuid4().hex[:12]}"
    moto.put(f"/{name}")
    some = {"if_none_match": condition} if condition else {}
    some |= {"content_type": kind} if kind else {}
    for round_, body in enumerate((b"", b"x", b"a=b", bytes(range(256)) * 300, b"again")):
        key = f"k{min(round_, 3)}"
        ours, theirs = (ask("PUT", f"/{name}/{side}/{key}", body, **some) for side in "ot")
        assert of(answer(ours)) == of_moto(moto, theirs)
        for method in ("GET", "HEAD"):
            ours, theirs = (ask(method, f"/{name}/{side}/{key}") for side in "ot")
            assert of(answer(ours)) == of_moto(moto, theirs)
            assert of_moto(moto, ours) == of_moto(moto, theirs)


UNUSUAL = [
    ask("PUT", "/{}/a", b"x", if_match='"0"'),
    ask("PUT", "/{}/a", b"x", if_none_match="*"),
    ask("PUT", "/{}/a", b"x", x_amz_storage_class="NONE"),
    ask("PUT", "/{}/b", x_amz_copy_source="none/none"),
    ask("PUT", "/{}/checked", b"x", x_amz_sdk_checksum_algorithm="CRC32"),
    ask("GET", "/{}/checked", x_amz_checksum_mode="ENABLED"),
    ask("HEAD", "/{}/checked", x_amz_checksum_mode="ENABLED"),
    ask("GET", "/{}?list-type=2&prefix=checked"),
    ask("GET", "/{}/none"),
    ask("GET", "/{}/a/b", range="bytes=7-9"),
    ask("GET", "/{}/a/b", range="bytes=-1"),
    ask("GET", "/{}/a/b", if_match='"0"'),
    ask("GET", "/{}/a/b", if_none_match='"55a54008ad1ba589aa210d2629c1df41"'),
    ask("GET", "/{}/a/b?versionId=none"),
    ask("GET", "/{}?list-type=2&continuation-token="),
    ask("GET", "/{}?versions&prefix=a"),
    ask("GET", "/{}?prefix=a"),
    ask("GET", "/{}?uploads"),
    ask("GET", "/none?list-type=2"),
    ask("GET", "/none/a"),
    ask("HEAD", "/none"),
    ask("HEAD", "/{}"),
    ask("DELETE", "/{}/none"),
    ask("POST", "/{}?delete", b"<Delete><Object><Key>none</Key></Object></Delete>"),
]


@pytest.mark.parametrize("asked", UNUSUAL, ids=range(len(UNUSUAL)))
def test_what_is_unusual_is_left_to_moto(moto: Client, full: str, asked: Request) -> None:
    request = asked._replace(target=asked.target.format(full))
    assert quickly(request) is None
    assert of(answer(request)) == of_moto(moto, request)


def test_versions_and_strangers_are_left_to_moto(moto: Client, full: str) -> None:
    request = ask("GET", f"/{full}/a")
    unsigned = {name: value for name, value in SIGNED.items() if name != "authorization"}
    assert quickly(request._replace(headers=unsigned)) is None
    assert answer(request._replace(headers=unsigned)).status == 403
    name = f"versions-{uuid.uuid4().hex[:12]}"
    moto.put(f"/{name}")
    on = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    assert answer(ask("PUT", f"/{name}?versioning", on)).status == 200
    for asked in (ask("PUT", f"/{name}/a", b"x"), ask("GET", f"/{name}/a")):
        assert quickly(asked) is None
        assert "x-amz-version-id" in answer(asked).headers


# The front


@pytest.fixture(scope="module")
def port() -> int:
    """A server that says what it was asked."""

    def echo(request: Request) -> Answer:
        if request.target == "/broken":
            raise ValueError("broken")
        if request.target == "/nothing":
            return Answer(204, {}, b"")
        told = f"{request.method} {request.target} {len(request.body)} {request.body[:9]!r}"
        return Answer(200, {"x-kind": request.headers.get("x-kind", "")}, told.encode())

    return serve(echo)


@pytest.fixture
def raw(port: int) -> Iterator[socket.socket]:
    with socket.create_connection((LOOPBACK, port), 10) as connection:
        yield connection


def test_a_connection_serves_many_requests(port: int) -> None:
    connection = HTTPConnection(LOOPBACK, port, timeout=10)
    for body in (b"", b"x" * 9, b"y" * 300_000):
        connection.request("PUT", "/a%20b?c=d", body, {"X-Kind": "some kind"})
        used = connection.sock
        got = connection.getresponse()
        assert got.getheader("x-kind") == "some kind"
        assert got.getheader("Date")
        assert got.read().decode() == f"PUT /a%20b?c=d {len(body)} {body[:9]!r}"
        assert connection.sock is used
    for target, status in (("/nothing", 204), ("/broken", 500), ("/fine", 200)):
        connection.request("GET", target)
        got = connection.getresponse()
        got.read()
        assert got.status == status
        assert connection.sock is used
    connection.request("HEAD", "/fine")
    got = connection.getresponse()
    assert (got.getheader("Content-Length"), got.read()) == ("16", b"")
    connection.close()


def test_a_body_in_chunks(port: int) -> None:
    connection = HTTPConnection(LOOPBACK, port, timeout=10)
    for _ in range(2):
        connection.request("PUT", "/a", iter([b"one", b"two", b"x" * 70_000]))
        assert connection.getresponse().read() == b"PUT /a 70006 b'onetwoxxx'"
    connection.close()


def test_a_body_that_waits_to_be_wanted(raw: socket.socket) -> None:
    raw.sendall(b"PUT /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    assert raw.recv(99) == b"HTTP/1.1 100 Continue\r\n\r\n"
    raw.sendall(b"abc")
    assert raw.recv(999).endswith(b"PUT /a 3 b'abc'")


@pytest.mark.parametrize("last", [b"HTTP/1.1\r\nConnection: close", b"HTTP/1.0\r\nHost: x"])
def test_the_last_request_ends_the_connection(raw: socket.socket, last: bytes) -> None:
    raw.sendall(b"GET /a HTTP/1.1\r\n\r\nGET /b " + last + b"\r\n\r\n")
    got = b""
    while data := raw.recv(999):
        got += data
    assert got.count(b"HTTP/1.1 200 OK") == 2
    assert got.count(b"Connection: close") == 1


def test_half_a_request_is_none(port: int) -> None:
    for half in (
        b"GET",
        b"GET /a HTTP/1.1\r\nHost:",
        b"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\na",
    ):
        with socket.create_connection((LOOPBACK, port), 10) as connection:
            connection.sendall(half)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(99) == b""
