"""An S3 server for the tests: moto's model of S3, behind a front that costs little.

In: requests on loopback. Out: moto's answers. Four that tests ask for by the ten thousand (read,
look at, put an object, list objects) come from its model without the detour over its requests and
serializers, and `tests/unit/storage/test_quick_s3.py` holds them to moto's; all others are its own.
Run as a program, it prints its port, and ends when its input does.
"""

from __future__ import annotations

import io
import os
import re
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from email.utils import formatdate
from functools import cache
from hashlib import md5
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote
from xml.sax.saxutils import escape

from moto.core import responses, serialize
from moto.core.request import Request as MotoRequest
from moto.s3.models import FakeBucket, FakeKey, s3_backends
from moto.s3.responses import ARCHIVE_STORAGE_CLASSES, S3Response
from moto.s3.utils import metadata_from_headers

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

LOOPBACK = "127.0.0.1"
LONGEST_LIFE_S = 7200.0
"""Far more than the slowest run of all tests."""
ACCOUNT = "123456789012"
"""The account that moto gives to every key that it does not know."""


class Request(NamedTuple):
    """A request as it came; the names of its headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""


class Answer(NamedTuple):
    """An answer; its length is added when it is sent."""

    status: int
    headers: dict[str, Any]
    body: bytes


# What to answer

_one_put = threading.Lock()
"""S3 decides a conditional put atomically; the emulation checks first and puts later."""


def answer(request: Request) -> Answer:
    """Serve a request."""
    if request.method == "PUT":
        with _one_put:
            return quickly(request) or by_moto(request)
    return quickly(request) or by_moto(request)


class _FromServer(MotoRequest):  # type: ignore[misc]
    from_wsgi_server = True


def by_moto(request: Request) -> Answer:
    """Serve a request by moto's own code, all of it."""
    path, _, query = request.target.partition("?")
    host, _, port = request.headers.get("host", LOOPBACK).partition(":")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(path).encode().decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": request.target,
        "REQUEST_URI": request.target,
        "SERVER_NAME": host,
        "SERVER_PORT": port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"] = value
    asked = _FromServer(environ)
    # A path of one part is a bucket, any other an object.
    is_key = path.startswith("//") or "/" in path[1:].rstrip("/")
    serve = S3Response.key_dispatch if is_key else S3Response.bucket_dispatch
    status, headers, body = serve(asked, asked.raw_url, dict(asked.headers))
    return Answer(int(status), headers, body.encode() if isinstance(body, str) else body)


_OTHERWISE = re.compile(
    r"if-(match|modified-since|unmodified-since|range)|origin|expires|content-(encoding|language"
    r"|disposition|md5)|cache-control|x-robots-tag"
    r"|x-amz-(?!content-sha256$|date$|security-token$|api-version$|checksum-mode$).*"
)
"""Headers that only moto knows what to do about."""
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@cache
def _is_otherwise(header: str) -> bool:
    return bool(_OTHERWISE.fullmatch(header))


def quickly(request: Request) -> Answer | None:
    """Serve a plain request by moto's model alone; nothing, if it is not plain."""
    headers = request.headers
    if "authorization" not in headers or any(map(_is_otherwise, headers)):
        return None
    path, asks, query = request.target.partition("?")
    name, _, key = unquote(path[1:]).partition("/")
    bucket = s3_backends[ACCOUNT]["aws"].buckets.get(name)
    if (
        type(bucket) is not FakeBucket
        or bucket.policy is not None
        or bucket.versioning_status is not None
        or bucket.logging
        or bucket.encryption
        or bucket.object_lock_enabled
    ):
        return None
    if not key:
        return _list(bucket, query) if request.method == "GET" else None
    if asks or path.startswith("//"):
        return None
    if request.method == "PUT":
        return _put(bucket, key, request)
    if request.method in {"GET", "HEAD"}:
        return _read(bucket, key, request)
    return None


