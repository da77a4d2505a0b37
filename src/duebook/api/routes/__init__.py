"""The routes, one module for each resource: what is asked, which use case of the client answers."""

from __future__ import annotations

from duebook.api.routes import (
    audit,
    bulk,
    event_readers,
    events,
    flows,
    health,
    me,
    namespaces,
    nodes,
    pages,
    queues,
    runs,
    schedule_actions,
    schedules,
    status,
    templates,
    tokens,
)

__all__ = ["RESOURCES"]

RESOURCES = (
    schedules.operations,
    schedule_actions.operations,
    bulk.operations,
    runs.operations,
    flows.operations,
    nodes.operations,
    events.operations,
    event_readers.operations,
    queues.operations,
    templates.operations,
    audit.operations,
    namespaces.operations,
    tokens.operations,
    me.operations,
    status.operations,
    health.operations,
    pages.operations,
)
