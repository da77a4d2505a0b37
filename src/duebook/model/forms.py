"""Schedules, runs, logs and queues as JSON objects: the same in REST and on the command line."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from duebook.model.target import HttpTarget
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.model.queue import QueueLoad
    from duebook.model.run import Attempt, LogLine, Run
    from duebook.model.schedule import Schedule, ScheduleSpec

__all__ = ["attempt_form", "log_form", "queue_form", "run_form", "schedule_form"]


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
    form = spec.to_json()
    if isinstance(spec.target, HttpTarget):
        form["target"] = spec.target.masked().to_json()
    return form


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
