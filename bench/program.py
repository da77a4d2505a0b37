"""A program with a task that does nothing, for nodes that are measured."""

from __future__ import annotations

from duebook import Duebook

book = Duebook()


@book.task
async def job() -> None:
    pass
