"""What was seen from outside the books while a fleet worked: evidence of commands, answers to
people, glimpses of the books, and faults; kept by tests and read by the checker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.support.nodes import Evidence

STANDSTILL: Final = "standstill"
"""The fault of the machine itself."""


@dataclass(frozen=True)
class Answer:
    """A change that somebody was told to be on the books."""

    what: str
    """created, updated, triggered, cancelled, retried"""
    id: str
    version: int | None = None


@dataclass(frozen=True)
class Glimpse:
    """A run that stood on the books as ended."""

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
    """runs that somebody wanted to have tried again, whatever the answer was"""
    paused: set[str] = field(default_factory=set)
    """schedules that somebody wanted to pause"""
    pids: dict[str, int] = field(default_factory=dict)
    """processes of nodes by their marks; clones are unknown"""

    def stood_still(self, began: float, ended: float) -> float:
        """For how many seconds of that time the machine did."""
        still, until = 0.0, began
        for fault in sorted(self.faults, key=lambda fault: fault.began):
            if fault.what == STANDSTILL and until < fault.ended and fault.began < ended:
                still += min(fault.ended, ended) - max(fault.began, until)
                until = fault.ended
        return still
