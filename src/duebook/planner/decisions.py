"""The facts with which decisions explain themselves; merges skips that follow each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.model.plan import Fire, Reason, Skip
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.fields import Dependency
    from duebook.model.plan import ActiveRun, Decision, DueException, Upstream

__all__ = ["add_skip", "facts_of", "facts_of_dependency", "skips_of_moved", "waking"]


def add_skip(decisions: list[Decision], skip: Skip) -> None:
    """Append a skip of one due time, or extend the last one if it is for the same reason and ends
    with the due time before."""
    last = decisions[-1] if decisions else None
    same = isinstance(last, Skip) and last.reason == skip.reason and last.facts == skip.facts
    if isinstance(last, Skip) and same and last.due_to == skip.follows:
        decisions[-1] = replace(last, due_to=skip.due_to, count=last.count + 1)
    else:
        decisions.append(skip)


def skips_of_moved(exceptions: Sequence[DueException], watermark: datetime) -> list[Skip]:
    """Due times moved to before the watermark and then skipped, which no plan will pass again."""
    moved = {e.due_at for e in exceptions if e.kind == "moved_here" and e.due_at <= watermark}
    return [
        Skip(e.due_at, e.due_at, 1, True, Reason.SKIPPED_BY_USER)
        for e in exceptions
        if e.kind == "skip" and e.due_at in moved
    ]


def facts_of(blocker: ActiveRun | Fire | None) -> dict[str, object]:
    """What was active: a run, or a due time that this very plan fires."""
    if isinstance(blocker, Fire):
        return {"due_at": blocker.due_at}
    return {} if blocker is None else {"run": blocker.id, "since": blocker.since}


def facts_of_dependency(dependency: Dependency, upstream: Upstream | None) -> dict[str, object]:
    """Which success is awaited, and the last one there was."""
    return {
        "schedule": dependency.schedule,
        "within": format_duration(dependency.within),
        "exists": upstream is not None and upstream.exists,
        "succeeded_at": None if upstream is None else upstream.succeeded_at,
    }


def waking(decision: Decision) -> Decision:
    """Let the last run of a schedule wake it, so that it completes at once."""
    return replace(decision, wakes=True) if isinstance(decision, Fire) else decision
