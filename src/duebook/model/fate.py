"""What becomes of an attempt that is over; pure.

It ends its run, the run is tried again, somebody else begins it again, or it goes on as a flow that
it calls. Nodes decide by these rules; the store writes what they say, and asks them again about
what it alone knows: that a node was lost, and that somebody asked the run to end meanwhile.
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
"""Reasons to stop that say nothing about the work: somebody else shall begin it again."""
HAND_BACK_DELAY: Final = timedelta(seconds=1)
"""So that work which cannot be begun here is not claimed again at once, over and over."""
AT_ONCE: Final = timedelta()
EARLY: Final = 2
"""How many losses before a run had begun weigh as much as one takeover."""


class Ends(NamedTuple):
    """The run ends so."""

    outcome: Outcome


class TriedAgain(NamedTuple):
    """The attempt ended so, and another begins after a while."""

    outcome: Outcome
    after: timedelta


class Repeats(NamedTuple):
    """The step ended so, and is executed again unless that was often enough."""

    outcome: Outcome
    repeat: Repeat


class Asks(NamedTuple):
    """The step waits for a person, who is asked this."""

    prompt: str


class HandedBack(NamedTuple):
    """The attempt says nothing about the work; any node may begin it again."""

    after: timedelta


class Calls(NamedTuple):
    """The run goes on as a run of that flow."""

    flow: FlowTarget


Fate = Ends | TriedAgain | Repeats | Asks | HandedBack | Calls


def fate_of(outcome: Outcome | None, retry: Retry | None, failures: int, seed: str) -> Fate:
    """Of an attempt whose node lives; `failures` counts those of attempts before it, None as an
    outcome says that it was not begun at all."""
    if outcome is None:
        return HandedBack(HAND_BACK_DELAY)
    if outcome.reason in HAND_BACK:
        # what a node hands back that leaves keeps its place
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
    """Of an attempt whose node was lost, as were those of `losses` attempts before it."""
    if asked_to_end is not None:
        return Ends(Outcome("cancelled", asked_to_end, LOST))
    if losses < max_takeovers:
        return HandedBack(AT_ONCE)
    return Ends(Outcome("failed", "poison", f"{LOST}, after {losses} earlier losses"))


def fate_of_lost_early(
    losses: int, max_takeovers: int, asked_to_end: str | None
) -> Ends | HandedBack:
    """Of one that its node had buffered, as far as anybody knows, as had the nodes of `losses`
    attempts before it. It may be why they were lost: begun, and not marked so in time."""
    return fate_of_lost(losses, EARLY * max_takeovers, asked_to_end)


def when_asked_to_end(fate: Fate, asked_to_end: str | None, is_deleted: bool) -> Fate:
    """The same after somebody asked the run to end, or deleted its schedule, while it was at it."""
    if isinstance(fate, TriedAgain) and (asked_to_end is not None or is_deleted):
        return Ends(fate.outcome)
    if isinstance(fate, HandedBack) and asked_to_end is not None:
        return Ends(Outcome("cancelled", asked_to_end))
    return fate
