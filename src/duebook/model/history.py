"""How long the history of a database is kept: by default, by namespace and by schedule; and what
may have been deleted already."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from duebook.errors import Invalid
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import EVERYWHERE
from duebook.model.fields import read_length
from duebook.settings import RETENTION
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

__all__ = ["MOST_KEPT", "History", "Keeps", "NamespaceKeep", "SweptKeep", "leaves", "read_keep"]

SHORTEST_KEEP: Final = timedelta(hours=1)
LONGEST_KEEP: Final = timedelta(days=3_650)
MOST_KEPT: Final = 10_000
"""Maximum of `keep_last`, in runs of a schedule."""

T = TypeVar("T")


def read_keep(key: str, value: Any) -> timedelta:
    """How long runs are kept; raises Invalid for less than an hour or more than ten years."""
    keep = read_length(key, value)
    if not SHORTEST_KEEP <= keep <= LONGEST_KEEP:
        raise Invalid(
            f"{key} {format_duration(keep)} is not between {format_duration(SHORTEST_KEEP)} and "
            f"{format_duration(LONGEST_KEEP)}"
        )
    return keep


class NamespaceKeep(NamedTuple):
    """What is stored about a namespace; `*` stands for those without their own setting."""

    keep: timedelta | None = None
    forgotten_until: datetime | None = None
    """the due time up to which runs may have been deleted"""
    ledger_until: datetime | None = None
    """the same for entries of the ledger; only `*` has it"""


class SweptKeep(NamedTuple):
    """Namespaces that keep their runs equally long: these, or all but these."""

    keep: timedelta
    namespaces: tuple[str, ...]
    among: bool


@dataclass(frozen=True, slots=True)
class Keeps:
    """What a database keeps, by namespace."""

    namespaces: Mapping[str, NamespaceKeep] = field(default_factory=dict)
    longest_of_schedules: timedelta = timedelta()
    """the longest retention set by a schedule"""

    def own(self, namespace: str) -> NamespaceKeep:
        return self.namespaces.get(namespace, NamespaceKeep())

    @property
    def default(self) -> timedelta:
        return self.own(EVERYWHERE).keep or RETENTION

    def of(self, namespace: str) -> timedelta:
        """How long a namespace keeps runs of schedules without their own setting."""
        return self.own(namespace).keep or self.default

    @property
    def longest(self) -> timedelta:
        """The longest time any run is kept; events and the ledger are kept as long."""
        own = (known.keep for known in self.namespaces.values() if known.keep is not None)
        return max([self.default, self.longest_of_schedules, *own])

    def swept(self) -> list[SweptKeep]:
        """Every namespace once; those with equal retention together, the default first."""
        own: dict[timedelta, list[str]] = defaultdict(list)
        for namespace, known in sorted(self.namespaces.items()):
            if namespace != EVERYWHERE and known.keep is not None:
                own[known.keep].append(namespace)
        listed = tuple(sorted(name for names in own.values() for name in names))
        others = [SweptKeep(keep, tuple(names), among=True) for keep, names in sorted(own.items())]
        return [SweptKeep(self.default, listed, among=False), *others]

    def history(
        self,
        namespace: str,
        keep: timedelta | None = None,
        keep_last: int | None = None,
        forgotten_until: datetime | None = None,
    ) -> History:
        """For a schedule in a namespace, with what is stored about it."""
        own, default = self.own(namespace), self.own(EVERYWHERE)
        marks = [forgotten_until, default.ledger_until]
        if keep is None:
            marks.append(own.forgotten_until)
            if own.keep is None:
                marks.append(default.forgotten_until)
        latest = max((mark for mark in marks if mark is not None), default=None)
        return History(keep or self.of(namespace), keep_last, latest)


@dataclass(frozen=True, slots=True)
class History:
    """What remains of a schedule's past."""

    keep: timedelta = RETENTION
    keep_last: int | None = None
    forgotten_until: datetime | None = None
    """the due time up to which its runs and entries may have been deleted"""

    def since(self, now: datetime) -> datetime:
        """Since then, every decided due time still has its run or its entry."""
        horizon = now - self.keep
        return horizon if self.forgotten_until is None else max(horizon, self.forgotten_until)

    def __str__(self) -> str:
        kept = f"runs are kept for {format_duration(self.keep)}"
        return kept if self.keep_last is None else f"{kept}, and only the newest {self.keep_last:,}"


def leaves(
    ends: Iterable[tuple[datetime, T, bool]],
    before: datetime,
    keep_last: int | None,
    remembered: datetime,
) -> set[T]:
    """What retention keeps of a schedule's ended runs, each with its end and whether it succeeded:
    those that ended at or after `before`, of these the newest `keep_last`, and the newest success
    since `remembered`, for schedules that depend on it."""
    newest = sorted(ends, key=lambda run: run[0], reverse=True)
    kept = {id_ for at, id_, _ in newest[:keep_last] if at >= before}
    success = next(((at, id_) for at, id_, succeeded in newest if succeeded), None)
    if success is not None and success[0] >= remembered:
        kept.add(success[1])
    return kept
