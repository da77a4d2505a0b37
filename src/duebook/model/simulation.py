"""The findings of a simulation of schedules, and the effect of spreading them, as values."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from duebook.errors import counted
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Name, Shown, shown
from duebook.timetext import format_duration, format_instant, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "INTENDED",
    "MOST_BREACHES",
    "MOVED",
    "BusyMinute",
    "ClockChange",
    "Holdup",
    "Move",
    "Outlook",
    "SimulationReport",
    "Source",
    "SpreadProposal",
]

MOVED: Final = "moved"
"""Why a due time does not run that runs at another time, to which a user moved it."""
INTENDED: Final = frozenset(
    {"excluded", "calendar", "skipped_by_user", MOVED, "paused", "max_runs", "stopped", "restarted"}
)
"""Reasons of due times that are skipped on purpose; limits do not count them."""

MOST_BREACHES: Final = 10
"""Schedules that are named for each limit."""
Source = Literal["past", "given", "assumed"]
Skips = Annotated[dict[str, int], Shown("Due times that would not run, by reason.")]
Takes = Annotated[timedelta, Shown("How long each run takes, in seconds.")]


@shown()
@dataclass(frozen=True, slots=True)
class Outlook:
    """What would happen to one schedule."""

    name: Name
    takes: Takes
    takes_from: Annotated[Source, Shown("Where that length comes from.")]
    runs: int
    skips: Skips
    late_median: timedelta
    late_p95: timedelta
    late_most: timedelta
    late_most_due_at: Annotated[datetime | None, Shown("The due time that was that late.")]
    overlaps: Annotated[int, Shown("Due times that fell while a run of the schedule was active.")]
    cancelled: Annotated[int, Shown("Runs that a newer due time cancelled.")] = 0
    timed_out: Annotated[int, Shown("Runs that took longer than their timeout.")] = 0
    waiting: Annotated[int, Shown("Due times that still waited to start at the end.")] = 0

    @property
    def skipped(self) -> int:
        """Due times that were left out unintentionally."""
        return sum(number for reason, number in self.skips.items() if reason not in INTENDED)


@shown()
@dataclass(frozen=True, slots=True)
class BusyMinute:
    """A minute with much activity."""

    at: datetime
    running: Annotated[int, Shown("The most runs at the same time.")]
    started: int
    schedules: Annotated[tuple[str, ...], Shown("Some of the schedules due in that minute.")]


@shown()
@dataclass(frozen=True, slots=True)
class Holdup:
    """A schedule whose runs occupy the workers, or the places of a queue, that others wait for."""

    schedule: Name
    waited: Annotated[timedelta, Shown("How long others waited for it, in all, in seconds.")]
    others: Annotated[tuple[str, ...], Shown("Those that waited longest.")]


@shown()
@dataclass(frozen=True, slots=True)
class ClockChange:
    """A due time that a change of clocks moves or drops."""

    schedule: Name
    wall: Annotated[str, Shown("What the clock would show.", example="2026-03-29 02:30")]
    moved_to: Annotated[datetime | None, Shown("null if it is not due at all.")]


@shown()
@dataclass(frozen=True, slots=True)
class SimulationReport:
    """What would happen between two instants."""

    start: datetime
    until: datetime
    workers: Annotated[int | None, Shown("null: as many as needed.")]
    percentile: Annotated[int, Shown("Of the past durations of each schedule.")]
    schedules: int
    due_times: int
    runs: int
    skips: Skips
    late_median: timedelta
    late_p95: timedelta
    late_most: timedelta
    peak: Annotated[int, Shown("The most runs at the same time.")]
    peak_at: datetime | None
    busiest: tuple[BusyMinute, ...] = ()
    outlooks: Annotated[
        tuple[Outlook, ...],
        Shown("By schedule, the most affected first, and always the latest; at most 1,000."),
    ] = ()
    holdups: tuple[Holdup, ...] = ()
    clock_changes: tuple[ClockChange, ...] = ()
    step: Annotated[timedelta, Shown("The length of each item of `running`, in seconds.")] = (
        timedelta(minutes=1)
    )
    running: Annotated[tuple[int, ...], Shown("The most runs at the same time, step by step.")] = ()
    hours: Annotated[
        tuple[int, ...], Shown("Runs that start in each hour of the week, from Monday 00:00 UTC.")
    ] = ()
    assumed: Annotated[
        tuple[str, ...], Shown("Schedules without past runs; at most 100 of them.")
    ] = ()
    assumed_takes: Annotated[timedelta, Shown("How long their runs are assumed to take.")] = (
        timedelta(minutes=1)
    )
    assumed_count: Annotated[int, Shown("How many schedules have no past runs.")] = 0

    @property
    def skipped(self) -> int:
        """Due times that were left out unintentionally."""
        return sum(number for reason, number in self.skips.items() if reason not in INTENDED)

    def breaches(
        self,
        max_late: timedelta | str | None = None,
        max_skips: int | None = None,
        max_concurrency: int | None = None,
    ) -> list[str]:
        """Which of these limits are exceeded, by what; usually none. Raises InvalidTime."""
        if isinstance(max_late, str):
            max_late = parse_duration(max_late)
        return [
            *(() if max_late is None else self._late(max_late)),
            *(() if max_skips is None else self._left_out(max_skips)),
            *(() if max_concurrency is None else self._crowded(max_concurrency)),
        ]

    def _late(self, most: timedelta) -> Iterator[str]:
        if self.late_most <= most:
            return
        limit = f"max-late {format_duration(most)}"
        late = [one for one in self.outlooks if one.late_most > most]
        late.sort(key=lambda one: -one.late_most)
        if not late:  # the report does not list them all
            yield f"{limit}: a run starts {format_duration(self.late_most)} late"
        for one in late[:MOST_BREACHES]:
            due = "" if one.late_most_due_at is None else format_instant(one.late_most_due_at)
            length = format_duration(one.late_most)
            yield f'{limit}: "{one.name}" starts up to {length} late, at its due time {due}'
        yield from _more(late[MOST_BREACHES:], limit)

    def _left_out(self, most: int) -> Iterator[str]:
        if self.skipped <= most:
            return
        limit = f"max-skips {most}"
        yield f"{limit}: {counted(self.skipped, 'due time')} would be skipped"
        skipping = sorted((o for o in self.outlooks if o.skipped), key=lambda o: -o.skipped)
        for one in skipping[:MOST_BREACHES]:
            told = ", ".join(f"{r} {n:,}" for r, n in one.skips.items() if r not in INTENDED)
            yield f'{limit}: "{one.name}": {told}'
        yield from _more(skipping[MOST_BREACHES:], limit)

    def _crowded(self, most: int) -> Iterator[str]:
        if self.peak > most:
            at = "" if self.peak_at is None else f" at {format_instant(self.peak_at)}"
            yield f"max-concurrency {most}: {counted(self.peak, 'run')} at the same time{at}"


def _more(rest: list[Outlook], limit: str) -> list[str]:
    return [f"{limit}: and {counted(len(rest), 'more schedule')}"] if rest else []


@shown()
@dataclass(frozen=True, slots=True)
class Move:
    """A schedule that starts at other minutes."""

    name: Name
    before: Annotated[str, Shown(example="0 2 * * *")]
    after: Annotated[str, Shown(example="17 2 * * *")]
    owner: Annotated[str, Shown("Who declares it; empty if it was created manually.")] = ""


@shown()
@dataclass(frozen=True, slots=True)
class SpreadProposal:
    """Other minutes for schedules that may move, and what that changes."""

    before: SimulationReport
    after: SimulationReport
    movable: Annotated[int, Shown("Schedules that may move.")]
    moves: tuple[Move, ...] = ()
    fixed: Annotated[
        dict[str, str], Shown("Schedules that were asked for but cannot move, and why.")
    ] = field(default_factory=dict)
    definitions: Annotated[
        tuple[dict[str, Any], ...], Shown("The definitions of those that move, for `apply`.")
    ] = ()
