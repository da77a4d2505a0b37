"""Writes the events that channels deliver, with what `explain` says about each problem.

A message may be read on another machine and another day, so its times carry a date and a zone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from duebook.alerting.words import message_text, message_title
from duebook.errors import DuebookError, counted
from duebook.explain import explain_at
from duebook.explain.runs import explain_run
from duebook.explain.words import Clock, length_text
from duebook.ids import new_id
from duebook.model.alert import ALERTS
from duebook.model.event import Draft, json_text
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.alerting import Told
    from duebook.budget import Budget
    from duebook.model.alert import Alert
    from duebook.store.base import Tx

__all__ = ["LONGEST", "alert_event"]

log = logging.getLogger(__name__)

LONGEST: Final = 2.0
"""Seconds of processor time for all explanations in one transaction, as it holds up others."""


def alert_event(tx: Tx, told: Told, budget: Budget) -> Draft:
    """The event of a message, for channels to deliver."""
    first = told.alerts[0]
    over = told.status == "resolved"
    sentences = [_over(alert) if over else _sentence(tx, alert, budget) for alert in told.alerts]
    data: dict[str, Any] = {
        "rule": told.rule.name,
        "status": told.status,
        "kind": first.kind,
        "title": message_title(told.alerts, told.count, told.status, told.repeated),
        "text": message_text(told.alerts, sentences, told.count),
        "incident": told.key,
        "schedule": first.schedule if told.count == 1 else None,
        "run": first.run_id if told.count == 1 else None,
        "count": told.count,
        "at": format_instant(tx.now),
        "channels": list(told.rule.to),
    }
    meta = {"schedule": data["schedule"], "run_id": data["run"], "rule": told.rule.name}
    texts = json_text(data), json_text(meta)
    return Draft(new_id(), told.rule.namespace, ALERTS, f"alert.{told.status}", told.key, *texts)


def _over(alert: Alert) -> str:
    lasted = length_text((alert.resolved_at or alert.seen_at) - alert.opened_at)
    found = f"found {counted(alert.count, 'time')} since {_in_full(alert.opened_at)}"
    return f"over after {lasted}, {found}"


def _sentence(tx: Tx, alert: Alert, budget: Budget) -> str:
    """What `explain` says about the due time or the run; otherwise the recorded error."""
    if budget.is_spent:
        return _noted(alert)
    try:
        return _explained(tx, alert, budget) or _noted(alert)
    except DuebookError as error:
        log.debug("no explanation of %s: %s", alert.subject, error)
        return _noted(alert)


def _explained(tx: Tx, alert: Alert, budget: Budget) -> str:
    id_, zone = None, "UTC"
    if alert.schedule is not None:
        id_ = tx.schedules.find_schedule(alert.namespace, alert.schedule, deleted=True)
    if id_ is not None and alert.due_at is not None:
        told = explain_at(tx, id_, alert.due_at, budget=budget)
        return f"due {_in_full(alert.due_at, told.tz)}: {told}"
    if id_ is not None:
        spec = tx.schedules.get_schedule(id_).spec
        zone = zone if spec is None else spec.tz
    if alert.run_id is not None:
        run = tx.runs.get_run(alert.run_id)
        told = explain_run(run, Clock(zone, run.created_at), tx.now)
        return f"{_in_full(run.created_at, zone)}: {told}"
    if id_ is not None and alert.kind == "no_success":
        at = tx.alerts.last_success(id_)
        return "it has not succeeded yet" if at is None else f"last success: {_in_full(at, zone)}"
    return ""


def _noted(alert: Alert) -> str:
    return f"{_in_full(alert.opened_at)}: {alert.text}" if alert.text else ""


def _in_full(moment: datetime, zone: str = "UTC") -> str:
    return Clock(zone, moment).full(moment)
