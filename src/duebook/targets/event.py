"""Creates events of due times and runs: renders templates, writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.errors import Invalid
from duebook.ids import new_id
from duebook.model.event import (
    Draft,
    Ended,
    cause,
    check_key,
    check_topic,
    check_type,
    data_text,
    json_text,
)
from duebook.model.run import Claim, Outcome, Run, Token
from duebook.model.target import EventTarget
from duebook.targets.hiding import hiding_run
from duebook.targets.templates import TemplateFailed, rendered

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Fire, Snapshot

__all__ = ["end_at_once", "new_run", "perform_event"]


def end_at_once(
    snapshot: Snapshot, fire: Fire, now: datetime, payload: dict[str, Any] | None = None
) -> Ended:
    """The ended run of a due time, or a manual one, with its event; a bad template fails only
    this."""
    run_id, target = new_id(), snapshot.spec.target
    assert isinstance(target, EventTarget)  # noqa: S101 - only these take no time
    due_at = None if fire.origin == "manual" else fire.due_at
    if target.fixed is not None:
        meta = cause(
            snapshot.name,
            snapshot.schedule_id,
            due_at,
            run_id,
            snapshot.owner.user,
            fire.origin,
        )
        return Ended(run_id, _draft(snapshot, target, target.fixed, meta))
    run = new_run(snapshot, run_id, now, fire.origin, due_at, payload)._replace(
        interval=fire.interval
    )
    claim = Claim(run, Token(run_id, 1, ""), snapshot.spec, snapshot.owner.user)
    try:
        return Ended(run_id, make_draft(claim))
    except Invalid as error:  # a template, or its result
        return Ended(run_id, None, hiding_run(claim)(str(error)))


def _draft(snapshot: Snapshot, target: EventTarget, data: str, meta: dict[str, Any]) -> Draft:
    key = snapshot.name if target.key is None else target.key
    kind = target.type or target.topic
    text = json_text(meta)
    return Draft(new_id(), snapshot.owner.namespace, target.topic, kind, key, data, text)


def make_draft(claim: Claim) -> Draft:
    """The event of a run with an event target. The values of a step are inserted, and never read as
    templates. Raises TemplateFailed and Invalid."""
    run = claim.run
    spec = rendered(claim).spec if claim.step_context is None else claim.spec
    target = spec.target
    assert isinstance(target, EventTarget)  # noqa: S101 - the caller looked
    payload = spec.payload if run.payload is None else run.payload
    meta = cause(run.schedule, run.schedule_id, run.due_at, run.id, claim.user, run.origin)
    topic = check_topic(target.topic, "event topic")
    return Draft(
        new_id(),
        run.namespace,
        topic,
        topic if target.type is None else check_type(target.type, "event type"),
        check_key(run.schedule or run.id if target.key is None else target.key, "event key"),
        data_text(payload if target.data is None else target.data, "event data"),
        json_text(meta),
    )


def perform_event(claim: Claim) -> Outcome:
    """A step of a flow, or a run that was queued after all: retried manually, or planned by an
    older node."""
    try:
        return Outcome("succeeded", events=(make_draft(claim),))
    except TemplateFailed as error:
        return Outcome("failed", "template", str(error))
    except Invalid as error:
        return Outcome("failed", "event", str(error))


def new_run(
    snapshot: Snapshot,
    run_id: str,
    now: datetime,
    origin: Any = "manual",
    due_at: datetime | None = None,
    payload: dict[str, Any] | None = None,
) -> Run:
    """A run as templates see it."""
    spec = snapshot.spec
    return Run(
        id=run_id,
        namespace=snapshot.owner.namespace,
        schedule_id=snapshot.schedule_id,
        schedule=snapshot.name,
        version=snapshot.version,
        due_at=due_at,
        origin=origin,
        trigger="manual" if origin == "manual" else f"schedule:{spec.trigger_text}",
        queue=spec.queue,
        priority=spec.priority,
        status="queued",
        attempt=0,
        failures=0,
        losses=0,
        payload=payload,
        created_at=now,
        ready_at=now,
    )
