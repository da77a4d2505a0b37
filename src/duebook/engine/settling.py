"""How ended attempts are recorded, depending on their fate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.fate import Asks, Calls, Ends, HandedBack, Repeats, TriedAgain, fate_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.fate import Fate
    from duebook.model.run import Claim, Outcome
    from duebook.store.base import Tx

__all__ = ["conclude", "conclude_all", "is_final"]


def is_final(claim: Claim, outcome: Outcome | None) -> bool:
    """Whether the run ends with this attempt: neither handed back nor retried."""
    if outcome is not None and outcome.status == "succeeded" and outcome.reason is None:
        return outcome.call is None and outcome.repeat is None and outcome.asks is None
    return isinstance(_fate(claim, outcome), Ends)


def conclude(tx: Tx, claim: Claim, outcome: Outcome | None) -> str | None:
    """`handed back`, `to be retried` or how the run ended; None when the token is not current.

    An outcome of None, or a reason that says nothing about the work, hands it back.
    """
    token, begun_at = claim.token, claim.begun_at
    if begun_at is not None:
        tx.attempts.mark_begun([(token, begun_at)])
    match _fate(claim, outcome):
        case HandedBack(after):
            return "handed back" if tx.attempts.hand_back(token, after) else None
        case Calls(flow):
            return f"calls {flow}" if tx.flow_runs.call_flow(token, flow) else None
        case Asks(prompt):
            asked = tx.attempts.ask_person(token, prompt, claim.spec.timeout)
            return "waits for a person" if asked else None
        case Repeats(done, repeat):
            again = repeat.after(tx.attempts.count_done(token.run_id) + 1)
            told = done.status if again is None else f"{done.status}, to be repeated"
            return told if tx.attempts.settle(token, done, again) else None
        case TriedAgain(failed, after):
            settled = tx.attempts.settle(token, failed, after)
            return f"{failed.status}, to be retried" if settled else None
        case Ends(end):
            return end.status if tx.attempts.settle(token, end) else None


def conclude_all(tx: Tx, ended: Sequence[tuple[Claim, Outcome]]) -> list[str | None]:
    """Like `conclude`, for many attempts at once, all of them final."""
    begun = {claim.token: claim.begun_at for claim, _ in ended if claim.begun_at is not None}
    settled = tx.attempts.settle_all([(claim.token, outcome) for claim, outcome in ended], begun)
    return [outcome.status if claim.token in settled else None for claim, outcome in ended]


def _fate(claim: Claim, outcome: Outcome | None) -> Fate:
    run = claim.run
    return fate_of(
        outcome, claim.spec.retry, run.failures, f"{run.schedule} {run.due_at or run.id}"
    )
