"""The fate of an ended attempt; pure.

Either the run ends, or it is retried, or another node starts it again, or it continues as a flow
that it calls. Nodes decide by these rules. The store records the result, and applies them again for
what only it knows: that a node was lost, or that the run was asked to stop meanwhile.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.model.run import Outcome

if TYPE_CHECKING:
    from duebook.model.flow_target import FlowTarget
    from duebook.model.repeat import Repeat
    from duebook.model.retry import Retry

__all__ = [
    "HAND_BACK",
    "LOST",
    "Asks",
    "Calls",
    "Ends",
    "Fate",
    "HandedBack",
    "Repeats",
    "TriedAgain",
    "fate_of",
    "fate_of_lost",
    "fate_of_lost_early",
    "when_asked_to_end",
]

LOST: Final = "the node that ran it was lost"
HAND_BACK: Final = frozenset({"shutdown", "lost", "lease", "spawner"})
"""Reasons to stop that say nothing about the work, so that another node should start it again."""
HAND_BACK_DELAY: Final = timedelta(seconds=1)
"""Keeps work that cannot be started here from being claimed again at once, over and over."""
AT_ONCE: Final = timedelta()
EARLY: Final = 2
"""How many losses before a run had started count as one takeover."""


class Ends(NamedTuple):
    """The run ends with this outcome."""

    outcome: Outcome


class TriedAgain(NamedTuple):
    """The attempt ended with this outcome, and another starts after a while."""

    outcome: Outcome
    after: timedelta


class Repeats(NamedTuple):
    """The step ended with this outcome, and is executed again unless the limit is reached."""

    outcome: Outcome
    repeat: Repeat


class Asks(NamedTuple):
    """The step waits for a person, who gets this prompt."""

    prompt: str


class HandedBack(NamedTuple):
    """The attempt says nothing about the work; any node may start it again."""

    after: timedelta


class Calls(NamedTuple):
    """The run continues as a run of that flow."""

    flow: FlowTarget


Fate = Ends | TriedAgain | Repeats | Asks | HandedBack | Calls


def fate_of(outcome: Outcome | None, retry: Retry | None, failures: int, seed: str) -> Fate:
    """For an attempt of a live node. `failures` counts those of earlier attempts; an outcome of
    None means that it was not started at all."""
    if outcome is None:
        return HandedBack(HAND_BACK_DELAY)
    if outcome.reason in HAND_BACK:
        # runs handed back by a stopping node keep their place
        return HandedBack(AT_ONCE if outcome.reason == "shutdown" else HAND_BACK_DELAY)
    if outcome.asks is not None:
        return Asks(outcome.asks)
    if outcome.call is not None:
        return Calls(outcome.call)
    if outcome.repeat is not None:
        return Repeats(outcome, outcome.repeat)
    after = retry.delay_after(outcome, failures + 1, seed) if retry is not None else None
    return Ends(outcome) if after is None else TriedAgain(outcome, after)


def fate_of_lost(losses: int, max_takeovers: int, asked_to_end: str | None) -> Ends | HandedBack:
    """For an attempt whose node was lost, like the nodes of `losses` attempts before it."""
    if asked_to_end is not None:
        return Ends(Outcome("cancelled", asked_to_end, LOST))
    if losses < max_takeovers:
        return HandedBack(AT_ONCE)
    return Ends(Outcome("failed", "poison", f"{LOST}, after {losses} earlier losses"))


def fate_of_lost_early(
    losses: int, max_takeovers: int, asked_to_end: str | None
) -> Ends | HandedBack:
    """For an attempt that its node had apparently only buffered, like the nodes of `losses`
    attempts before it. The run may be the cause of the losses: started, but not recorded as started
    in time."""
    return fate_of_lost(losses, EARLY * max_takeovers, asked_to_end)


def when_asked_to_end(fate: Fate, asked_to_end: str | None, is_deleted: bool) -> Fate:
    """The fate if meanwhile the run was asked to stop, or its schedule deleted."""
    if isinstance(fate, TriedAgain) and (asked_to_end is not None or is_deleted):
        return Ends(fate.outcome)
    if isinstance(fate, HandedBack) and asked_to_end is not None:
        return Ends(Outcome("cancelled", asked_to_end))
    return fate
