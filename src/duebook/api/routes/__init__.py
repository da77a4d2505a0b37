"""The handlers that do more than pass a request on to the client, one module for each resource;
together with the table of use cases they are the whole API."""

from __future__ import annotations

from typing import Final

from duebook.api.operations import bind
from duebook.api.routes import events, health, others, pages, runs, schedules

__all__ = ["OPERATIONS"]

OPERATIONS: Final = (
    *bind(part.handlers for part in (schedules, runs, events, others, health)),
    *pages.operations.all,
)
