"""How attempts that are over go on the books: their end, the next try, or handed back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.store.values import NO_DELAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Claim, Outcome
    from duebook.store.base import Tx

__all__ = ["conclude", "conclude_all", "is_final"]

HAND_BACK: Final = frozenset({"shutdown", "lost", "lease", "spawner"})
"""Reasons to stop that say nothing about the work: somebody else shall begin it again."""
HAND_BACK_DELAY: Final = timedelta(seconds=1)
"""So that work which cannot be begun here is not claimed again at once, over and over; what a node
hands back that leaves keeps its place."""


def is_final(claim: Claim, outcome: Outcome | None) -> bool:
    """Whether the run ends with this attempt: neither handed back nor tried again."""
    if outcome is not None and outcome.call is not None:
        return False
    return not _goes_back(outcome) and _delay(claim, outcome) is None


def conclude(tx: Tx, claim: Claim, outcome: Outcome | None) -> str | None:
    """`handed back`, `to be retried` or how the run ended; None when the token is not current.

    None as an outcome, and reasons that say nothing about the work, hand it back.
    """
    if outcome is None or _goes_back(outcome):
        leaves = outcome is not None and outcome.reason == "shutdown"
        again = NO_DELAY if leaves else HAND_BACK_DELAY
        return "handed back" if tx.hand_back(claim.token, again) else None
    if outcome.call is not None:
        return f"calls {outcome.call}" if tx.call_flow(claim.token, outcome.call) else None
    delay = _delay(claim, outcome)
    if not tx.settle(claim.token, outcome, delay):
        return None
    return outcome.status if delay is None else f"{outcome.status}, to be retried"


def conclude_all(tx: Tx, ended: Sequence[tuple[Claim, Outcome]]) -> list[str | None]:
    """As `conclude`, at once, for attempts that are final."""
    settled = tx.settle_all([(claim.token, outcome) for claim, outcome in ended])
    return [outcome.status if claim.token in settled else None for claim, outcome in ended]


def _goes_back(outcome: Outcome | None) -> bool:
    return outcome is None or outcome.reason in HAND_BACK


def _delay(claim: Claim, outcome: Outcome | None) -> timedelta | None:
    """How long to wait for the next attempt; None for none."""
    retry = claim.spec.retry
    if retry is None or outcome is None:
        return None
    seed = f"{claim.run.schedule} {claim.run.due_at or claim.run.id}"
    return retry.delay_after(outcome, claim.run.failures + 1, seed)
