"""Failures by schedule and cause: runs that failed for the same reason form a group; pure."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from duebook.model.run import Run

__all__ = ["CauseGroup", "FailureGroup", "cause_of", "failed_at", "group_causes", "group_failures"]

LONGEST: Final = 200
"""Maximum characters of a cause."""
_CHANGING: Final = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8}-[0-9a-f-]{4,}|\d+", re.IGNORECASE)
_EXIT: Final = re.compile(r"exit code \d+")


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Runs of one schedule, flow or task that failed for the same cause, the newest first."""

    subject: str
    cause: str
    runs: tuple[Run, ...]

    @property
    def key(self) -> str:
        """What distinguishes it from other groups."""
        return _key(f"{self.subject}\n{self.cause}")

    @property
    def first_at(self) -> datetime:
        return min(map(failed_at, self.runs))

    @property
    def last_at(self) -> datetime:
        return max(map(failed_at, self.runs))


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Failures with the same cause, across schedules."""

    cause: str
    groups: tuple[FailureGroup, ...]

    @property
    def key(self) -> str:
        """What distinguishes it from other causes."""
        return _key(self.cause)

    @property
    def count(self) -> int:
        return sum(len(group.runs) for group in self.groups)

    @property
    def first_at(self) -> datetime:
        return min(group.first_at for group in self.groups)

    @property
    def last_at(self) -> datetime:
        return max(group.last_at for group in self.groups)


def failed_at(run: Run) -> datetime:
    return run.finished_at or run.created_at


def _key(told: str) -> str:
    return hashlib.sha256(told.encode(errors="replace")).hexdigest()[:16]


def cause_of(why: str) -> str:
    """The last line of an error, with `#` in place of numbers and ids, which differ from run to
    run; exit codes are kept."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    if not lines:
        return ""
    text = lines[-1][:LONGEST]
    return text if _EXIT.fullmatch(text) else _CHANGING.sub("#", text)


def group_failures(
    runs: Iterable[Run], steps: Mapping[str, Run], printed: Mapping[str, str]
) -> list[FailureGroup]:
    """The largest group first. `steps` has, by run id, the step at which a run of a flow failed;
    `printed` has the last output of runs and steps, by their ids."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        told = steps.get(run.id, run)
        cause = cause_of(told.why)
        if told.id in printed and _EXIT.fullmatch(cause):
            cause = f"{cause}: {cause_of(printed[told.id])}"
        if told is not run and told.step:
            cause = f"{told.step}: {cause}"
        subject = run.schedule or run.flow or run.task or ""
        found.setdefault((subject, cause), []).append(run)
    groups = [
        FailureGroup(subject, cause, tuple(sorted(same, key=failed_at, reverse=True)))
        for (subject, cause), same in found.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.runs), group.subject, group.cause))


def group_causes(groups: Iterable[FailureGroup]) -> list[CauseGroup]:
    """Causes shared by more than one schedule, flow or task, the most failures first."""
    found: dict[str, list[FailureGroup]] = {}
    for group in groups:
        found.setdefault(group.cause, []).append(group)
    shared = [CauseGroup(cause, tuple(same)) for cause, same in found.items() if len(same) > 1]
    return sorted(shared, key=lambda one: (-one.count, one.cause))
