"""The findings of doctor: one line for each check, with a remedy; and what it repaired."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Shown, shown

__all__ = ["CHECKED", "LEVELS", "Checkup", "Diagnosis", "Level"]

Level = Literal["ok", "warning", "problem"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "warning", "problem")
"""From best to worst."""
CHECKED: Final = (
    "database",
    "schema",
    "clocks",
    "tzdata",
    "versions",
    "sessions",
    "scheduler",
    "planning",
    "definitions",
    "queues",
    "tasks",
    "secrets",
    "flows",
    "alerts",
    "retention",
    "disk",
    "backups",
    "vacuum",
    "transactions",
    "connections",
)
"""What is checked, in this order; some only for SQLite, some only for PostgreSQL."""


@shown("Checkup")
@dataclass(frozen=True, slots=True)
class Checkup:
    """The result of one check."""

    check: Annotated[str, Shown(example="clocks")]
    level: Level
    message: str
    remedy: Annotated[str, Shown("What to do; empty if nothing needs to be done.")] = ""
    subjects: Annotated[
        tuple[str, ...], Shown("What it is about, such as names of schedules; the first 100.")
    ] = ()
    fixable: Annotated[bool, Shown("Whether `doctor --fix` repairs it.")] = False


@shown("Diagnosis")
@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The results of all checks, and what was repaired before."""

    checked_at: Annotated[datetime | None, Shown("null if the database could not be reached.")]
    checkups: tuple[Checkup, ...]
    repaired: Annotated[tuple[str, ...], Shown("What a repair did, in words.")] = ()

    @property
    def level(self) -> Annotated[Level, Shown("That of the worst result.")]:
        found = {checkup.level for checkup in self.checkups}
        return next((level for level in reversed(LEVELS) if level in found), "ok")

    @property
    def healthy(self) -> bool:
        """Whether there are no problems; there may be warnings."""
        return self.level != "problem"
