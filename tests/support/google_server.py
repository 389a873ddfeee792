"""Google's storage for tests, on loopback: fake-gcs-server, and a translator before it.

In: the program, which `make gcs` installs from Go modules. Out: an endpoint. The client speaks
Google's XML interface, of which the server knows little: each request becomes one of its JSON
interface, which has the objects, generations, conditions and pages.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from support.servers import LOOPBACK, FaultProxy, _ProxyHandler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Answer = tuple[int, list[tuple[str, str]], bytes]

_UPLOADS: dict[str, dict[int, bytes]] = {}
"""Upload in parts -> its parts so far."""


class GoogleServer:
    """A running server."""

    def __init__(self, endpoint: str, behind: str) -> None:
        self.endpoint, self._behind = endpoint, behind

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach the server."""
        account = {"gcs_base_url": self.endpoint, "disable_oauth": True}
        unused = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return {"service_account_key": json.dumps(account | unused), "allow_http": "true"}

    def make_bucket(self, name: str) -> str:
        """Make a bucket and give its URI."""
        host = urlsplit(self._behind).netloc
        body = json.dumps({"name": name}).encode()
        status, answer = _ask(host, "POST", "/storage/v1/b", {"project": "tests"}, body)
        assert status == 200, answer
        return f"gs://{name}"


@contextmanager
def google_server(program: Path) -> Iterator[GoogleServer]:
    """Run the server until the block ends; it keeps everything in memory."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    call = [str(program), "-backend", "memory", "-scheme", "http", "-host", LOOPBACK]
    call += ["-port", str(port), "-public-host", f"{LOOPBACK}:{port}", "-log-level", "error"]
    with subprocess.Popen(call, stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                with suppress(OSError), socket.create_connection((LOOPBACK, port), 1):
                    break
                time.sleep(0.1)
            behind = f"http://{LOOPBACK}:{port}"
            with FaultProxy(behind, _Translator) as proxy:
                yield GoogleServer(proxy.endpoint, behind)
        finally:
            process.terminate()


def _ask(
    host: str, method: str, path: str, query: dict[str, Any], body: bytes = b""
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(method, f"{path}?{urlencode(query)}", body)
        answer = connection.getresponse()
        data = answer.read()
        with suppress(ValueError):
            return answer.status, json.loads(data)
        return answer.status, {}
    finally:
        connection.close()


class _Translator(_ProxyHandler):
    """Answers a request of the XML interface by one of the JSON interface."""

    def _forward(self, body: bytes) -> Answer:
        parts = urlsplit(self.path)
        self.query = {
            name: values[0]
            for name, values in parse_qs(parts.query, keep_blank_values=True).items()
        }
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        self.objects, self.key = f"/storage/v1/b/{bucket}/o", key
        if not key:
            return self._list()
        if self.command == "PUT" and "partNumber" in self.query:
            _UPLOADS[self.query["uploadId"]][int(self.query["partNumber"])] = body
            return 200, [("ETag", f'"{self.query["partNumber"]}"')], b""
        if self.command == "PUT" and "x-goog-copy-source" in self.headers:
            return self._copy(unquote(self.headers["x-goog-copy-source"]))
        if self.command == "PUT":
            return self._put(body)
        if self.command == "POST" and "uploads" in self.query:
            upload = uuid.uuid4().hex
            _UPLOADS[upload] = {}
            return 200, [], _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")
        if self.command == "POST":
            sent = _UPLOADS.pop(self.query["uploadId"])
            return self._put(b"".join(data for _, data in sorted(sent.items())))
        if self.command == "DELETE" and "uploadId" in self.query:
            _UPLOADS.pop(self.query["uploadId"], None)
            return 204, [], b""
        if self.command == "DELETE":
            return self._ask("DELETE", f"{self.objects}/{quote(key, safe='')}", {})[0], [], b""
        self.headers.replace_header("Host", urlsplit(self.server.proxy.upstream).netloc)
        return super()._forward(body)

    def _ask(
        self, method: str, path: str, query: dict[str, Any], body: bytes = b""
    ) -> tuple[int, dict[str, Any]]:
        return _ask(urlsplit(self.server.proxy.upstream).netloc, method, path, query, body)

    def _condition(self) -> dict[str, str]:
        generation = self.headers.get("x-goog-if-generation-match")
        return {} if generation is None else {"ifGenerationMatch": generation}

    def _put(self, body: bytes) -> Answer:
        query = {"uploadType": "media", "name": self.key, **self._condition()}
        status, made = self._ask("POST", f"/upload{self.objects}", query, body)
        return self._made(status, made)

    def _copy(self, source: str) -> Answer:
        bucket, _, key = source.lstrip("/").partition("/")
        path = f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}/copyTo"
        path += self.objects.removeprefix("/storage/v1") + f"/{quote(self.key, safe='')}"
        return self._made(*self._ask("POST", path, self._condition()))

    def _made(self, status: int, made: dict[str, Any]) -> Answer:
        if status != 200:
            return status, [], json.dumps(made).encode()
        tag = f'"{made["etag"]}"'
        headers = [("ETag", tag), ("x-goog-generation", str(made["generation"]))]
        body = f"<ETag>{escape(tag)}</ETag><Key>{escape(self.key)}</Key>"
        return 200, headers, _xml("CompleteMultipartUploadResult", body)

    def _list(self) -> Answer:
        asked = {"maxResults": self.query.get("max-keys", "1000")}
        for name, new in (
            ("prefix", "prefix"),
            ("delimiter", "delimiter"),
            ("continuation-token", "pageToken"),
        ):
            if name in self.query:
                asked[new] = self.query[name]
        if "start-after" in self.query:
            asked["startOffset"] = self.query["start-after"] + "\0"
        status, page = self._ask("GET", self.objects, asked)
        if status != 200:
            return status, [], json.dumps(page).encode()
        body = "".join(
            f"<Contents><Key>{escape(one['name'])}</Key><Size>{one['size']}</Size>"
            f"<LastModified>{one['updated']}</LastModified><ETag>{escape(one['etag'])}</ETag>"
            "</Contents>"
            for one in page.get("items", ())
        )
        body += "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>"
            for one in page.get("prefixes", ())
        )
        token = page.get("nextPageToken")
        if token:
            body += f"<NextContinuationToken>{escape(token)}</NextContinuationToken>"
        return 200, [("Content-Type", "application/xml")], _xml("ListBucketResult", body)


def _xml(name: str, body: str) -> bytes:
    return f'<?xml version="1.0"?><{name}>{body}</{name}>'.encode()
