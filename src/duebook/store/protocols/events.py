"""The log of events, and who reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime, timedelta

    from duebook.model.consumer import Consumer, Cursor, DeadLetter, HeldKey, Lag, Move, Partition
    from duebook.model.event import Draft, Event, TopicUse
    from duebook.model.listing import Found, PagePosition
    from duebook.store.values import Batch

    Topics = Sequence[str] | None
    Share = Callable[[str, Collection[str], Mapping[int, str | None]], tuple[set[int], set[int]]]
    """who am I, who lives, whose is what: what to give up and what to take"""

__all__ = ["Events"]


class Events(Protocol):
    """A part of a Tx."""

    # -- the log of events
    def append_events(self, drafts: Sequence[Draft]) -> None:
        """Write events that belong to no schedule or run."""

    def stamp_events(self, limit: int) -> int | None:
        """Give up to `limit` events that can be seen their positions; returns how many.

        None when somebody else is at it. Whoever reads the log never finds a position beyond
        which a smaller one appears later.
        """

    def last_position(self) -> int:
        """0 for an empty log."""

    def last_own_position(self, namespace: str, after: int, until: int) -> int:
        """The position of the last event of a namespace after the one and up to the other place;
        0 when there is none."""

    def first_position(self) -> int:
        """Where the log begins, for what is older is no longer kept; 1 while it is empty."""

    def position_at(self, moment: datetime) -> int:
        """The position after which all events come that were written at `moment` or later."""

    def read_events(
        self,
        namespace: str,
        after: int,
        limit: int,
        topics: Topics = None,
        parts: Sequence[int] = (0,),
        partitions: int = 1,
        type_: str | None = None,
        keys: Sequence[str] | None = None,
    ) -> Batch:
        """Up to `limit` events after a position, in their order; of some partitions of the keys,
        or of some keys only.

        Without topics: of all of them but those about life cycles. It ends earlier with the event
        that makes it more than MOST_BYTES of data.
        """

    def read_events_back(
        self,
        namespace: str,
        before: int,
        limit: int,
        topics: Topics = None,
        type_: str | None = None,
        key: str | None = None,
    ) -> Batch:
        """Up to `limit` events before a position, the newest first; `after` of the batch is where
        to go on: everything from there on was looked at."""

    def list_topics(self, namespace: str, after: int) -> list[TopicUse]:
        """The topics of what comes after a position, by name."""

    def get_event(self, namespace: str, event_id: str) -> Event:
        """Raises NotFound."""

    # -- who reads the log
    def save_consumer(self, consumer: Consumer, start: int) -> Consumer:
        """A group or sink that begins after a position; one that exists goes on where it is.

        Its topics, attempts and options become those given; its partitions stay. Raises Conflict
        when it is of another kind.
        """

    def get_consumer(self, namespace: str, name: str) -> Consumer:
        """Raises NotFound."""

    def list_consumers(self, namespace: str | None = None) -> list[Consumer]:
        """By namespace and name."""

    def remove_consumer(self, namespace: str, name: str) -> bool:
        """Whether there was one; its dead letters go with it."""

    def share_cursors(
        self, consumer: Consumer, member: str, lease: timedelta, share: Share
    ) -> list[Cursor]:
        """A member lives, gives up and takes what `share` says, and learns what is its own.

        Raises NotFound when the consumer was removed.
        """

    def renew_member(self, consumer: Consumer, member: str, lease: timedelta) -> None:
        """A member lives."""

    def leave_group(self, consumer: Consumer, member: str) -> None:
        """What a member owned is free."""

    def hold_cursors(self, consumer: Consumer, member: str, cursors: Sequence[Cursor]) -> set[int]:
        """The partitions whose cursors are still the member's, and where they were; nobody takes
        them over before the transaction ends."""

    def list_held(self, consumer: Consumer, member: str) -> list[HeldKey]:
        """The keys that wait by themselves in the partitions of a member."""

    def get_position(self, consumer: Consumer, part: int, key: str) -> int:
        """How far a consumer has come with a key of a partition."""

    def move_cursors(self, consumer: Consumer, member: str, moves: Sequence[Move]) -> set[int]:
        """Move cursors by their terms, hold and free keys, and bury what cannot be delivered;
        returns the partitions whose cursors were moved. Of the others nothing changes."""

    def take_letters(self, consumer: Consumer, parts: Sequence[int], limit: int) -> list[Event]:
        """Dead letters of these partitions that shall be delivered once more, the oldest first."""

    def settle_letter(self, consumer: Consumer, event_id: str, error: str | None) -> bool:
        """A dead letter was delivered, or was not and rests again; False: it is none any more."""

    def list_letters(
        self, namespace: str, name: str | None, limit: int, after: PagePosition | None = None
    ) -> Found[DeadLetter]:
        """The newest first, after a place; up to MOST_BYTES of them."""

    def count_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """How many dead letters a consumer has; with an event whether it is one of them."""

    def replay_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """Have dead letters delivered once more, one or all; returns how many."""

    def drop_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """Give dead letters up, one or all; returns how many."""

    def replay(self, namespace: str, name: str, position: int) -> int:
        """Have what comes after a position delivered again, marked as such; returns in how many
        partitions. Raises NotFound, and Invalid for a position that is not on the log."""

    def list_lags(self) -> list[Lag]:
        """How far each consumer is behind."""

    def list_partitions(self, namespace: str, name: str) -> list[Partition]:
        """How far a consumer has come in each of its partitions."""
