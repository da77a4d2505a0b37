"""Whether this process lives."""

from __future__ import annotations

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.schemas.others import Health

__all__ = ["operations"]

operations = Operations("", "health")


@operations("GET", "/healthz", None, Health)
async def healthz() -> Response:
    """This process answers; it says nothing about the books."""
    return Answer({"status": "ok"}).response()
