"""A server on 127.0.0.1 for tests: does as the path says, and remembers what it was asked."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import trustme


@cache
def authority() -> trustme.CA:
    """Who signs the certificates of this process's servers."""
    return trustme.CA()


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """What it was asked, and what it waits for; closed by whoever opened it."""

    secure: bool = False
    asked: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)
    """a client that was kept waiting has gone"""
    statuses: list[int] = field(default_factory=list)
    """for /next, one after the other"""

    def __post_init__(self) -> None:
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.server = self
        if self.secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            names = ("localhost", "hook.test", "127.0.0.1")
            authority().issue_cert(*names).configure_cert(context)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{path}"

    def close(self) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    server: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that break off are what is tested."""


class _Handler(BaseHTTPRequestHandler):
    def handle_one_request(self) -> None:
        with suppress(OSError):
            super().handle_one_request()

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def _work(self) -> None:
        ours = cast("_Http", self.server).server
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size).decode()
        ours.asked.append(Asked(self.command, self.path, dict(self.headers.items()), body))
        parts = urlsplit(self.path)
        word, _, rest = parts.path.strip("/").partition("/")
        work = getattr(self, f"_{word or 'ok'}", None)
        if work is None:
            self._answer(404, b"there is no such thing\n")
        else:
            work(ours, rest, parse_qs(parts.query))

    do_GET = do_POST = do_PUT = do_HEAD = do_PATCH = do_DELETE = _work  # noqa: N815

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _ok(self, *_: Any) -> None:
        self._answer(200, b"fine\n")

    def _ref(self, _: Server, size: str, query: dict[str, list[str]]) -> None:
        ref = query["to"][0] if "to" in query else "x" * int(size)
        self._answer(201, b"", Duebook_Output_Ref=ref)

    def _status(self, _: Server, code: str, __: Any) -> None:
        self._answer(int(code), f"this is {code}\n".encode())

    def _next(self, ours: Server, *_: Any) -> None:
        self._answer(ours.statuses.pop(0), b"")

    def _echo(self, ours: Server, *_: Any) -> None:
        self._answer(200, json.dumps(ours.asked[-1].headers).encode())

    def _typed(self, ours: Server, kind: str, _: Any) -> None:
        """What it was sent, as a type of content."""
        self._answer(200, ours.asked[-1].body.encode(), Content_Type=kind)

    def _western(self, *_: Any) -> None:
        self._answer(200, "café".encode("latin-1"), Content_Type='text/plain; charset="ISO-8859-1"')

    def _redirect(self, _: Server, code: str, query: dict[str, list[str]]) -> None:
        self._answer(int(code), b"", Location=query["to"][0])

    def _again(self, *_: Any) -> None:
        self._answer(302, b"", Location="/again")

    def _huge(self, *_: Any) -> None:
        self.send_response(200)
        self.end_headers()
        while True:  # until the client goes
            self.wfile.write(b"x" * 65_536)

    def _binary(self, *_: Any) -> None:
        self._answer(200, b"\x00\x01\x02")

    def _gzip(self, *_: Any) -> None:
        self._answer(200, gzip.compress(b"x" * 10_000_000), Content_Encoding="gzip")

    def _hold(self, ours: Server, *_: Any) -> None:
        """Say nothing until released, or until the client goes."""
        self.connection.settimeout(0.01)
        while not ours.released.is_set():
            with suppress(TimeoutError):
                if self.connection.recv(1) == b"":
                    ours.gone.set()
                    return
        self._answer(200, b"at last\n")

    def _flood(self, ours: Server, *_: Any) -> None:
        """Always something, and never an answer."""
        try:
            while not ours.released.is_set():
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        except OSError:
            ours.gone.set()

    def _garbage(self, *_: Any) -> None:
        self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")

    def _cut(self, *_: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"short")

    def _escapes(self, *_: Any) -> None:
        self._answer(200, b"\x1b[31mred <img onerror=x>\n")
