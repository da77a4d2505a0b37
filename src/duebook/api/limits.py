"""How much a connection may take, and how many there may be: decided here, enforced by
connections.py. Knows no sockets."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from duebook.descriptors import allow_descriptors
from duebook.lazy_dataclasses import dataclass

__all__ = ["WAITING", "Limits", "Stage", "limits_for"]

log = logging.getLogger(__name__)

CONNECTIONS: Final = 1_000
"""That are open at once, unless the settings say otherwise."""
ACCEPTED_AT_ONCE: Final = 16
"""Connections at most that the event loop accepts before it looks after those that it has."""
RESERVED: Final = 256 + 3 * ACCEPTED_AT_ONCE
"""Descriptors for everything else: the database from forty threads, files, what is accepted and
not yet counted."""


class Stage(Enum):
    """What a connection is at."""

    IDLE = "idle"
    """between two requests"""
    HEAD = "head"
    """the first line and the headers of a request arrive"""
    BODY = "body"
    """its body arrives"""
    ANSWER = "answer"
    """it is answered"""
    UNREAD = "unread"
    """its client does not read the answer"""
    REST = "rest"
    """it is answered, and the rest of its body is thrown away"""
    ENDING = "ending"
    """it is refused; what still arrives is thrown away"""


WAITING: Final = frozenset(Stage) - {Stage.ANSWER, Stage.ENDING}
"""Stages in which a connection waits for its client."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a server; sizes in bytes, times in seconds."""

    connections: int = CONNECTIONS
    told: int = 64
    """connections beyond those that hear why they are refused; more are just closed"""
    target: int = 8 * 1024
    """of the path and query"""
    head: int = 16 * 1024
    """of the first line and all headers"""
    headers: int = 100
    pipelined: int = 16
    """requests of one connection that wait for the one before"""
    head_within: float = 10.0
    body_within: float = 20.0
    body_rate: int = 10_000
    """bytes that arrived for each further second that a body may take"""
    framing: int = 64 * 1024
    """bytes around the chunks of a body, besides eight for each byte in them"""
    idle_for: float = 10.0
    rest_within: float = 5.0
    rest: int = 16 * 1024 * 1024
    """of a body that arrive after the answer"""
    write_within: float = 30.0
    """for a client that reads nothing of its answer"""
    linger: float = 2.0
    """for a client that is refused to read why"""
    look_every: float = 0.5

    @property
    def accepted_at_once(self) -> int:
        """So few that nobody has to make way before it is heard: the event loop comes round three
        times until it reads from a connection."""
        return max(1, min(ACCEPTED_AT_ONCE, self.connections // 8))

    def time_in(self, stage: Stage, body: int = 0) -> float | None:
        """How long a connection may be at this, after `body` bytes of its request's body; None: as
        long as the answer takes, while its client reads (`write_within`)."""
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
    """The limits of a server in this process; `connections` as the settings have it.

    Asks for as many descriptors as that takes. When the machine does not allow them, there are
    fewer connections, so that descriptors remain for everything else.
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
