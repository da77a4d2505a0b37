"""The names that a form offers: tasks, flows, queues, calendars and time zones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.triggers.zones import known_zones

if TYPE_CHECKING:
    from duebook.web.page_request import PageRequest

__all__ = ["known_names"]

MOST: Final = 300
"""Names in each list."""


def known_names(page: PageRequest) -> dict[str, list[str]]:
    """Sorted names by field; the form accepts other names too."""
    book = page.book
    tasks = {task for node in book.nodes.list() for task in node.tasks}
    return {
        "task": sorted(tasks)[:MOST],
        "flow": [view.name for view in book.flows.list(MOST)],
        "queue": [load.queue.name for load in book.queues.list()][:MOST],
        "calendar": [calendar.name for calendar in book.calendars.list()][:MOST],
        "tz": known_zones(),
    }
