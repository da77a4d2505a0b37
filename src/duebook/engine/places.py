"""What dispatcher and keeper know of the places in which a node works, and those of what executes a
run: how much room there is, and how runs begin and are asked to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from duebook.model.run import Claim, Outcome, Token

__all__ = ["Performer", "Places", "Room", "S", "StopSignal"]


class Room(NamedTuple):
    """How many runs a node can use."""

    free: int
    """places that wait for a run"""
    ahead: int
    """how many more may be buffered"""


class StopSignal(Protocol):
    """How a run is asked to end."""

    def set(self, reason: str) -> None: ...

    @property
    def reason(self) -> str | None: ...


S = TypeVar("S", bound=StopSignal)


class Performer(Protocol[S]):
    """Executes a run's target; raises nothing that says how the work ended."""

    def perform(self, claim: Claim, stop: S) -> Outcome: ...

    def begin(
        self, begun: Sequence[tuple[Claim, S]], ended: Callable[[Claim, Outcome], None]
    ) -> list[Claim]:
        """Begin the runs that need no thread, and tell when each has ended; returns the others."""

    def new_stop(self, claim: Claim) -> S: ...

    def is_cooperative(self, claim: Claim) -> bool:
        """Whether it cannot be made to end, but only asked; then the slots watch its time."""


class Places(Protocol):
    """What dispatcher and keeper know of the places in which a node works."""

    claiming: threading.Lock
    """held from a claim until the places know of it"""

    work_waits: bool
    """whether a place that gets free shall ring: there is more to claim than there were places"""

    def room(self) -> Room: ...

    def begin(self, claims: list[Claim]) -> None:
        """Begin what is marked as begun on the books, and the others as there are places."""

    def working(self) -> set[Token]: ...

    def stop(self, token: Token, reason: str) -> None:
        """Ask one run to end; harmless when it has ended."""

    def stop_all(self, reason: str) -> None: ...
