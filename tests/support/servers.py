"""Servers for the tests, on loopback only: S3, Azure, and a proxy that breaks things.

In: nothing, or a plan of faults. Out: endpoints. Each stops with the block that started it;
the S3 server is a process of its own, which also ends when its parent does.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args
from urllib.parse import quote, urlsplit

LOOPBACK = "127.0.0.1"

Fault: TypeAlias = Literal[
    "pass",  # no fault
    "drop",  # the request never arrives, the connection closes
    "reset",  # the same, with a reset
    "delay",  # the answer is late
    "500",  # the server refuses
    "503",  # likewise
    "429",  # likewise: too many requests
    "lose-answer",  # the request is served, its answer is lost
    "500-after",  # the request is served, the answer says that it was not
    "cut",  # half of the answer's body arrives
    "stale-list",  # a list lacks the name that was written last
    "hold",  # the request waits until the test lets it go
]
FAULTS: tuple[Fault, ...] = tuple(
    fault for fault in get_args(Fault) if fault not in ("stale-list", "hold")
)
"""Those that any request can meet."""
Plan: TypeAlias = Callable[[int, str, str], Fault]
"""(number of the request, method, path) -> what to do to it."""


class S3Server:
    """A running S3 server."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach the server."""
        return options_for(self.endpoint)

    def make_bucket(self, name: str) -> str:
        """Make a bucket and give its URI."""
        self.send("PUT", name)
        return f"s3://{name}"

    def send(self, method: str, key: str, body: bytes = b"") -> bytes:
        """Make a request past the product: any key at all can be written this way."""
        url = f"{self.endpoint}/{quote(key)}"
        headers = {"Content-Type": "application/octet-stream"}  # else it would be read as a form
        request = urllib.request.Request(url, data=body, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())