def _put(bucket: FakeBucket, name: str, request: Request) -> Answer | None:
    condition = request.headers.get("if-none-match")
    sha = request.headers.get("x-amz-content-sha256", "")
    kind = request.headers.get("content-type", "")
    if sha.startswith("STREAMING-") or "form" in kind or bucket.notification_configuration:
        return None
    if condition not in {None, "*"} or (condition and bucket.keys.get(name) is not None):
        return None
    new = s3_backends[ACCOUNT]["aws"].put_object(
        bucket.name,
        name,
        request.body,
        storage="STANDARD",
        etag=md5(request.body, usedforsecurity=False).hexdigest(),
    )
    new.set_metadata(metadata_from_headers(request.headers))
    new.set_acl(bucket.acl)
    found = new.response_dict
    found.pop("content-length")
    return Answer(200, _with_id(found), b"")


def _read(bucket: FakeBucket, name: str, request: Request) -> Answer | None:
    key, is_head = bucket.keys.get(name), request.method == "HEAD"
    if key is None and is_head and "range" not in request.headers:
        return Answer(404, _with_id({}), b"")
    if (
        not isinstance(key, FakeKey)
        or key.checksum_algorithm
        or key.storage_class in ARCHIVE_STORAGE_CLASSES
        or "if-none-match" in request.headers
    ):
        return None
    headers = {**key.response_dict, **key.metadata, "Accept-Ranges": "bytes"}
    try:
        data = b"" if is_head else key.value
    except ValueError:  # it has just gone
        return None
    if "range" not in request.headers:
        return Answer(200, _with_id(headers), data)
    part, last = _RANGE.fullmatch(request.headers["range"]), key.size - 1
    if part is None or is_head:
        return None
    begin = int(part[1])
    end = min(int(part[2] or last), last)
    if begin > end:
        return None
    headers["content-range"] = f"bytes {begin}-{end}/{key.size}"
    headers["content-length"] = str(end - begin + 1)
    return Answer(206, _with_id(headers), data[begin : end + 1])


_LISTED = {
    *("list-type", "prefix", "delimiter", "max-keys", "encoding-type"),
    *("continuation-token", "start-after"),
}


def _list(bucket: FakeBucket, query: str) -> Answer | None:
    asked = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
    limit, token = asked.get("max-keys", "1000"), asked.get("continuation-token")
    if asked.get("list-type") != "2" or asked.keys() - _LISTED or token == "":
        return None
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter")
    after = asked.get("start-after")
    encoding = asked.get("encoding-type")
    backend = s3_backends[ACCOUNT]["aws"]
    if not limit.isdecimal() or (token and token not in backend._pagination_tokens):
        return None
    found = _found(bucket, prefix, delimiter)
    names = sorted(found)
    if start := backend._pagination_tokens[token] if token else after:
        names = [name for name in names if name > start]
    names, is_truncated, next_token = backend._truncate_result(names, int(limit))

    def shown(name: str) -> str:
        return escape(quote(name) if encoding == "url" else name)

    contents, folders = [], []
    for name in names:
        key = found[name]
        if key is None:
            folders.append(f"<CommonPrefixes><Prefix>{shown(name)}</Prefix></CommonPrefixes>")
            continue
        if key.checksum_algorithm:
            return None
        contents.append(
            f"<Contents><Key>{shown(name)}</Key>"
            f"<LastModified>{key.last_modified.isoformat()[:19]}.000Z</LastModified>"
            f"<ETag>{key.etag}</ETag><Size>{key.size}</Size>"
            f"<StorageClass>{key.storage_class}</StorageClass></Contents>"
        )
    body = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<IsTruncated>{'true' if is_truncated else 'false'}</IsTruncated>{''.join(contents)}"
        f"{_tag('Name', bucket.name)}{_tag('Prefix', shown(prefix))}"
        f"{_tag('Delimiter', escape(delimiter)) if delimiter else ''}{_tag('MaxKeys', int(limit))}"
        f"{''.join(folders)}{_tag('EncodingType', escape(encoding)) if encoding else ''}"
        f"{_tag('KeyCount', len(names))}"
        f"{_tag('NextContinuationToken', next_token) if next_token else ''}"
        f"{_tag('StartAfter', escape(after)) if after and not token else ''}</ListBucketResult>"
    )
    headers = {"Content-Type": "application/xml", "server": "amazon.com"}
    return Answer(200, _with_id(headers), body.encode())


