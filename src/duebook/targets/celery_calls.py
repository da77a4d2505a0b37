"""What the threads for Celery's broker and result backend do, and what they report, step by
step."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from duebook.targets.celery_broker import NotRevoked, NotSent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duebook.targets.celery_link import AnyBroker, AnyResults
    from duebook.targets.celery_run import CeleryRun
    from duebook.targets.celery_states import CeleryRecord

__all__ = ["Connected", "Looked", "Marked", "Revoked", "Sent", "asking", "sending"]

log = logging.getLogger(__name__)


class Connected(NamedTuple):
    """The broker is reachable."""


class Sent(NamedTuple):
    """The task of a run was sent, or refused."""

    run: CeleryRun
    error: NotSent | None


class Revoked(NamedTuple):
    """The broker has passed on the revocation of these tasks, or refuses it."""

    task_ids: Sequence[str]
    error: str | None = None


class Marked(NamedTuple):
    """Whether the backend has stored the mark of a task that was sent."""

    task_id: str
    is_marked: bool


class Looked(NamedTuple):
    """The records of all requested tasks, and how long reading them took."""

    records: dict[str, CeleryRecord]
    seconds: float


def sending(
    broker: AnyBroker, revokes: Mapping[str, bool], runs: Sequence[CeleryRun]
) -> Iterator[Connected | Sent | Revoked]:
    """Connect, revoke tasks by one request for each kind, and send others. Raises Unavailable;
    MaybeSent if the run that was being sent may have been sent."""
    broker.connect()
    yield Connected()
    for kills in (False, True):
        if ids := [task_id for task_id, asked in revokes.items() if asked == kills]:
            yield _revoked(broker, ids, kills)
    for run in runs:
        if run.stop.reason is not None:  # it was stopped in the meantime
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


def _revoked(broker: AnyBroker, ids: Sequence[str], kills: bool) -> Revoked:
    try:
        broker.revoke(ids, kills)
    except NotRevoked as refused:  # trying again would hold up all other tasks
        told = "the broker of Celery refused to revoke %d task(s), the first is %s: %s"
        log.warning(told, len(ids), ids[0], refused)
        return Revoked(ids, str(refused))
    return Revoked(ids)


def asking(
    results: AnyResults,
    marks: Sequence[str],
    task_ids: Sequence[str],
    monotonic: Callable[[], float],
) -> Iterator[Marked | Looked]:
    """Store marks, then read the records of tasks; raises Unavailable."""
    for task_id in marks:
        yield Marked(task_id, results.mark(task_id))
    if task_ids:
        began = monotonic()
        records = results.look(task_ids)
        yield Looked(records, monotonic() - began)
