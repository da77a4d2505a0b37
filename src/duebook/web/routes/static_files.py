"""The static files that only some pages need."""

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
    """The script that shows and follows a log."""
    return Response(static("log.js"), media_type="text/javascript", headers=FILES)


@operations("GET", "/log_rows.js", None)
def get_log_rows_module() -> Response:
    """The module with the rows of a log: their positions, and searching them."""
    return Response(static("log_rows.js"), media_type="text/javascript", headers=FILES)


@operations("GET", "/parts.css", None)
def get_parts_style() -> Response:
    """The style sheet of logs and other parts of pages."""
    return Response(static("parts.css"), media_type="text/css", headers=FILES)


@operations("GET", "/forms.js", None)
def get_forms_module() -> Response:
    """The script that previews due times in the forms of schedules."""
    return Response(static("forms.js"), media_type="text/javascript", headers=FILES)


@operations("GET", "/palette.js", None)
def get_palette_module() -> Response:
    """The script of the search palette."""
    return Response(static("palette.js"), media_type="text/javascript", headers=FILES)
