"""A finding of the check of the database: a problem, or a note on something unusual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem breaks an invariant, which `rule` names; a note does not."""

    rule: str
    """I1 to I9, or quota"""
    text: str
    problem: bool = True
    schedule: str | None = None
    """its name; outside the default namespace, namespace/name"""
    due_at: datetime | None = None
    run_id: str | None = None

    def __str__(self) -> str:
        """With its subject in front."""
        due_at = f"{self.due_at:%Y-%m-%d %H:%M:%S} UTC" if self.due_at else None
        about = [self.schedule, due_at, f"run {self.run_id[:13]}" if self.run_id else None]
        known = " ".join(word for word in about if word)
        return f"{known}: {self.text}" if known else self.text

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "problem": self.problem,
            "schedule": self.schedule,
            "due_at": format_instant(self.due_at) if self.due_at else None,
            "run_id": self.run_id,
            "text": self.text,
        }
