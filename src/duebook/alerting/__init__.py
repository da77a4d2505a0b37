"""Which problems exist, and where they are reported: facts in, alerts and messages out; pure."""

from __future__ import annotations

from duebook.alerting.board import Board, Decided, Told, decide
from duebook.alerting.facts import Happening, Look, Standing, Subject, happening_of, is_slow, p95

__all__ = [
    "Board",
    "Decided",
    "Happening",
    "Look",
    "Standing",
    "Subject",
    "Told",
    "decide",
    "happening_of",
    "is_slow",
    "p95",
]
