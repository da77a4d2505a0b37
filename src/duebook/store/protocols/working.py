"""Runs to claim, to report on and to settle; who knows which task, and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from duebook.model.serving import ALL
from duebook.store.values import NO_DELAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from duebook.model.queue import Queue, QueueLoad
    from duebook.model.run import Claim, LogLine, Outcome, Progress, Token
    from duebook.model.serving import Serving, StrandedTask
    from duebook.store.values import Labels, OwnRun, WaitingStep, Work

__all__ = ["Working"]


class Working(Protocol):
    """A part of a Tx."""

    # -- work
    def list_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str] = (),
        labels: Labels = (),
        namespaces: Serving = ALL,
    ) -> Work:
        """Where `claim` would find runs now, as far as limits allow."""

    def claim(
        self,
        session_id: str,
        queue: str,
        limit: int,
        tasks: Sequence[str] = (),
        namespace: str = "default",
        labels: Labels = (),
    ) -> list[Claim]:
        """Up to `limit` ready runs, by priority, then readiness; none when the session is dead, or
        does not serve the namespace.

        Of a schedule whose runs must not overlap, at most one is under way at any time, and of
        one with `max_concurrent` at most so many; of a queue with limits no more than those
        allow. Runs of tasks other than `tasks` are left to those who know them, steps that need
        other labels to those who have them, and those that expired to nobody.
        """

    def settle(self, token: Token, outcome: Outcome, retry_after: timedelta | None = None) -> bool:
        """End a run; False when the token is no longer current. Repeating it is harmless.

        With `retry_after` only the attempt ends, and the run waits for the next one; a run that
        was to be cancelled ends nevertheless.
        """

    def settle_all(self, ended: Sequence[tuple[Token, Outcome]]) -> set[Token]:
        """As `settle`, for many; returns the tokens that were current."""

    def note_overlaps(self, ended: Iterable[tuple[Token, datetime]]) -> None:
        """Put down until when tasks went on whose attempts the books had ended before; one whose
        run had no other attempt, or that had ended by then, changes nothing."""

    def expire(self, limit: int) -> int:
        """Cancel up to `limit` runs that nobody began by the time they were given."""

    def earliest_expiry(self) -> datetime | None:
        """When the next run that nobody has begun expires."""

    def hand_back(self, token: Token, delay: timedelta = NO_DELAY) -> bool:
        """Return a run unfinished, to be begun again after `delay`; without one it keeps its place
        in its queue. One that was cancelled ends."""

    def own_runs(self, session_id: str) -> list[OwnRun]:
        """The runs that the books say the session is working on."""

    def append_log(self, token: Token, first_seq: int, lines: Sequence[LogLine]) -> None:
        """Add lines, numbered from `first_seq`; lines that are there already stay."""

    def trim_log(self, token: Token, head_seq: int, tail_seq: int) -> None:
        """Drop the lines between the two, both kept."""

    def note_progress(self, told: Sequence[tuple[Token, Progress]]) -> None:
        """Put down how far attempts under way have come; a token that is not current is ignored."""

    # -- who knows which tasks
    def tell_tasks(self, session_id: str, tasks: Sequence[str]) -> None:
        """From now on the session knows these tasks, and no others."""

    def list_served(self) -> list[Serving]:
        """The namespaces that each live worker serves, without repetition."""

    def list_known_tasks(self, namespace: str) -> set[str]:
        """The tasks that any live worker knows which serves the namespace."""

    def list_waiting_steps(self, run_id: str) -> list[WaitingStep]:
        """The steps of a run of a flow that wait for a worker who knows or has something."""

    def list_stranded_tasks(self) -> list[StrandedTask]:
        """The tasks of queued runs that no live worker of their namespace knows.

        Of namespaces that only no worker serves, while others live, it tells nothing.
        """

    # -- queues with limits
    def limit_queue(self, queue: Queue) -> None:
        """Put the limits of a queue in force; what runs already goes on."""

    def free_queue(self, name: str) -> bool:
        """Lift the limits of a queue; whether it had any."""

    def get_queue(self, name: str) -> Queue | None:
        """The limits of a queue, locked; None when it has none."""

    def list_queues(self, of: Serving = ALL) -> list[QueueLoad]:
        """Every queue that has limits or work, by name.

        Of some namespaces: those that have work of them, and how much.
        """
