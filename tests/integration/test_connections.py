"""Connections of a real server: hostile ones are refused, and neither readers nor runs suffer."""

from __future__ import annotations

import json
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from duebook.api.authenticator import BookAuthenticator
from duebook.api.limits import Limits
from duebook.api.server import Server, bind
from duebook.store.sqlite import SqliteStore
from duebook.web.site import create_site
from tests.attack import connections
from tests.support.node_checks import door
from tests.support.nodes import World, world
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["world"]  # the fixture

LIMITS = Limits(connections=32, idle_for=0.5, look_every=0.05)
IMPATIENT = Limits(head_within=2, body_within=2, look_every=0.05)


@contextmanager
def serve(folder: Path, limits: Limits) -> Iterator[tuple[str, Server]]:
    """The site on a port."""
    store = SqliteStore(folder / "books.db")
    place = bind("127.0.0.1", 0)
    with Server(create_site(store, BookAuthenticator(store)), place, limits) as server:
        server.start()
        yield place.address, server
    store.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Server]]:
    with serve(tmp_path_factory.mktemp("connections"), LIMITS) as found:
        yield found


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(tmp_path_factory.mktemp("impatient"), IMPATIENT) as (url, _):
        yield url


@pytest.mark.parametrize("name", connections.ATTACKS)
def test_a_request_that_is_malformed_or_too_large_is_refused(
    served: tuple[str, Server], name: str
) -> None:
    data, status = connections.ATTACKS[name]
    assert connections.send(served[0], data) == status


def hear(url: str, data: bytes) -> bytes:
    """All that the server says until it closes the connection."""
    host, port = url.removeprefix("http://").split(":")
    heard = b""
    with socket.create_connection((host, int(port)), PATIENCE) as client:
        client.sendall(data)
        while more := client.recv(65_536):
            heard += more
    return heard


@pytest.mark.parametrize(
    "data",
    [b"GET /healthz HTTP/1.1\r\nHo", connections.LOGIN + b"Content-Length: 100\r\n\r\ntoken="],
    ids=["head", "body"],
)
def test_half_a_request_is_refused_in_time_with_problem_details(
    impatient: str, data: bytes
) -> None:
    head, _, body = hear(impatient, data).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"Content-Type: application/problem+json" in head
    assert b"X-Content-Type-Options: nosniff" in head
    assert json.loads(body)["code"] == "too_slow"


def test_a_connection_that_is_idle_is_closed(impatient: str, served: tuple[str, Server]) -> None:
    assert hear(impatient, b"") == b""
    heard = hear(served[0], b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert len(re.findall(b"HTTP/1.1 ", heard)) == 1


def test_more_half_sent_requests_than_there_may_be_keep_nobody_out(
    served: tuple[str, Server],
) -> None:
    found = connections.half_sent(served[0], number=100, seconds=0.5)
    assert set(found["ended"]) <= {503, "closed"}
    assert sum(found["ended"].values()) >= 60
    assert served[1].refused["crowded"] >= 60


def test_half_sent_requests_leave_descriptors_for_readers_and_runs(world: World) -> None:
    world.add("job", "true", trigger={"cron": "* * * * * *"})
    shell = 'ulimit -n 256; exec "$0" "$@"'
    node = world._begin(["/bin/sh", "-c", shell, *world.cli_argv("up", "--port", "0")])
    with door(node) as api:
        assert api.get("/healthz").status_code == 200

        def ended() -> int:
            return len(api.get("/api/v1/runs", params={"status": "succeeded"}).json()["items"])

        eventually(lambda: ended() > 0)
        before = ended()
        found = connections.half_sent(str(api.base_url), number=300, seconds=1.0)
        assert sum(found["ended"].values()) >= 200
        eventually(lambda: ended() > before)
    assert "accepting 64 connections at once instead of 1000" in node.log
    assert "Too many open files" not in node.log
    assert node.end() == 0
