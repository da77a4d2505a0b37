"""What an explanation is: a value, its sentence and its JSON form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duebook.timetext import format_instant

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Kind

__all__ = ["Explanation", "explanation_form"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became, or will become, of one due time; or why an instant is none.

    `verdict` is ran, running, queued, cancelled, skipped, waiting, to_come, not_due or unknown, and
    done of a stop or restart; `reason` is a stable code, where there is one.
    """

    at: datetime
    verdict: str
    text: str
    reason: str | None = None
    run_id: str | None = None
    tz: str = "UTC"
    """the zone of the times in the text"""
    run_status: str | None = None
    """how its run stands or ended, where there is one"""
    other_run_id: str | None = None
    """the run that the text names because it stood in the way"""
    kind: Kind = "start"
    """what the due time is for: to start, or to stop or restart a flow"""

    def __str__(self) -> str:
        return self.text


def explanation_form(explanation: Explanation) -> dict[str, Any]:
    """The JSON object, the same in REST and on the command line."""
    return {
        "at": format_instant(explanation.at),
        "verdict": explanation.verdict,
        "reason": explanation.reason,
        "run_id": explanation.run_id,
        "run_status": explanation.run_status,
        "other_run_id": explanation.other_run_id,
        "text": explanation.text,
        "tz": explanation.tz,
        "kind": explanation.kind,
    }
