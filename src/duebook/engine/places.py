"""What dispatcher and keeper know of a node's places and of what executes a run: how much room
there is, and how runs start and are asked to stop."""

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
    """How a run is asked to stop."""

    def set(self, reason: str) -> None: ...

    @property
    def reason(self) -> str | None: ...


S = TypeVar("S", bound=StopSignal)


class Performer(Protocol[S]):
    """Executes a run's target; returns failures of the work as outcomes, without raising."""

    def perform(self, claim: Claim, stop: S) -> Outcome: ...

    def begin(
        self, begun: Sequence[tuple[Claim, S]], ended: Callable[[Claim, Outcome], None]
    ) -> list[Claim]:
        """Start the runs that need no thread, and report each end; returns the other runs."""

    def new_stop(self, claim: Claim) -> S: ...

    def is_cooperative(self, claim: Claim) -> bool:
        """Whether it can only be asked to stop, not forced; then the slots watch its timeout."""


class Places(Protocol):
    """What dispatcher and keeper know of the places in which a node works."""

    claiming: threading.Lock
    """held from a claim until its runs have reached the places"""

    work_waits: bool
    """whether a freed place should ring, because more work waits than there were places"""

    def room(self) -> Room: ...

    def begin(self, claims: list[Claim]) -> None:
        """Start runs that are marked as started in the database, and the others as places
        permit."""

    def working(self) -> set[Token]: ...

    def stop(self, token: Token, reason: str) -> None:
        """Ask one run to end; harmless when it has ended."""

    def stop_all(self, reason: str) -> None: ...
