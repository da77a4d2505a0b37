"""Schedules, templates, runs, logs and queues as JSON objects, the same wherever they are shown."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from duebook.errors import Invalid
from duebook.model.http_target import HIDDEN
from duebook.model.target import HttpTarget, load_target
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.model.queue import QueueLoad
    from duebook.model.run import Attempt, LogLine, Run
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.target import Target
    from duebook.model.template import ScheduleTemplate

__all__ = [
    "attempt_form",
    "log_form",
    "queue_form",
    "run_form",
    "schedule_form",
    "template_form",
]


def schedule_form(schedule: Schedule) -> dict[str, Any]:
    """The whole schedule: its definition and its state."""
    state = {
        name: _plain(getattr(schedule, name))
        for name in (
            "id",
            "namespace",
            "name",
            "version",
            "status",
            "next_due_at",
            "watermark",
            "created_at",
            "created_by",
            "paused_at",
            "paused_until",
            "pause_reason",
            "problem",
        )
    }
    run = schedule.last_run
    if run is not None:
        state |= {"last_run_id": run.id, "last_run_at": _plain(run.started_at or run.created_at)}
    return state | (_definition(schedule.spec) if schedule.spec else {})


def _definition(spec: ScheduleSpec) -> dict[str, Any]:
    return spec.to_json() | {"target": _target_form(spec.target)}


def _target_form(target: Target) -> dict[str, Any]:
    return (target.masked() if isinstance(target, HttpTarget) else target).to_json()


def template_form(template: ScheduleTemplate) -> dict[str, Any]:
    """The whole template; its defaults as a schedule has them."""
    form = {field.name: _plain(getattr(template, field.name)) for field in fields(template)}
    defaults = dict(template.defaults)
    if "target" in defaults:
        try:
            defaults["target"] = _target_form(load_target(defaults["target"]))
        except Invalid:  # a newer node wrote it: nobody here knows what is secret
            defaults["target"] = HIDDEN
    return form | {"defaults": defaults}


def run_form(run: Run) -> dict[str, Any]:
    return {field.name: _plain(getattr(run, field.name)) for field in fields(run)}


def attempt_form(attempt: Attempt) -> dict[str, Any]:
    return {field.name: _plain(getattr(attempt, field.name)) for field in fields(attempt)}


def log_form(line: LogLine) -> dict[str, Any]:
    return {"at": format_instant(line.at), "stream": line.stream, "text": line.text}


def queue_form(load: QueueLoad) -> dict[str, Any]:
    queue = load.queue
    limits = {
        "concurrency": queue.concurrency,
        "rate": None if queue.rate is None else str(queue.rate),
    }
    return {"name": queue.name, **limits, "queued": load.queued, "running": load.running}


def _plain(value: Any) -> Any:
    return format_instant(value) if isinstance(value, datetime) else value
