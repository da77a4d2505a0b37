"""The shapes of the requests and responses of each operation, for the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired, get_args, get_origin

from duebook.api.schemas import (
    bulk,
    definitions,
    events,
    flows,
    others,
    runs,
    schedules,
)
from duebook.api.shapes import Object, items_of
from duebook.client import TABLE
from duebook.explain import Explanation
from duebook.model.access import TokenMade
from duebook.model.codec import Shown, shown_as
from duebook.model.consumer import ConsumerDetails, SinkMade
from duebook.model.feed import FeedMade
from duebook.model.listing import Listing
from duebook.model.queue import QueueLoad
from duebook.model.quota import Quota
from duebook.model.readiness import Readiness as Status
from duebook.model.run import Run, RunDetails

if TYPE_CHECKING:
    from duebook.client.use_cases import Argument, UseCase

__all__ = ["ANSWERS", "BODIES", "answer_of", "body_of"]


@cache
def _listed(kind: Any, *, pages: bool) -> Any:
    return items_of(f"{shown_as(kind)}List", kind, str | None if pages else None)


ANSWERS: Final[dict[str, Any]] = {
    "render_schedule": schedules.Rendered,
    "skip_next": schedules.Skipped,
    "backfill_schedule": schedules.BackfillAnswer,
    "preview_schedule": schedules.DueTimes,
    "explain_schedule": _listed(Explanation, pages=False),
    "list_schedule_runs": _listed(Run, pages=True),
    "list_ledger": schedules.LedgerList,
    "create_schedules": bulk.Created,
    "get_run": RunDetails,
    "cancel_run": Run,
    "get_output": runs.Output,
    "get_log": runs.LogList,
    "list_flows": flows.FlowList,
    "validate_flow": flows.Validation,
    "forget_flows": flows.Forgotten,
    "list_flow_runs": flows.StepList,
    "stop_flow": flows.StepList,
    "list_steps": flows.StepList,
    "list_events": events.EventList,
    "publish_event": events.Published,
    "get_position": events.LogPosition,
    "list_consumers": events.ConsumerList,
    "get_consumer": ConsumerDetails,
    "save_sink": SinkMade,
    "replay_events": events.ReplayAnswer,
    "replay_dead_letters": events.DeadLettersAnswer,
    "drop_dead_letters": events.DeadLettersAnswer,
    "list_calendar_days": others.CalendarDays,
    "limit_queue": QueueLoad,
    "create_token": TokenMade,
    "create_feed": FeedMade,
    "get_me": others.Me,
    "get_status": Status,
    "healthz": others.Health,
    "readyz": others.Readiness,
}
"""For operations that return more than their result, or name it differently."""
BODIES: Final[dict[str, Any]] = {
    "create_schedule": definitions.ScheduleCreation,
    "replace_schedule": definitions.ScheduleReplacement,
    "change_schedule": definitions.ScheduleChange,
    "pause_schedule": "PauseRequest",
    "trigger_schedule": "TriggerRequest",
    "render_schedule": "RenderRequest",
    "reschedule": "RescheduleRequest",
    "skip_next": "SkipRequest",
    "restore_due_time": "RestoreRequest",
    "preview_update": definitions.ScheduleChange,
    "backfill_schedule": "BackfillRequest",
    "undo_backfill": "UndoBackfillRequest",
    "approve_catchup": "ApproveRequest",
    "reject_catchup": "RejectRequest",
    "decide_catchup": "BulkDecisionRequest",
    "create_schedules": bulk.BulkCreation,
    "simulate": "SimulationRequest",
    "spread": "SpreadRequest",
    "act_on_schedules": bulk.BulkAction,
    "declare_schedules": bulk.DeclarationRequest,
    "validate_flow": "FlowSource",
    "forget_flows": "FlowDirectory",
    "start_flow": "FlowStart",
    "retry_flow": "FlowRetry",
    "approve_step": "StepAnswer",
    "reject_step": "StepAnswer",
    "publish_event": events.Publication,
    "enqueue_run": definitions.EnqueueRequest,
    "save_sink": events.SinkDefinition,
    "set_ping": "PingRequest",
    "replay_events": events.ReplayRequest,
    "replay_dead_letters": "DeadLettersRequest",
    "drop_dead_letters": "DeadLettersRequest",
    "limit_queue": others.QueueLimits,
    "save_template": definitions.TemplateDefaults,
    "save_calendar": definitions.CalendarDefinition,
    "preview_calendar": definitions.CalendarDraft,
    "add_window": "WindowCreation",
    "shadow_on": "ShadowRequest",
    "shadow_off": "ShadowRequest",
    "create_feed": "FeedCreation",
    "save_alert_rule": "AlertRuleDefinition",
    "silence_alert_rule": "AlertSilence",
    "limit_namespace": Quota,
    "keep_namespace": others.NamespaceKeep,
    "drain_node": "DrainRequest",
    "diff_zones": "ZonesDiffRequest",
    "create_token": others.TokenCreation,
}
"""The shape of a body; if it is a name, its fields are the arguments of the use case."""


def body_of(case: UseCase) -> Any:
    """The shape of a request's body; None if there is none."""
    shape = BODIES.get(case.name)
    return _fields(shape) if isinstance(shape, str) else shape


@cache
def _fields(name: str) -> Object:
    """The shape with that name, which operations with the same arguments share."""
    case = next(TABLE[operation] for operation, shape in BODIES.items() if shape == name)
    arguments = [one for one in case.arguments if one.place == "body"]
    return Object(name, {one.key: _field(one) for one in arguments})


def _field(argument: Argument) -> Any:
    """The JSON type of an argument; one with a default may be left out, or null."""
    given, hint = argument.given, argument.kinds[0]
    if datetime in argument.kinds:
        hint = datetime
    hint = given.json or hint
    if not argument.required:
        hint = hint | None
    if given.description:
        hint = Annotated[hint, Shown(given.description)]
    return hint if argument.required else NotRequired[hint]


def answer_of(case: UseCase) -> Any:
    """The shape of a response: that of the result, or a list of these; None for others."""
    if case.name in ANSWERS:
        return ANSWERS[case.name]
    kind = None if case.call is None else case.returns
    if get_origin(kind) in (list, Listing) and shown_as(get_args(kind)[0]):
        return _listed(get_args(kind)[0], pages=get_origin(kind) is Listing)
    return kind if shown_as(kind) else None
