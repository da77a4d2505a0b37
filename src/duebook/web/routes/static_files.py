"""The files that the parts of pages need, each by its name."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.web.rendering import static

__all__ = ["operations"]

operations = Operations("/static", "pages")

FILES: Final = {"Cache-Control": "max-age=300"}


@operations("GET", "/log.js", None)
def get_log_module() -> Response:
    """How a log is shown and followed."""
    return Response(static("log.js"), media_type="text/javascript", headers=FILES)


@operations("GET", "/log_rows.js", None)
def get_log_rows_module() -> Response:
    """The rows of a log: where each stands, and what is found in it."""
    return Response(static("log_rows.js"), media_type="text/javascript", headers=FILES)


@operations("GET", "/parts.css", None)
def get_parts_style() -> Response:
    """How logs and other parts of pages look."""
    return Response(static("parts.css"), media_type="text/css", headers=FILES)


@operations("GET", "/forms.js", None)
def get_forms_module() -> Response:
    """What forms of schedules show while somebody types."""
    return Response(static("forms.js"), media_type="text/javascript", headers=FILES)


@operations("GET", "/palette.js", None)
def get_palette_module() -> Response:
    """How something is found by keys."""
    return Response(static("palette.js"), media_type="text/javascript", headers=FILES)