def _found(bucket: FakeBucket, prefix: str, delimiter: str | None) -> dict[str, FakeKey | None]:
    """What a list shows: name -> object, or nothing for what has names below it in common."""
    found: dict[str, FakeKey | None] = {}
    for name, versions in dict(bucket.keys).items():
        if not name.startswith(prefix):
            continue
        if delimiter and (end := name.find(delimiter, len(prefix))) >= 0:
            found[name[: end + len(delimiter)]] = None
        else:
            found[name] = versions[-1]
    return found


def _tag(name: str, text: object) -> str:
    return f"<{name}>{text}</{name}>" if str(text) else f"<{name}/>"


_count = iter(range(sys.maxsize))


def _with_id(headers: dict[str, Any]) -> dict[str, Any]:
    headers["x-amzn-requestid"] = f"{next(_count):052d}"
    return headers


def spare_moto() -> None:
    """Take from moto's own answers what costs much and says nothing."""

    def numbered(headers: dict[str, Any] | None = None) -> str:
        return str(_with_id({} if headers is None else headers)["x-amzn-requestid"])

    # The number of a request is drawn as 52 random letters.
    responses.gen_amzn_requestid_long = numbered
    # A list of versions gives each time as text, and parses it anew for each answer.
    serialize.parse_to_aware_datetime = cache(serialize.parse_to_aware_datetime)


# How to send it

_PHRASES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


def serve(serving: Callable[[Request], Answer] = answer) -> int:
    """Serve each connection in a thread of its own until the process ends; gives the port."""
    listening = socket.create_server((LOOPBACK, 0), backlog=256)

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=_converse, args=(connection, serving), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(listening.getsockname()[1])


def _converse(connection: socket.socket, serving: Callable[[Request], Answer]) -> None:
    """Answer the requests of a connection, one by one, until either side wants no more."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A client that goes away in the middle of something is what some tests are about.
    with suppress(OSError, EOFError), connection, connection.makefile("rb") as incoming:
        while request := _receive(connection, incoming):
            try:
                answered = serving(request)
            except Exception:
                text = traceback.format_exc()
                answered = Answer(500, {"Content-Type": "text/plain"}, text.encode())
            closes = request.headers.get("connection", "").lower() == "close"
            connection.sendall(_as_bytes(request, answered, closes=closes))
            if closes:
                return


def _receive(connection: socket.socket, incoming: BinaryIO) -> Request | None:
    first = incoming.readline(65536).decode("latin-1").split()
    if len(first) != 3:
        return None
    headers: dict[str, str] = {}
    while (line := incoming.readline(65536)) not in {b"\r\n", b"\n"}:
        if not line:
            raise EOFError
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if headers.pop("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        del headers["transfer-encoding"]
        body = b"".join(_chunks(incoming))
        headers["content-length"] = str(len(body))
    else:
        body = _exactly(incoming, int(headers.get("content-length") or 0))
    method, target, version = first
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return Request(method, target, headers, body)


def _exactly(incoming: BinaryIO, size: int) -> bytes:
    data = incoming.read(size) if size else b""
    if len(data) < size:
        raise EOFError
    return data


def _chunks(incoming: BinaryIO) -> list[bytes]:
    parts = []
    while size := int(incoming.readline(65536).partition(b";")[0], 16):
        parts.append(_exactly(incoming, size))
        incoming.readline(65536)
    while incoming.readline(65536) not in {b"\r\n", b"\n", b""}:
        pass  # a trailer
    return parts


def _as_bytes(request: Request, answered: Answer, *, closes: bool) -> bytes:
    status, headers, body = answered
    length = str(len(body))
    lines = [f"HTTP/1.1 {_PHRASES[status]}"]
    for name, value in headers.items():
        if name.lower() != "content-length":
            lines.append(f"{name}: {value}")
        elif request.method == "HEAD":
            length = str(value)
    if status not in {204, 304}:
        lines.append(f"Content-Length: {length}")
    lines.append(f"Date: {_date(int(time.time()))}")
    lines.append(f"Connection: {'close' if closes else 'keep-alive'}\r\n\r\n")
    head = "\r\n".join(lines).encode("latin-1")
    return head if request.method == "HEAD" or status in {204, 304} else head + body


@cache
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


if __name__ == "__main__":
    spare_moto()
    print(serve(), flush=True)
    end = threading.Timer(LONGEST_LIFE_S, os._exit, (1,))
    end.daemon = True
    end.start()
    sys.stdin.read()
    os._exit(0)
