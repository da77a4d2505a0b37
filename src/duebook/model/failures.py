"""Failures by schedule and cause: many runs that failed alike become one group; pure."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from duebook.model.run import Run

__all__ = ["FailureGroup", "cause_of", "failed_at", "group_failures"]

LONGEST: Final = 200
"""Characters of a cause."""
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
        """What tells it from other groups."""
        told = f"{self.subject}\n{self.cause}"
        return hashlib.sha256(told.encode(errors="replace")).hexdigest()[:16]

    @property
    def first_at(self) -> datetime:
        return min(map(failed_at, self.runs))

    @property
    def last_at(self) -> datetime:
        return max(map(failed_at, self.runs))


def failed_at(run: Run) -> datetime:
    return run.finished_at or run.created_at


def cause_of(why: str) -> str:
    """The last line of an error, with `#` for numbers and ids, which differ from run to run; exit
    codes stay."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    if not lines:
        return ""
    text = lines[-1][:LONGEST]
    return text if _EXIT.fullmatch(text) else _CHANGING.sub("#", text)


def group_failures(
    runs: Iterable[Run], steps: Mapping[str, Run], printed: Mapping[str, str]
) -> list[FailureGroup]:
    """The largest group first; `steps` are those at which runs of flows failed, by the run's id,
    and `printed` is what runs and steps said last, by their ids."""
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
