"""Shadow mode as values: when it is on or off for which schedules, and what it recorded."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Name, Shown, shown
from duebook.model.plan import ShadowSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "Compared",
    "ShadowRun",
    "ShadowSwitch",
    "compare",
    "in_force",
    "shadow_spans",
    "superseded",
]


@shown("ShadowSwitch")
@dataclass(frozen=True, slots=True)
class ShadowSwitch:
    """Turns shadow mode on or off for some schedules, from an instant on."""

    namespace: Name
    at: Annotated[datetime, Shown("It counts for due times at this time or later.")]
    shadow: Annotated[bool, Shown("Whether due times are recorded instead of run.")]
    schedule: Annotated[str, Shown("Only this schedule; empty: any.")]
    labels: Annotated[dict[str, str], Shown("The schedule must have all of these labels.")]
    created_at: datetime
    created_by: str

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        return self.schedule in ("", name) and self.labels.items() <= labels.items()

    def covers(self, other: ShadowSwitch) -> bool:
        """Whether it selects every schedule that the other one does."""
        return self.schedule in ("", other.schedule) and self.labels.items() <= other.labels.items()

    @property
    def selected(self) -> str:
        """The schedules it selects, as text for people."""
        if self.schedule:
            return f'schedule "{self.schedule}"'
        labels = ", ".join(f"{name}={value}" for name, value in self.labels.items())
        return f"schedules with {labels}" if labels else "all schedules"


@shown("ShadowComparison")
@dataclass(frozen=True, slots=True)
class Compared:
    """A time at which Duebook would have run something, another scheduler did, or both."""

    schedule: str
    verdict: Literal["both", "duebook", "other"]
    ours: datetime | None
    theirs: datetime | None


@shown("ShadowRun")
@dataclass(frozen=True, slots=True)
class ShadowRun:
    """A due time that would have become a run without shadow mode."""

    schedule: Name
    due_at: datetime
    planned_at: Annotated[datetime, Shown("When its run would have been created.")]
    origin: Annotated[str, Shown("`schedule`, or `catchup` for one that was missed.")]
    due_until: Annotated[datetime, Shown("Of several in one entry: the last.")]
    count: Annotated[int, Shown("How many due times the entry stands for.")] = 1


def shadow_spans(
    switches: Iterable[ShadowSwitch], name: str, labels: Mapping[str, str]
) -> tuple[ShadowSpan, ...]:
    """When a schedule is in shadow mode, by switches in their order: of those that select it, the
    latest one before a due time counts."""
    found: list[ShadowSpan] = []
    since: datetime | None = None
    for switch in switches:
        if not switch.selects(name, labels) or switch.shadow == (since is not None):
            continue
        if since is not None and since < switch.at:
            found.append(ShadowSpan(since, switch.at))
        since = switch.at if switch.shadow else None
    if since is not None:
        found.append(ShadowSpan(since, None))
    return tuple(found)


def superseded(switches: Sequence[ShadowSwitch], since: datetime) -> list[int]:
    """The positions of switches that no longer affect due times from `since` on: a later switch
    that starts before then selects everything they do."""
    old = [switch for switch in switches if switch.at <= since]
    return [
        place
        for place, switch in enumerate(old)
        if any(later.covers(switch) for later in old[place + 1 :])
    ]


def in_force(switches: Sequence[ShadowSwitch], now: datetime) -> list[ShadowSwitch]:
    """Those that affect due times at `now`."""
    over = set(superseded(switches, now))
    begun = [switch for switch in switches if switch.at <= now]
    return [switch for place, switch in enumerate(begun) if place not in over]


def compare(
    ours: Iterable[ShadowRun], theirs: Iterable[tuple[str, datetime]], within: timedelta
) -> list[Compared]:
    """Match what Duebook would have run with what another scheduler ran: for each schedule in
    order, due times and the other's times that are at most `within` apart."""
    found: list[Compared] = []
    mine: dict[str, list[datetime]] = {}
    other: dict[str, list[datetime]] = {}
    for run in ours:
        mine.setdefault(run.schedule, []).append(run.due_at)
    for name, at in theirs:
        other.setdefault(name, []).append(at)
    for name in sorted(mine.keys() | other.keys()):
        found += _paired(name, sorted(mine.get(name, ())), sorted(other.get(name, ())), within)
    return sorted(found, key=lambda one: (one.ours or one.theirs, one.schedule))


def _paired(
    name: str, ours: list[datetime], theirs: list[datetime], within: timedelta
) -> Iterator[Compared]:
    mine = other = 0
    while mine < len(ours) or other < len(theirs):
        left = ours[mine] if mine < len(ours) else None
        right = theirs[other] if other < len(theirs) else None
        if left is not None and right is not None and abs(left - right) <= within:
            yield Compared(name, "both", left, right)
            mine, other = mine + 1, other + 1
        elif right is None or (left is not None and left < right):
            yield Compared(name, "duebook", left, None)
            mine += 1
        else:
            yield Compared(name, "other", None, right)
            other += 1
