"""What the threads do that talk to Celery's broker and result backend, bit by bit, and what they
report of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duebook.targets.celery_broker import NotSent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duebook.targets.celery_link import AnyBroker, AnyResults
    from duebook.targets.celery_run import CeleryRun
    from duebook.targets.celery_states import CeleryRecord

__all__ = ["Connected", "Looked", "Marked", "Revoked", "Sent", "asking", "sending"]


class Connected(NamedTuple):
    """The broker is there."""


class Sent(NamedTuple):
    """The task of a run was sent, or not taken."""

    run: CeleryRun
    error: NotSent | None


class Revoked(NamedTuple):
    """The broker has passed on that these tasks are revoked."""

    task_ids: Sequence[str]


class Marked(NamedTuple):
    """The backend has been told that a task was sent, if it took that."""

    task_id: str
    is_marked: bool


class Looked(NamedTuple):
    """What the backend has of all tasks that were asked for, and how long it took."""

    records: dict[str, CeleryRecord]
    seconds: float


def sending(
    broker: AnyBroker, revokes: Mapping[str, bool], runs: Sequence[CeleryRun]
) -> Iterator[Connected | Sent | Revoked]:
    """Connect, revoke tasks, one request for all, and send others. Raises Unavailable; MaybeSent
    when the run that has begun may have been sent."""
    broker.connect()
    yield Connected()
    for kills in (False, True):
        if ids := [task_id for task_id, asked in revokes.items() if asked == kills]:
            broker.revoke(ids, kills)
            yield Revoked(ids)
    for run in runs:
        if run.stop.reason is not None:  # by now
            continue
        run.is_begun = True
        error = None
        claim, target = run.claim, run.target
        values = claim.payload if target.kwargs is None else target.kwargs
        try:
            broker.send(target, values, run.task_id, not claim.secret_values, claim.traceparent)
        except NotSent as refused:
            error = refused
        yield Sent(run, error)


def asking(
    results: AnyResults,
    marks: Sequence[str],
    task_ids: Sequence[str],
    monotonic: Callable[[], float],
) -> Iterator[Marked | Looked]:
    """Leave marks, then read the records of tasks; raises Unavailable."""
    for task_id in marks:
        yield Marked(task_id, results.mark(task_id))
    if task_ids:
        began = monotonic()
        records = results.look(task_ids)
        yield Looked(records, monotonic() - began)
