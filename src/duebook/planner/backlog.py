"""The pieces of time beyond the watermark that a plan finds waiting, each seen as live or
missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.plan import Stretch
from duebook.planner.due import instant_before

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Snapshot
    from duebook.planner.due import DueTimes

__all__ = ["Piece", "count_missed", "pieces_until", "remaining"]

MOST_STRETCHES: Final = 50
"""With more, the newest two are merged: a due time waited through this many outages. Stretches that
are decided, or that fell while paused, are not merged."""


@dataclass(frozen=True, slots=True)
class Piece:
    """(after, until], with the class that its due times got from the first plan that saw them."""

    after: datetime
    until: datetime
    kind: str
    seen_at: datetime


def pieces_until(
    snapshot: Snapshot, due: DueTimes, watermark: datetime, now: datetime
) -> list[Piece]:
    """What earlier plans saw and left waiting, and what is new to this plan, up to `now`."""
    pieces: list[Piece] = []
    place = watermark
    for stretch in snapshot.seen:
        if stretch.until > place:
            kind = stretch.kind
            if kind == "paused" and snapshot.spec.on_resume == "catchup":
                kind = "missed"
            pieces.append(Piece(place, stretch.until, kind, stretch.seen_at))
            place = stretch.until
    if now <= place:
        return pieces
    missed_until = due.ripe_until(place, instant_before(now - snapshot.spec.grace))
    # empty pieces would only pile up behind a due time that waits for long
    if missed_until > place and due.holds_any(place, missed_until):
        pieces.append(Piece(place, missed_until, "missed", now))
        place = missed_until
    horizon = due.ripe_until(place, now)
    if horizon > place:
        pieces.append(Piece(place, horizon, "live", now))
    return pieces


def count_missed(pieces: list[Piece], due: DueTimes, most: int) -> int:
    """How many of all waiting due times were missed; `most`, if there are more."""
    number = 0
    for piece in pieces:
        if piece.kind == "missed":
            number += due.count_up_to(most - number, piece.after, piece.until)
    return number


def remaining(pieces: list[Piece], watermark: datetime) -> tuple[Stretch, ...]:
    """What is still to be decided after a plan that got as far as the watermark."""
    if not pieces or pieces[-1].until <= watermark:
        return ()
    stretches: list[Stretch] = []
    for piece in pieces:
        if piece.until <= watermark:
            continue
        last = stretches[-1] if stretches else None
        same = last is not None and last.kind == piece.kind and piece.kind != "missed"
        full = len(stretches) >= MOST_STRETCHES
        apart = {"done", "paused"} & {piece.kind, "" if last is None else last.kind}
        if last is not None and (same or (full and not apart)):
            stretches[-1] = Stretch(piece.until, last.kind, last.seen_at)
        else:
            stretches.append(Stretch(piece.until, piece.kind, piece.seen_at))  # type: ignore[arg-type]
    return tuple(stretches)
