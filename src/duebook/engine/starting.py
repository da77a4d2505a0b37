"""Lends the free slots of a node to its ticker, so that runs start as soon as they are planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.engine.places import Places
    from duebook.model.run import Claim
    from duebook.store.values import FreeWorker

__all__ = ["Starter", "Starting"]


class Claimer(Protocol):
    """The part of the dispatcher that is used here."""

    @property
    def caught_up(self) -> bool:
        """Whether there are no waiting runs to claim, as far as it knows."""

    def worker(self, free: int) -> FreeWorker: ...

    def took(self, claims: Sequence[Claim]) -> None:
        """These were claimed by another part, and start."""


class Starter:
    """One per node that plans and works."""

    def __init__(
        self,
        slots: Places,
        dispatcher: Claimer,
        may_begin: Callable[[], bool],
        unsure: Callable[[], None],
    ) -> None:
        """`may_begin` says whether this node has its lease; `unsure` is called when a claim may or
        may not have been committed."""
        self._slots = slots
        self._dispatcher = dispatcher
        self._may_begin = may_begin
        self._unsure = unsure

    def attempt(self) -> Starting:
        """For one tick."""
        return Starting(self._slots, self._dispatcher, self._may_begin, self._unsure)


class Starting:
    """What a tick hands to the worker of its own node.

    From the first call of `worker` until this context ends, no other part claims for this node: the
    slots that were counted stay free, and the keeper does not take a run for lost that is in the
    database already but not in a slot yet.
    """

    def __init__(
        self,
        slots: Places,
        dispatcher: Claimer,
        may_begin: Callable[[], bool],
        unsure: Callable[[], None],
    ) -> None:
        self._slots = slots
        self._dispatcher = dispatcher
        self._may_begin = may_begin
        self._unsure = unsure
        self._holds = False

    def worker(self) -> FreeWorker | None:
        """None while other runs wait, which come first, or while another part claims."""
        if not self._dispatcher.caught_up or not self._may_begin():
            return None
        self._holds = self._holds or self._slots.claiming.acquire(blocking=False)
        return self._dispatcher.worker(self._slots.room().free) if self._holds else None

    def give_up(self) -> None:
        """More is due than a tick takes, so a claim decides what starts first."""
        if self._holds:
            self._holds = False
            self._slots.claiming.release()

    def begin(self, claims: Sequence[Claim]) -> None:
        """Start what the worker was given; call it after the commit."""
        if claims:
            self._slots.begin(list(claims))
            self._dispatcher.took(claims)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._holds and kind is not None:
            self._unsure()
        self.give_up()
