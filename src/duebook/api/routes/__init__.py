"""The routes, one module for each resource: what is asked, which use case of the client answers."""

from __future__ import annotations

from duebook.api.routes import (
    health,
    me,
    pages,
    queues,
    runs,
    schedule_actions,
    schedules,
    templates,
)

__all__ = ["RESOURCES"]

RESOURCES = (
    schedules.operations,
    schedule_actions.operations,
    runs.operations,
    queues.operations,
    templates.operations,
    me.operations,
    health.operations,
    pages.operations,
)
