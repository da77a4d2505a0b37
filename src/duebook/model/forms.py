"""What is on the books as JSON objects, the same wherever they are shown, without secrets."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid
from duebook.model.hidden import load_shown
from duebook.model.secret import HIDDEN, show_payload
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from duebook.model.access import AccessToken
    from duebook.model.acted import Acted
    from duebook.model.change import Change
    from duebook.model.edited import Edited
    from duebook.model.flow_view import FlowView
    from duebook.model.node import LiveNode
    from duebook.model.queue import Queue, QueueLoad
    from duebook.model.quota import NamespaceUse, Quota
    from duebook.model.readiness import Readiness
    from duebook.model.run import Attempt, LogLine, Run
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.template import ScheduleTemplate

__all__ = [
    "acted_form",
    "attempt_form",
    "change_form",
    "defaults_shown",
    "definition_form",
    "definition_of",
    "edit_form",
    "flow_form",
    "limits_form",
    "log_form",
    "namespace_form",
    "node_form",
    "output_shown",
    "queue_form",
    "quota_form",
    "readiness_form",
    "run_form",
    "schedule_form",
    "template_form",
    "token_form",
    "token_scope",
]


_STATE: Final = (
    "id",
    "namespace",
    "name",
    "version",
    "status",
    "next_due_at",
    "watermark",
    "created_at",
    "created_by",
    "updated_at",
    "last_enqueued_at",
    "paused_at",
    "paused_until",
    "pause_reason",
    "problem",
)
_LAST_RUN: Final = ("last_run_id", "last_run_at", "last_run_status", "last_run_reason")


def schedule_form(schedule: Schedule) -> dict[str, Any]:
    """The whole schedule: its definition and its state."""
    state = {name: _plain(getattr(schedule, name)) for name in _STATE}
    run = schedule.last_run
    last = (run.id, _plain(run.at), run.status, run.reason) if run else (None,) * len(_LAST_RUN)
    state |= {"enabled": schedule.status == "active"}
    state |= dict(zip(_LAST_RUN, last, strict=True))
    if schedule.notes:
        state["notes"] = [note._asdict() for note in schedule.notes]
    return state | (definition_form(schedule.spec) if schedule.spec else {})


def definition_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in the form of a whole schedule: its name, and whether it is `enabled`, stay.

    What is no such form, but a definition, stays as it is.
    """
    if not {"id", "version", "status"} <= form.keys():
        return dict(form)
    state = {*_STATE, *_LAST_RUN, "notes"} - {"name"}
    return {name: value for name, value in form.items() if name not in state}


def definition_form(spec: ScheduleSpec, always: Collection[str] = ()) -> dict[str, Any]:
    """A definition as it may be shown; at their defaults only `always` these are in it."""
    form = spec.to_json(always) | {"target": spec.target.masked().to_json()}
    return _payload_shown(form)


def edit_form(edit: Edited) -> dict[str, Any]:
    return {
        "before": definition_form(edit.before),
        "after": definition_form(edit.after),
        "was_due": [format_instant(at) for at in edit.was_due],
        "will_be_due": [format_instant(at) for at in edit.will_be_due],
        "notes": [note._asdict() for note in edit.notes],
    }


def defaults_shown(defaults: dict[str, Any]) -> dict[str, Any]:
    """The defaults of a template as they may be shown."""
    defaults = _payload_shown(defaults)
    if "target" not in defaults:
        return defaults
    try:
        target: Any = load_shown(defaults["target"]).to_json()
    except Invalid:  # a newer node wrote it: nobody here knows what is secret
        target = HIDDEN
    return defaults | {"target": target}


def template_form(template: ScheduleTemplate) -> dict[str, Any]:
    """The whole template; its defaults as a schedule has them."""
    form = {field.name: _plain(getattr(template, field.name)) for field in fields(template)}
    return form | {"defaults": defaults_shown(template.defaults)}


