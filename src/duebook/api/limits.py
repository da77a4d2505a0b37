"""Limits of connections, in number, size and time: defined here, enforced by connections.py. Uses
no sockets."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from duebook.descriptors import allow_descriptors
from duebook.lazy_dataclasses import dataclass

__all__ = ["WAITING", "Limits", "Stage", "limits_for"]

log = logging.getLogger(__name__)

CONNECTIONS: Final = 1_000
"""How many may be open at once, unless the settings change it."""
ACCEPTED_AT_ONCE: Final = 16
"""Connections that the event loop accepts at most before it serves the existing ones."""
RESERVED: Final = 256 + 3 * ACCEPTED_AT_ONCE
"""Descriptors for everything else: the database from forty threads, files, and connections that
are accepted but not yet counted."""


class Stage(Enum):
    """What a connection is doing."""

    IDLE = "idle"
    """between two requests"""
    HEAD = "head"
    """receiving the first line and the headers of a request"""
    BODY = "body"
    """receiving its body"""
    ANSWER = "answer"
    """its request is being executed"""
    UNREAD = "unread"
    """its client does not read the response"""
    REST = "rest"
    """the response was sent, and the rest of the body is discarded"""
    ENDING = "ending"
    """it was rejected; whatever still arrives is discarded"""


WAITING: Final = frozenset(Stage) - {Stage.ANSWER, Stage.ENDING}
"""Stages in which a connection waits for its client."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server; sizes in bytes, times in seconds."""

    connections: int = CONNECTIONS
    told: int = 64
    """connections beyond the limit that get an error response; more are just closed"""
    target: int = 8 * 1024
    """of the path and query"""
    head: int = 16 * 1024
    """of the first line and all headers"""
    headers: int = 100
    pipelined: int = 16
    """requests of one connection that wait for the previous one"""
    head_within: float = 10.0
    body_within: float = 20.0
    body_rate: int = 10_000
    """bytes that must arrive for each additional second that a body takes"""
    framing: int = 64 * 1024
    """bytes around the chunks of a body, besides eight for each of its bytes"""
    idle_for: float = 10.0
    rest_within: float = 5.0
    rest: int = 16 * 1024 * 1024
    """of a body, arriving after the response"""
    write_within: float = 30.0
    """if a client reads nothing of its response"""
    linger: float = 2.0
    """that a rejected client has to read the response"""
    look_every: float = 0.5

    @property
    def accepted_at_once(self) -> int:
        """Low enough that no connection is closed to make room before its request is read: the
        event loop takes three rounds until it reads from a new connection."""
        return max(1, min(ACCEPTED_AT_ONCE, self.connections // 8))

    def time_in(self, stage: Stage, body: int = 0) -> float | None:
        """How long a connection may be in a stage, after `body` bytes of its request's body; None:
        as long as the response takes, while its client reads (`write_within`)."""
        match stage:
            case Stage.IDLE:
                return self.idle_for
            case Stage.HEAD:
                return self.head_within
            case Stage.BODY:
                return self.body_within + body / self.body_rate
            case Stage.REST:
                return self.rest_within
            case Stage.ENDING:
                return self.linger
            case Stage.ANSWER | Stage.UNREAD:
                return None


def limits_for(connections: str) -> Limits:
    """The limits of a server in this process; `connections` is the setting.

    Requests as many descriptors as that takes. If the machine does not allow them, there are fewer
    connections, so that descriptors remain for everything else.
    """
    wanted = int(connections) if connections else CONNECTIONS
    allowed = allow_descriptors(wanted + RESERVED)
    possible = max(allowed - RESERVED, allowed // 4)
    if possible < wanted:
        log.warning(
            "accepting %d connections at once instead of %d: this process may have only %d "
            "descriptors; raise `ulimit -n`",
            possible,
            wanted,
            allowed,
        )
    return Limits(min(wanted, possible))