def options_for(endpoint: str) -> dict[str, str]:
    return {
        "endpoint": endpoint,
        "region": "us-east-1",
        "access_key_id": "test-access-key",
        "secret_access_key": "test-secret-key",
    }


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run an S3 server until the block ends."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve().with_name("quick_s3.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                message = "the S3 server did not start"
                raise RuntimeError(message)
            yield S3Server(f"http://{LOOPBACK}:{port}")
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The account of every such server, as its documentation has it: no secret."""
AZURITE = Path(__file__).parents[2] / "ksy" / "_build" / "node_modules" / ".bin" / "azurite-blob"


class AzureServer:
    """A running server of Azure's blob storage."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://{LOOPBACK}:{port}/{AZURE_ACCOUNT}"

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach the server."""
        return {
            "account_name": AZURE_ACCOUNT,
            "account_key": AZURE_KEY,
            "endpoint": self.endpoint,
        }

    def make_bucket(self, name: str) -> str:
        """Make a container, as Azure calls a bucket, and give its URI."""
        date = formatdate(usegmt=True)
        headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n"
        resource = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}\nrestype:container"
        text = "PUT" + "\n" * 12 + headers + resource
        signed = hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), "sha256")
        request = urllib.request.Request(
            f"{self.endpoint}/{name}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": "2021-08-06",
                "Authorization": f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(signed).decode()}",
                "Content-Length": "0",
            },
        )
        with urllib.request.urlopen(request, timeout=30):
            return f"az://{name}"


@contextmanager
def azure_server() -> Iterator[AzureServer]:
    """Run Azurite until the block ends; it keeps everything in memory."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    node = os.environ.get("CHRONOTILE_NODE", "node")
    call = [node, str(AZURITE), "--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]
    call += ["--disableTelemetry", "--blobHost", LOOPBACK, "--blobPort", str(port)]
    with subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(600):
                with suppress(OSError), socket.create_connection((LOOPBACK, port), 1):
                    break
                if process.poll() is not None:
                    message = f"Azurite did not start: {' '.join(call)}"
                    raise RuntimeError(message)
                time.sleep(0.1)
            yield AzureServer(port)
        finally:
            process.terminate()


def random_plan(seed: int, rate: float, faults: tuple[Fault, ...] = FAULTS) -> Plan:
    """Break requests at random, the same ones for the same seed and order."""
    chance, lock = random.Random(seed), threading.Lock()

    def plan(number: int, method: str, path: str) -> Fault:
        del number, method, path
        with lock:
            return chance.choice(faults) if chance.random() < rate else "pass"

    return plan


def scripted_plan(method: str, *faults: Fault) -> Plan:
    """Do these to the first requests of a method, one each, and nothing to the others."""
    left, lock = list(faults), threading.Lock()

    def plan(number: int, asked: str, path: str) -> Fault:
        del number, path
        with lock:
            return left.pop(0) if asked == method and left else "pass"

    return plan


class FaultProxy:
    """A proxy between a client and a server; `plan` says what goes wrong."""

    def __init__(self, upstream: str, handler: type[_ProxyHandler] | None = None) -> None:
        self.upstream = upstream
        self.plan: Plan = lambda *_: "pass"
        self.delay_s = 0.05
        self.seen: list[tuple[str, str, Fault]] = []
        self.held, self.let_go = threading.Event(), threading.Event()
        """A request is held; the test lets all of them go."""
        self._lock = threading.Lock()
        self._server = _ProxyServer(self, handler or _ProxyHandler)
        host, port = self._server.server_address[:2]
        self.endpoint = f"http://{host!s}:{port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach the server through the proxy."""
        return options_for(self.endpoint)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.close_connections()
        self._server.server_close()
        self._thread.join(10)

    def decide(self, method: str, path: str) -> Fault:
        """What happens to the request that has just come in."""
        with self._lock:
            fault = self.plan(len(self.seen), method, path)
            self.seen.append((method, path, fault))
            return fault


class _ProxyServer(ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy, handler: type[_ProxyHandler]) -> None:
        self.proxy = proxy
        self._open: set[socket.socket] = set()
        super().__init__((LOOPBACK, 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away is what the tests are about."""


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 15
    # An answer goes out at once: of two small packets the second waits 40 ms for word of the first.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _ProxyServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""

    def _handle(self) -> None:
        body = self._body()
        fault = self.server.proxy.decide(self.command, self.path)
        if fault in {"drop", "reset"}:
            return self._hang_up(reset=fault == "reset")
        if fault in {"500", "503", "429"}:
            return self._answer(int(fault), [], b"<Error><Code>Planned</Code></Error>")
        if fault == "hold":
            self.server.proxy.held.set()
            self.server.proxy.let_go.wait(60)
        if fault == "delay":
            threading.Event().wait(self.server.proxy.delay_s)
        status, headers, data = self._forward(body)
        if fault == "lose-answer":
            return self._hang_up(reset=False)
        if fault == "500-after":
            return self._answer(500, [], b"<Error><Code>Planned</Code></Error>")
        if fault == "stale-list":
            data = _without_newest(data)
        return self._answer(status, headers, data, cut=fault == "cut")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _handle  # noqa: N815 - the base's names

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = self._upstream
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                if name.lower() not in {"connection", "keep-alive", "transfer-encoding"}:
                    connection.putheader(name, value)
            if "Content-Length" not in self.headers and body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        except BaseException:
            connection.close()
            raise

    @cached_property
    def _upstream(self) -> http.client.HTTPConnection:
        """The connection to the server; as long as the client keeps its own, it stays open."""
        upstream = urlsplit(self.server.proxy.upstream)
        return http.client.HTTPConnection(str(upstream.hostname), upstream.port, timeout=15)

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self._upstream.close()

    def _answer(
        self, status: int, headers: list[tuple[str, str]], data: bytes, *, cut: bool = False
    ) -> None:
        self.send_response_only(status)
        length = str(len(data))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            elif name.lower() not in {"connection", "content-length", "transfer-encoding"}:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        self.wfile.flush()
        if cut:
            self._hang_up(reset=False)

    def _hang_up(self, *, reset: bool) -> None:
        self.close_connection = True
        with suppress(OSError):
            if reset:
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            else:
                self.connection.shutdown(socket.SHUT_RDWR)


def _without_newest(listed: bytes) -> bytes:
    """A list of objects as it was before the last of them was written."""
    found = re.findall(rb"<Contents>.*?</Contents>", listed, re.DOTALL)
    times = [re.findall(rb"<LastModified>(.*?)<", one)[0] for one in found]
    newest = max(zip(times, found, strict=True), default=(b"", b""))[1]
    return listed.replace(newest, b"", 1) if newest else listed
