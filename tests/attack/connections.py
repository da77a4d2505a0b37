"""Clients without a token that send half a request, a byte now and then, or nonsense: each is
refused soon, others are served meanwhile, and the node is on time."""

from __future__ import annotations

import re
import socket
import statistics
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["ATTACKS", "LOGIN", "half_sent", "refusals", "run", "send"]

NUMBER: Final = 1_300
"""Half-sent requests that once left no descriptor for anything else."""
SECONDS: Final = 30.0
PROMPT: Final = 0.02
"""Seconds in which a client that is not stalled connects and sends its request."""
SILENT: Final = 60.0
"""Seconds after which a server counts as silent."""
HOST: Final = b"Host: localhost\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
EMPTY: Final = b"\r\n"
FORM: Final = b"Content-Type: application/x-www-form-urlencoded\r\n"
LOGIN: Final = b"POST /login HTTP/1.1\r\n" + HOST + FORM

ATTACKS: Final[Mapping[str, tuple[bytes, int]]] = {
    "a length and chunks": (LOGIN + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n", 400),
    "two lengths": (LOGIN + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
    "bare LF": (b"GET /healthz HTTP/1.1\nHost: localhost\n\n", 400),
    "a bare LF after a chunk": (LOGIN + CHUNKED + b"\r\n1\r\nx\n0\r\n\r\n", 400),
    "a folded header": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400),
    "two Hosts": (b"GET /healthz HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "a long target": (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "a long header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 100_000 + b"\r\n\r\n", 431),
    "a header without end": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 3_000_000, 431),
    "many headers": (b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 10_000, 431),
    "an extension without end": (LOGIN + CHUNKED + b"\r\n1;" + b"x" * 3_000_000, 400),
    "a large form": (LOGIN + b"Content-Length: 5500000\r\n\r\n" + b"%ff" * 1_833_333, 413),
    "a large form in chunks": (
        LOGIN + CHUNKED + b"\r\n" + (b"8000\r\n" + b"%" * 32_768 + b"\r\n") * 150,
        413,
    ),
    "a cookie of escapes": (
        b'GET /api/v1/me HTTP/1.1\r\n%sCookie: duebook_session="%s"\r\n\r\n'
        % (HOST, b'\\"' * 7_000),
        401,
    ),
}
"""Name -> what is sent, and the status that refuses it."""


def send(url: str, data: bytes) -> int | str:
    """The status that the server answers to this, or "closed" when it says nothing."""
    with _connect(url) as client:
        with suppress(OSError):  # it refuses before it has read all
            client.sendall(data)
        return _status(client)


def refusals(url: str) -> dict[str, int | str]:
    """Send each of ATTACKS; fails when one is answered otherwise."""
    found = {name: send(url, data) for name, (data, _) in ATTACKS.items()}
    wrong = {name: found[name] for name, (_, status) in ATTACKS.items() if found[name] != status}
    assert not wrong, wrong
    return found


def half_sent(
    url: str, number: int = NUMBER, seconds: float = SECONDS, head: bytes = b""
) -> dict[str, Any]:
    """Keep so many connections with half a request open for so long, a further byte on each every
    second, and open a new one for each that is closed; `head` is what they begin with."""
    begun = head or b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
    ends: Counter[int | str] = Counter()
    clients: list[socket.socket] = []
    over = time.monotonic() + seconds
    with _healthz(url) as times:
        try:
            while True:
                ends += _replace_closed(clients)
                clients += [_half(url, begun) for _ in range(number - len(clients))]
                ends += _trickle(clients, EMPTY if head.endswith(EMPTY) else b"x")
                if time.monotonic() >= over and len(times) >= 3:
                    break
                threading.Event().wait(min(1.0, seconds / 10))
        finally:
            for client in clients:
                client.close()
    return {"ended": dict(ends), **_times(times)}


def run(url: str, seconds: float = SECONDS, number: int = NUMBER) -> dict[str, str]:
    """All of it: malformed and large requests, then for so long each half-sent heads, half-sent
    forms, connections that say nothing, and those that were answered. Fails when `/healthz` does
    not answer meanwhile."""
    kinds = {
        "half-sent requests": b"",
        "half-sent forms": LOGIN + b"Content-Length: 4000\r\n\r\ntoken=",
        "silent connections": EMPTY,
        "idle connections": b"GET /healthz HTTP/1.1\r\n" + HOST + EMPTY,
    }
    found = {"malformed or large requests": f"{len(refusals(url))} refused"}
    for name, head in kinds.items():
        numbers = half_sent(url, number, seconds, head)
        ends = ", ".join(f"{count:,} with {end}" for end, count in numbers["ended"].items())
        found[f"{number:,} {name}"] = (
            f"the server ended {ends or 'none'}; healthz p99 {numbers['healthz_p99']:.3f} s, "
            f"slowest {numbers['healthz_slowest']:.3f} s"
        )
    return found


def _connect(url: str) -> socket.socket:
    place = urlsplit(url)
    return socket.create_connection((place.hostname, place.port), SILENT)


def _half(url: str, begun: bytes) -> socket.socket:
    client = _connect(url)
    with suppress(OSError):  # the next look finds it closed
        client.sendall(begun)
    client.setblocking(False)
    return client


def _replace_closed(clients: list[socket.socket]) -> Counter[int | str]:
    """Take out those that the server has ended; what each heard."""
    ends: Counter[int | str] = Counter()
    for client in list(clients):
        try:
            heard = client.recv(65_536)
        except BlockingIOError:
            continue
        except OSError:
            heard = b""
        if _read_status(heard) == 200:
            continue  # it may go on
        ends[_read_status(heard)] += 1
        client.close()
        clients.remove(client)
    return ends


def _trickle(clients: list[socket.socket], data: bytes) -> Counter[int | str]:
    for client in clients:
        with suppress(OSError):  # the next look finds it closed
            client.send(data)
    return _replace_closed(clients)


@contextmanager
def _healthz(url: str) -> Iterator[list[float]]:
    """Ask for it all the time, each time on a connection of its own; how long each took."""
    times: list[float] = []
    failures: list[str] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            began = time.monotonic()
            with _connect(url) as client:
                with suppress(OSError):
                    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                sent_after = time.monotonic() - began
                status = _status(client)
            if sent_after < PROMPT:  # otherwise this thread stood still, and was half-sent itself
                times.append(time.monotonic() - began)
                if status != 200:
                    failures.append(f"/healthz: {status}")
            over.wait(0.05)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()
    assert not failures, failures


def _times(times: list[float]) -> dict[str, float]:
    return {
        "healthz_p99": statistics.quantiles(times, n=100)[98] if len(times) > 1 else max(times),
        "healthz_slowest": max(times),
    }


def _status(client: socket.socket) -> int | str:
    heard = b""
    with suppress(OSError):
        while b"\r\n" not in heard and (more := client.recv(65_536)):
            heard += more
    return _read_status(heard)


def _read_status(heard: bytes) -> int | str:
    found = re.match(rb"HTTP/1.1 (\d+) ", heard)
    return int(found[1]) if found else "closed"
