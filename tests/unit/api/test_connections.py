"""Connections on a virtual clock, with a transport that only remembers: what is refused, when, and
who makes way for whom."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from uvicorn.server import ServerState

from duebook.api.connections import Connection, Connections, HttpConfig
from duebook.api.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

HOST = b"Host: localhost\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
LIMITS = Limits(connections=4, told=1, idle_for=5, head_within=10, body_within=20, body_rate=10)


class Wire(asyncio.Transport):
    """What a client sees."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.sent = b""
        self.unread = 0
        self.closed = self.aborted = self.ended = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.address, 1) if name in ("peername", "sockname") else default

    def write(self, data: Any) -> None:
        self.sent += data

    def write_eof(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return self.unread

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def statuses(self) -> list[int]:
        return [int(number) for number in re.findall(rb"^HTTP/1.1 (\d+) ", self.sent, re.MULTILINE)]

    @property
    def problem(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.sent.rpartition(b"\r\n\r\n")[2])
        return found


class World:
    """A server without sockets, whose clock stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 0.0
        self.loop = asyncio.new_event_loop()
        self.go = asyncio.Event()
        self.open: list[tuple[Connection, Wire]] = []
        self.read: list[bytes] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.all = Connections(LIMITS, lambda: self.now)
        self.config = HttpConfig(
            self._app,
            self.all,
            interface="asgi3",
            log_config=None,
            ws="none",
        )

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the body unless the path is /early, and answers; /wait only when it may go."""
        if scope["path"] != "/early":
            more, body = True, b""
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                more, body = message["more_body"], body + message["body"]
            self.read.append(body)
        if scope["path"] == "/wait":
            await self.go.wait()
        self.headers.append(list(scope["headers"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    def connect(self, *data: bytes, address: str = "127.0.0.1") -> tuple[Connection, Wire]:
        wire = Wire(address)
        connection = Connection(self.config, ServerState(), {}, self.loop)
        connection.connection_made(wire)
        self.open.append((connection, wire))
        for some in data:
            self.send(connection, some)
        return connection, wire

    def send(self, connection: Connection, data: bytes) -> None:
        if any(connection is one for one, _ in self.open):
            connection.data_received(data)
            self.settle()

    def settle(self) -> None:
        """Let everything happen that can, as the event loop would."""
        for _ in range(10):
            self.loop.run_until_complete(asyncio.sleep(0))
        for connection, wire in list(self.open):
            if wire.closed:
                self.open.remove((connection, wire))
                connection.connection_lost(None)

    def end(self) -> None:
        for _, wire in self.open:
            wire.abort()
        self.go.set()
        self.settle()
        self.settle()
        self.loop.close()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.all.look()
        self.settle()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.end()


MALFORMED = {
    "a length and chunks": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": POST
    + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "a list of lengths": POST + b"Content-Length: 1, 1\r\n\r\nx",
    "a length with a sign": POST + b"Content-Length: +1\r\n\r\nx",
    "a length that is too long": POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nx",
    "a bare LF after the first line": b"GET / HTTP/1.1\nHost: localhost\r\n\r\n",
    "a bare LF after a header": b"GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    "a bare LF after the headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n\n",
    "a bare CR": b"GET / HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n",
    "a bare LF after the size of a chunk": POST
    + b"Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
    "a bare LF after a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\n0\r\n\r\n",
    "a bare LF in an extension": POST
    + b"Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n",
    "a size with a space": POST + b"Transfer-Encoding: chunked\r\n\r\n1 \r\nx\r\n0\r\n\r\n",
    "a size with 0x": POST + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
    "another coding": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "two codings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": POST
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
    "a NUL": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\n" + HOST + b"Host: other\r\n\r\n",
    "a whole address": b"GET http://localhost/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel": b"CONNECT localhost:1 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("pieces", [False, True], ids=["whole", "byte by byte"])
def test_what_another_server_might_read_differently_is_refused(
    world: World, data: bytes, pieces: bool
) -> None:
    parts = [data[n : n + 1] for n in range(len(data))] if pieces else [data]
    connection, wire = world.connect(*parts)
    assert wire.statuses == [400]
    assert wire.problem["code"] == "malformed"
    assert b"application/problem+json" in wire.sent
    assert world.headers == []
    assert wire.ended
    world.send(connection, GET)
    assert wire.statuses == [400]  # nothing after it is read


def test_requests_one_after_the_other_and_at_once_are_answered(world: World) -> None:
    chunks = POST + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n"
    connection, wire = world.connect(GET, chunks, POST + b"Content-Length: 2\r\n\r\nde")
    assert world.read == [b"", b"abc", b"de"]
    world.send(connection, GET * 3)
    assert wire.statuses == [200] * 6
    assert not wire.closed


def test_headers_after_a_body_are_not_seen(world: World) -> None:
    _, wire = world.connect(
        POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nCookie: duebook_session=x\r\n\r\n"
    )
    assert wire.statuses == [200]
    assert [name for name, _ in world.headers[0]] == [b"host", b"transfer-encoding"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 17_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 120 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 100_000, 431),
        (b"\r\n" * 20_000, 431),
    ],
    ids=["target", "header", "many headers", "a header without end", "empty lines"],
)
def test_a_head_that_is_too_large_is_refused(world: World, data: bytes, status: int) -> None:
    _, wire = world.connect(*(data[n : n + 4_000] for n in range(0, len(data), 4_000)))
    assert wire.statuses == [status]
    assert wire.problem["code"] == "too_large"


def test_chunks_that_are_nearly_all_frame_are_refused(world: World) -> None:
    connection, wire = world.connect(POST + b"Transfer-Encoding: chunked\r\n\r\n1;")
    for _ in range(20):
        world.send(connection, b"a" * 4_000)
    assert wire.statuses == [400]


def test_half_a_request_has_ten_seconds_whatever_trickles_in(world: World) -> None:
    connection, wire = world.connect(b"GET / HTTP/1.1\r\n")
    for _ in range(10):
        world.wait(1)
        world.send(connection, b"X: y\r\n")
    assert wire.sent == b""
    world.wait(1)
    assert wire.statuses == [408]
    assert wire.problem["code"] == "too_slow"
    assert wire.ended
    assert not wire.closed  # the client may still read that
    world.wait(3)
    assert wire.aborted


def test_a_byte_a_second_is_not_enough_for_a_body(world: World) -> None:
    connection, wire = world.connect(POST + b"Content-Length: 1000\r\n\r\n")
    seconds = 0
    while not wire.sent:
        seconds += 1
        world.send(connection, b"x")
        world.wait(1)
    assert wire.statuses == [408]
    assert 20 < seconds < 25
    assert world.read == []


def test_a_body_that_arrives_steadily_may_take_longer(world: World) -> None:
    connection, wire = world.connect(POST + b"Content-Length: 4000\r\n\r\n")
    for _ in range(40):
        world.send(connection, b"x" * 100)
        world.wait(1)
    assert wire.statuses == [200]
    assert len(world.read[0]) == 4_000


@pytest.mark.parametrize("sent", [(), (GET,), (GET, b"\r\n")], ids=["new", "used", "empty line"])
def test_a_connection_that_says_nothing_is_closed_without_a_word(
    world: World, sent: tuple[bytes, ...]
) -> None:
    """An answer would be taken for that to the next request."""
    _, wire = world.connect(*sent)
    before = wire.sent
    world.wait(11)
    assert wire.closed
    assert wire.sent == before


def test_the_rest_of_a_body_after_its_answer_is_thrown_away_for_a_while(world: World) -> None:
    early = b"POST /early HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n12345"
    connection, wire = world.connect(early)
    assert wire.statuses == [200]
    world.send(connection, b"67890" + GET)
    assert wire.statuses == [200, 200]
    connection, wire = world.connect(early)
    world.wait(6)
    assert wire.aborted


def test_a_client_that_was_not_asked_for_its_body_is_not_waited_for(world: World) -> None:
    _, wire = world.connect(
        b"POST /early HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"
    )
    assert wire.statuses == [200]
    assert wire.closed


def test_a_client_that_does_not_read_is_dropped(world: World) -> None:
    connection, wire = world.connect(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n")
    connection.pause_writing()
    world.wait(1)
    world.wait(29)
    assert not wire.aborted
    world.wait(2)
    assert wire.aborted


def test_an_answer_takes_as_long_as_it_takes(world: World) -> None:
    _, wire = world.connect(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n")
    world.wait(10_000)
    assert not wire.closed
    world.go.set()
    world.settle()
    assert wire.statuses == [200]


def test_nonsense_after_a_request_does_not_answer_it(world: World) -> None:
    connection, wire = world.connect(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n", b"nonsense\r\n")
    assert wire.sent == b""
    world.send(connection, GET)
    world.go.set()
    world.settle()
    assert wire.statuses == [200]
    assert wire.closed


def test_a_thousand_requests_at_once_on_one_connection_are_dropped(world: World) -> None:
    _, wire = world.connect(GET * 1_000)
    assert wire.aborted


def test_a_request_to_upgrade_is_answered_as_it_is_and_is_the_last(world: World) -> None:
    upgrade = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    connection, wire = world.connect(upgrade)
    assert wire.statuses == [200]
    assert wire.closed
    world.send(connection, GET)
    assert wire.statuses == [200]


def test_who_waits_for_its_client_longest_makes_way(world: World) -> None:
    half, answered = world.connect(b"GET / HT")[1], world.connect(GET)[1]
    world.now += 1
    body = world.connect(POST + b"Content-Length: 10\r\n\r\n")[1]
    at_work = world.connect(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n")[1]
    assert not any(wire.closed for wire in (half, answered, body, at_work))
    assert world.connect(GET)[1].statuses == [200]
    assert answered.closed
    assert answered.statuses == [200]  # it was idle, and hears nothing
    for _ in range(4):
        world.now += 1
        assert world.connect(b"GET / HT")[1].sent == b""
    assert half.statuses == [503]
    assert b"Retry-After: 5" in half.sent
    assert half.closed
    assert not at_work.closed
    assert len(world.all) == 4


def test_bodies_on_their_way_do_not_keep_new_ones_out(world: World) -> None:
    half = POST + b"Content-Length: 10\r\n\r\n"
    bodies = [world.connect(half)[1] for _ in range(4)]
    connection, wire = world.connect()
    world.now += 1
    bodies += [world.connect(half)[1] for _ in range(2)]
    world.send(connection, GET)
    assert wire.statuses == [200]
    assert [body.statuses for body in bodies] == [[503]] * 3 + [[]] * 3


def test_the_address_with_most_connections_makes_way_first(world: World) -> None:
    body = world.connect(POST + b"Content-Length: 10\r\n\r\n", address="10.0.0.1")[1]
    world.now += 1
    for _ in range(10):
        world.connect(b"GET / HT", address="10.0.0.2")
    assert not body.closed


def test_when_all_are_being_answered_others_are_closed(world: World) -> None:
    at_work = [world.connect(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n")[1] for _ in range(4)]
    silent, more = world.connect()[1], world.connect(GET)[1]
    assert more.aborted  # only one at a time hears why
    assert more.sent == b""
    world.wait(3)
    assert silent.aborted
    assert silent.sent == b""
    assert not any(wire.closed for wire in at_work)


def test_one_that_is_too_many_hears_so_when_it_asks(world: World) -> None:
    for _ in range(4):
        world.connect(b"GET /wait HTTP/1.1\r\n" + HOST + b"\r\n")
    _, wire = world.connect(GET)
    assert wire.statuses == [503]
    assert wire.problem["code"] == "crowded"
    assert b"Retry-After: 5" in wire.sent


def test_an_evicted_client_that_does_not_read_is_not_waited_for(world: World) -> None:
    first = world.connect(b"GET / HT")[1]
    first.unread = 100
    for _ in range(4):
        world.connect(b"GET / HT")
    assert first.aborted


def test_a_lost_connection_makes_room(world: World) -> None:
    _, wire = world.connect(GET)
    assert len(world.all) == 1
    wire.close()
    world.settle()
    assert len(world.all) == 0
