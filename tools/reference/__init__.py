"""The pages of docs/reference and the list of decisions, which `make derive` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools.reference.cli import commands_page
from tools.reference.decisions import decisions_page
from tools.reference.events import events_page
from tools.reference.metrics import metrics_page
from tools.reference.python import python_page
from tools.reference.reasons import reasons_page
from tools.reference.rest import rest_page
from tools.reference.settings import settings_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["REFERENCE"]

REFERENCE: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "docs/reference/cli.md": commands_page,
    "docs/reference/rest.md": rest_page,
    "docs/reference/python.md": python_page,
    "docs/reference/settings.md": settings_page,
    "docs/reference/reasons.md": reasons_page,
    "docs/reference/events.md": events_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/explanation/decisions.md": decisions_page,
}
"""File -> its lines."""
