"""Due schedules out, plans in; sessions and their leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from duebook.model.serving import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from duebook.model.plan import Plan
    from duebook.model.serving import Serving
    from duebook.store.values import Mark, Neighbour, Pulse, SessionInfo, Taken

__all__ = ["Planning"]


class Planning(Protocol):
    """A part of a Tx."""

    # -- the tick
    def take(self, limit: int, after: Mark | None = None) -> Taken:
        """Up to `limit` active schedules whose wake time has come, the most overdue first.

        They stay locked until the transaction ends. One whose definition this node cannot read
        is returned apart: it shows its problem, and is looked at again later. `after` is a hint:
        nothing before it needs to be found.
        """

    def commit(self, plans: Sequence[Plan], session_id: str | None) -> int:
        """Write runs, ledger entries and the schedules' new state; returns the number of runs.

        A due time that has a run already becomes a ledger entry (`already_started`). A plan of
        another version than the one in force changes nothing.
        """

    def mark_problem(self, schedule_id: str, problem: str, wake_at: datetime | None) -> None:
        """Show what is wrong with a schedule that cannot be planned; look again at `wake_at`, or
        not before it is resumed."""

    def earliest_wake(self, after: Mark | None = None) -> datetime | None:
        """When the next active schedule wants to be looked at; `after` is a hint as above."""

    def count_due(self) -> int:
        """How many active schedules want to be looked at by now."""

    # -- sessions and leases
    def begin_session(self, session: SessionInfo, lease: timedelta) -> None: ...

    def renew(self, session_id: str, lease: timedelta) -> bool:
        """Prolong a session's lease; False when it was declared dead."""

    def end_session(self, session_id: str) -> None:
        """The node leaves; whatever it still runs is taken over, and it leads no more."""

    def bury(self) -> list[str]:
        """Declare sessions dead whose lease ran out; returns their ids."""

    def neighbours(self, session_id: str) -> list[Neighbour]:
        """The other sessions of that one's machine which have not ended."""

    def bury_gone(self, session_ids: Sequence[str]) -> list[str]:
        """Declare sessions dead whose process is gone, whatever their lease says, and let others
        lead at once; returns those that were not dead yet."""

    def take_over(self, limit: int) -> int:
        """Requeue up to `limit` runs of dead sessions, in their places; beyond `max_takeovers` they
        fail."""

    def pulse(
        self,
        session_id: str,
        lease: timedelta,
        queues: Sequence[str],
        leads: bool,
        namespaces: Serving = ALL,
    ) -> Pulse:
        """As Store.pulse, in a transaction with other things."""

    def holds_term(self, session_id: str, term: int) -> bool:
        """Whether the session leads under this term; nobody can take over before the
        transaction ends."""
