"""What `--verbose` adds to the log: a line for what each tick planned and each claim took."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from duebook.model.plan import Decision, Defer, Fire, Hold
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duebook.model.plan import Plan
    from duebook.model.run import Claim

__all__ = ["tell_claims", "tell_plans"]

MOST: Final = 20
"""How many decisions or runs a line names; the rest are counted."""


def tell_plans(log: logging.Logger, plans: Sequence[Plan], names: Mapping[str, str]) -> None:
    """Log schedule, due time, decision and reason of each plan; `names` are by id."""
    if not log.isEnabledFor(logging.DEBUG):
        return
    decisions = [(plan.schedule_id, decision) for plan in plans for decision in plan.decisions]
    if decisions:
        told = (f"{names.get(id_, id_)} {_told(one)}" for id_, one in decisions[:MOST])
        log.debug("planned %s", _line(told, len(decisions)))


def tell_claims(log: logging.Logger, claims: Sequence[Claim]) -> None:
    """Log run, schedule and attempt of what was claimed."""
    if claims and log.isEnabledFor(logging.DEBUG):
        runs = [claim.run for claim in claims[:MOST]]
        told = (f"{run.id} of {run.schedule or '-'}, attempt {run.attempt}" for run in runs)
        log.debug("claimed %s", _line(told, len(claims)))


def _line(told: Iterable[str], number: int) -> str:
    more = [f"and {number - MOST:,} more"] if number > MOST else []
    return "; ".join([*told, *more])


def _told(decision: Decision) -> str:
    match decision:
        case Fire():
            cancels = f", cancels {len(decision.cancels)}" if decision.cancels else ""
            return f"{format_instant(decision.due_at)}: fire ({decision.origin}{cancels})"
        case Defer():
            until = format_instant(decision.until)
            due_at = format_instant(decision.due_at)
            return f"{due_at}: wait until {until} ({decision.reason.value})"
    due = format_instant(decision.due_from)
    if decision.count > 1:
        due = f"{due} to {format_instant(decision.due_to)}"
    number = "" if decision.count == 1 else f" {decision.count:,}{'' if decision.exact else '+'}"
    if isinstance(decision, Hold):
        return f"{due}: hold{number} (catchup_approval)"
    return f"{due}: skip{number} ({decision.reason.value})"