def run_form(run: Run) -> dict[str, Any]:
    form = {field.name: _plain(getattr(run, field.name)) for field in fields(run)}
    del form["output_secrets"]
    return _payload_shown(form | {"state": run.state, "output": output_shown(run, run.output)})


def output_shown(run: Run, output: Any) -> Any:
    """What a run returned, as it may be shown."""
    return show_payload(output, run.output_secrets or ())


def _payload_shown(form: dict[str, Any]) -> dict[str, Any]:
    return form | {"payload": show_payload(form["payload"])} if "payload" in form else form


def flow_form(view: FlowView) -> dict[str, Any]:
    form = {field.name: getattr(view, field.name) for field in fields(view)}
    form["updated_at"] = _plain(view.updated_at)
    form["params"], form["steps"] = list(view.params), list(view.steps)
    form["waits"] = list(view.waits)
    form["last_run"] = None if view.last_run is None else run_form(view.last_run)
    return form


def attempt_form(attempt: Attempt) -> dict[str, Any]:
    return {field.name: _plain(getattr(attempt, field.name)) for field in fields(attempt)}


def change_form(change: Change) -> dict[str, Any]:
    return {field.name: _plain(getattr(change, field.name)) for field in fields(change)}


def log_form(line: LogLine) -> dict[str, Any]:
    return {"at": format_instant(line.at), "stream": line.stream, "text": line.text}


def acted_form(acted: Acted) -> dict[str, Any]:
    return {field.name: getattr(acted, field.name) for field in fields(acted)} | {
        "names": list(acted.names)
    }


def node_form(node: LiveNode) -> dict[str, Any]:
    form = {field.name: _plain(getattr(node, field.name)) for field in fields(node)}
    lists = {name: list(getattr(node, name)) for name in ("roles", "tasks", "queues")}
    lists["namespaces"] = node.namespaces.to_json()
    return form | lists | {"clock_ahead": node.clock_ahead.total_seconds()}


def queue_form(load: QueueLoad) -> dict[str, Any]:
    limits = limits_form(load.queue)
    return {"name": load.queue.name, **limits, "queued": load.queued, "running": load.running}


def limits_form(queue: Queue) -> dict[str, Any]:
    return {
        "concurrency": queue.concurrency,
        "rate": None if queue.rate is None else str(queue.rate),
    }


def quota_form(quota: Quota) -> dict[str, Any]:
    return {
        "schedules": quota.schedules,
        "fires_per_minute": quota.fires_per_minute,
        "payload_bytes": quota.payload_bytes,
        "definition_bytes": quota.definition_bytes,
        "max_priority": quota.max_priority,
    }


def namespace_form(use: NamespaceUse) -> dict[str, Any]:
    """The quota of a namespace, and what is used of it."""
    used = {
        "schedules": use.schedules,
        "fires_per_minute": use.fires_per_minute,
        "definition_bytes": use.definition_bytes,
    }
    return {"name": use.quota.namespace, "quota": quota_form(use.quota), "used": used}


def token_form(token: AccessToken) -> dict[str, Any]:
    """All that is known about a token; its secret is not."""
    form = {field.name: _plain(getattr(token, field.name)) for field in fields(token)}
    return form | token_scope(token)


def token_scope(token: AccessToken) -> dict[str, Any]:
    """What a token may do, where and until when."""
    return {
        "role": token.role.value,
        "namespaces": list(token.namespaces),
        "expires_at": _plain(token.expires_at),
    }


def readiness_form(readiness: Readiness) -> dict[str, Any]:
    """The whole answer; strangers are told only whether it is `ready`."""
    return {
        "ready": readiness.ready,
        "checked_at": _plain(readiness.checked_at),
        "checks": readiness.checks,
        "problems": [
            {"code": problem.code, "message": problem.message} for problem in readiness.problems
        ],
        "notes": [{"code": note.code, "message": note.message} for note in readiness.notes],
    }


def _plain(value: Any) -> Any:
    return format_instant(value) if isinstance(value, datetime) else value
