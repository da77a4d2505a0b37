"""What was seen from outside the database while a fleet worked: evidence of commands, responses to
users, samples of the database, and faults; recorded by tests and read by the checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.support.nodes import Evidence

STANDSTILL: Final = "standstill"
"""The fault for a stall of the machine itself."""


@dataclass(frozen=True)
class Answer:
    """A change that was confirmed to a user."""

    what: str
    """created, updated, triggered, cancelled, retried"""
    id: str
    version: int | None = None


@dataclass(frozen=True)
class Glimpse:
    """A run that the database showed as ended."""

    run: str
    attempt: int
    facts: tuple[Any, ...]
    """status, end, reason, exit code, session"""


@dataclass(frozen=True)
class Fault:
    """What was broken, from when to when."""

    what: str
    began: float
    ended: float


@dataclass(frozen=True)
class Delivery:
    """An event as a consumer got it."""

    consumer: str
    event: str


@dataclass
class Witness:
    evidence: list[Evidence] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    glimpses: list[Glimpse] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    reopened: set[str] = field(default_factory=set)
    """runs that a user wanted to retry, whatever the response was"""
    paused: set[str] = field(default_factory=set)
    """schedules that a user wanted to pause"""
    pids: dict[str, int] = field(default_factory=dict)
    """processes of nodes by their marks; without clones"""

    def stood_still(self, began: float, ended: float) -> float:
        """For how many seconds of that time the machine was stalled."""
        still, until = 0.0, began
        for fault in sorted(self.faults, key=lambda fault: fault.began):
            if fault.what == STANDSTILL and until < fault.ended and fault.began < ended:
                still += min(fault.ended, ended) - max(fault.began, until)
                until = fault.ended
        return still
