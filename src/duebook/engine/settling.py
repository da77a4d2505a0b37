"""How an attempt that is over goes on the books: its end, the next try, or handed back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duebook.model.run import Claim, Outcome
    from duebook.store.base import Tx

__all__ = ["conclude"]

HAND_BACK: Final = frozenset({"shutdown", "lost", "lease", "spawner"})
"""Reasons to stop that say nothing about the work: somebody else shall begin it again."""
HAND_BACK_DELAY: Final = timedelta(seconds=1)
"""So that work which cannot be begun here is not claimed again at once, over and over."""


def conclude(tx: Tx, claim: Claim, outcome: Outcome | None) -> str | None:
    """`handed back`, `to be retried` or how the run ended; None when the token is not current.

    None as an outcome, and reasons that say nothing about the work, hand it back.
    """
    token = claim.token
    if outcome is None or outcome.reason in HAND_BACK:
        return "handed back" if tx.hand_back(token, HAND_BACK_DELAY) else None
    retry = claim.spec.retry
    delay = None
    if retry is not None:
        seed = f"{claim.run.schedule} {claim.run.due_at or claim.run.id}"
        delay = retry.delay_after(outcome, claim.run.failures + 1, seed)
    if not tx.settle(token, outcome, delay):
        return None
    return outcome.status if delay is None else f"{outcome.status}, to be retried"
