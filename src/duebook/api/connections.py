"""The connections of a server: strict HTTP/1.1, with limits on size, time and number.

A client that sends half a request, a byte a second, or nothing, is rejected, and is closed to make
room when there are too many. Sits between the sockets and the app; limits.py defines the limits.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections import Counter
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from duebook.api.gate import SECURITY_HEADERS
from duebook.api.limits import WAITING, Limits, Stage
from duebook.api.problems import MEDIA_TYPE, RETRY_AFTER, Problem

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from starlette.types import ASGIApp
    from uvicorn.server import ServerState

__all__ = ["Connection", "Connections", "HttpConfig"]

log = logging.getLogger(__name__)

TELL_EVERY: Final = 60.0
"""Seconds between two log messages about connections that were closed to make room."""
_TARGET: Final = re.compile(rb"/[\x21\x22\x24-\x7e]*")
"""A path and a query; not the forms for proxies, and no fragment."""

CROWDED: Final = Problem(
    503,
    "crowded",
    "the server has too many connections; try again in a few seconds",
    headers={"Retry-After": RETRY_AFTER},
)


class _Refused(Exception):
    """Leaves the parser with the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class Connections:
    """The open connections; chooses which ones to close. Used only by the event loop's thread."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self.counts: Counter[str] = Counter()
        """how many were rejected or closed, by reason"""
        self._open: dict[Connection, None] = {}
        self._refused: set[Connection] = set()
        self._looked_at = self._told_at = -TELL_EVERY

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Accept a connection, if necessary by closing those that have waited longest for their
        clients; False if all of them are being answered."""
        if len(self._open) >= self.limits.connections:
            self._make_room()
        if len(self._open) < self.limits.connections:
            self._open[connection] = None
            return True
        self._log_closed()
        if len(self._refused) < self.limits.told:
            self._refused.add(connection)
        else:
            connection.drop(CROWDED.code)
        return False

    def discard(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self._refused.discard(connection)

    def _make_room(self) -> None:
        """Close idle ones first, then those of the address with the most connections, oldest first,
        so that a new one has time to send its request."""
        waiting = [one for one in self._open if one.stage in WAITING]
        number = Counter(one.address for one in waiting)
        some = nsmallest(
            1 + self.limits.connections // 32,
            waiting,
            key=lambda one: (one.stage is not Stage.IDLE, -number[one.address], one.since),
        )
        for one in some:
            self.discard(one)
            one.make_way()
        if some:
            self._log_closed()

    def _log_closed(self) -> None:
        now = self.clock()
        if now - self._told_at >= TELL_EVERY:
            self._told_at = now
            log.warning(
                "there are %d connections, as many as max_connections allows; closing those that "
                "wait for their clients to make room",
                self.limits.connections,
            )

    def look(self) -> None:
        """Close connections that exceed their time; called often, but checks only at intervals."""
        now = self.clock()
        if now - self._looked_at < self.limits.look_every:
            return
        self._looked_at = now
        for one in [*self._open, *self._refused]:
            one.look(now)


class HttpConfig(Config):
    """The configuration of uvicorn, with the connections of its server."""

    def __init__(self, app: ASGIApp, connections: Connections, **options: Any) -> None:
        self.all_connections = connections
        super().__init__(
            app,
            http=Connection,
            timeout_keep_alive=int(connections.limits.idle_for) + 1,  # backs up our own checks
            backlog=connections.limits.accepted_at_once,
            **options,
        )


class Connection(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: HttpConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = config.all_connections
        self._limits = self._all.limits
        self._reading = Stage.HEAD
        """HEAD, BODY, or IDLE between two requests"""
        self.since = self._all.clock()
        """when its current stage started"""
        self._crowded = False
        self._ending = False
        self._deaf = False
        """whether to ignore what arrives, because the last request has been read"""
        self._fresh = True
        self._head = 0
        self._raw = 0
        self._body = 0
        self._stuck_since: float | None = None

    @property
    def stage(self) -> Stage:
        if self._ending:
            return Stage.ENDING
        if self._reading is Stage.HEAD:
            return Stage.HEAD
        if self._reading is Stage.BODY:
            return Stage.REST if self.cycle.response_complete else Stage.BODY
        if not self._is_answering:
            return Stage.IDLE
        return Stage.UNREAD if self.flow.write_paused else Stage.ANSWER

    @property
    def address(self) -> str | None:
        """The client's address."""
        return self.client[0] if self.client else None

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    # events of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._crowded = not self._all.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.discard(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self._crowded and not self._ending:
            self._refuse(CROWDED)
        if self._ending or self._deaf:
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:
            self._hear_no_more()
        except HttpParserError as error:
            self._refuse(_problem_of(error))
        else:
            self._count(len(data))

    def _count(self, size: int) -> None:
        """Count bytes that arrived without completing anything; a read that also completes
        something is not counted, but there is only one of those."""
        self._raw = 0 if self._fresh else self._raw + size
        self._fresh = False
        stage = self.stage
        if stage in (Stage.HEAD, Stage.IDLE) and self._raw > self._limits.head:
            self._refuse(self._too_large_head())
        elif stage is Stage.REST and self._body > self._limits.rest:
            self.drop(stage.value)
        elif stage is Stage.BODY and self._raw > 9 * self._body + self._limits.framing:
            self._refuse(_malformed("the chunks of the body are too small"))

    # events of the parser

    def on_message_begin(self) -> None:
        self._begin(Stage.HEAD)
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        if self._head > self._limits.target:
            raise _Refused(
                Problem(
                    414,
                    "too_large",
                    f"the path and query are limited to {self._limits.target:,} bytes; send less",
                )
            )
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading is not Stage.HEAD:
            return  # a trailer after a chunked body, which the app must not see
        self._head += len(name) + len(value)
        if self._head > self._limits.head or len(self.headers) >= self._limits.headers:
            raise _Refused(self._too_large_head())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._limits.pipelined:
            raise _Refused(_malformed("too many requests were sent before the first response"))
        if wrong := _mistake(self.parser.get_http_version(), self.url, self.headers):
            raise _Refused(_malformed(wrong))
        self._begin(Stage.BODY)
        self._body = 0
        super().on_headers_complete()
        if self.parser.should_upgrade():  # to an unsupported protocol: respond over HTTP
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._begin(Stage.IDLE)
        super().on_message_complete()

    def _begin(self, reading: Stage) -> None:
        self._reading = reading
        self.since = self._all.clock()
        self._fresh = True

    def on_response_complete(self) -> None:
        unsent = self._reading is Stage.BODY and self.expect_100_continue and not self._body
        self.since = self._all.clock()
        self._body = self._raw = 0
        super().on_response_complete()
        if unsent:  # a client that waited for 100 Continue sends its next request, not this body
            self.transport.close()

    # closing

    def look(self, now: float) -> None:
        """Close it if it takes too long."""
        if self._is_stuck(now):
            self.drop(Stage.UNREAD.value)
            return
        if self._crowded and now - self.since > self._limits.linger:
            self.drop(CROWDED.code)
            return
        stage = self.stage
        if self.flow.read_paused and not self._ending:
            self.since = now  # it is waiting for the server
            return
        most = self._limits.time_in(stage, self._body)
        if most is not None and now - self.since > most:
            self._end_late(stage)

    def _is_stuck(self, now: float) -> bool:
        """Whether its client has not read any of a response for long."""
        if not self.flow.write_paused and not self.transport.is_closing():
            self._stuck_since = None
            return False
        if self._stuck_since is None:
            self._stuck_since = now
        return now - self._stuck_since > self._limits.write_within

    def _end_late(self, stage: Stage) -> None:
        if self._is_silent(stage):
            self._all.counts["silent"] += 1
            self.transport.close()
        elif stage in (Stage.HEAD, Stage.BODY):
            most = self._limits.time_in(stage) or 0
            self._refuse(
                Problem(
                    408,
                    "too_slow",
                    f"the {stage.value} of the request did not arrive within {most:g} s",
                )
            )
        else:
            self.drop(stage.value)

    def _is_silent(self, stage: Stage) -> bool:
        """Whether its client has not sent anything to respond to: it would match a response to its
        next request."""
        return stage is Stage.IDLE or (stage is Stage.HEAD and self.scope is None)

    def make_way(self) -> None:
        """Close it to make room while it waits for its client."""
        if self._is_silent(self.stage):
            self.drop(CROWDED.code)
        else:
            self._refuse(CROWDED, linger=False)

    def drop(self, reason: str) -> None:
        """Close it without a response."""
        if not self._ending:
            self._all.counts[reason] += 1
        self._ending = True
        self.transport.abort()

    def _hear_no_more(self) -> None:
        """Read no more requests, and close it after the current response."""
        self._deaf = True
        self._reading = Stage.IDLE
        self.cycle.keep_alive = False

    def _refuse(self, problem: Problem, linger: bool = True) -> None:
        """Respond to the request that is being read, and close the connection."""
        if not self._is_answerable:
            self.drop(problem.code)
            return
        self._all.counts[problem.code] += 1
        if self._is_answering and self._reading is not Stage.BODY:  # to the previous request
            self._hear_no_more()
            return
        self._ending = True
        self.since = self._all.clock()
        if self._is_answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write(_answer(problem))
        if linger:  # closing would discard the response if the client is still sending
            self.transport.write_eof()
        elif self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    @property
    def _is_answerable(self) -> bool:
        """Whether the client would match a response sent now to the request that is being read."""
        if self.pipeline or self.stage in (Stage.REST, Stage.UNREAD):
            return False
        return not (self._reading is Stage.BODY and self.cycle.response_started)

    def _too_large_head(self) -> Problem:
        limits = self._limits
        return Problem(
            431,
            "too_large",
            f"a request has at most {limits.headers} headers, and {limits.head:,} bytes before its "
            "body; send less",
        )


def _mistake(version: str, target: bytes, headers: list[tuple[bytes, bytes]]) -> str | None:
    """What is wrong with a request that the parser accepts."""
    names = Counter(name for name, _ in headers)
    if version not in ("1.0", "1.1"):
        return "the version is not HTTP/1.0 or HTTP/1.1"
    if _TARGET.fullmatch(target) is None:
        return "the request target is not a path"
    if names[b"host"] != 1 and (names[b"host"] or version == "1.1"):
        return "the request needs exactly one Host header"
    if names[b"transfer-encoding"]:
        codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
        if codings != [b"chunked"] or version == "1.0":
            return "the only supported Transfer-Encoding is chunked, in HTTP/1.1"
    return None


def _malformed(detail: str) -> Problem:
    return Problem(400, "malformed", f"the request is not valid HTTP/1.1: {detail}")


def _problem_of(error: HttpParserError) -> Problem:
    cause = error.__context__
    if isinstance(cause, _Refused):
        return cause.problem
    return _malformed(str(error) if cause is None else "its first line cannot be read")


def _answer(problem: Problem) -> bytes:
    content = json.dumps(problem.form()).encode()
    headers = SECURITY_HEADERS | {
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(content)),
        "Connection": "close",
        **problem.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return STATUS_LINE[problem.status] + lines.encode() + b"\r\n" + content
