"""Whether this process lives, whether the books are worked on, and what was measured."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.gate import CALLER
from duebook.api.metrics import CONTENT_TYPE
from duebook.api.operations import Operations
from duebook.api.schemas.others import Health, ReadinessShape
from duebook.api.watching import Watch
from duebook.book.readiness import GRACE
from duebook.model.access import Role
from duebook.model.forms import readiness_form
from duebook.timetext import format_duration

__all__ = ["operations"]

operations = Operations("", "health")


@operations("GET", "/healthz", None, Health)
async def healthz() -> Response:
    """This process answers; it says nothing about the books."""
    return Answer({"status": "ok"}).response()


@operations("GET", "/readyz", None, ReadinessShape, also=(503,), errors=(422,))
def readyz(
    request: Request,
    grace: Annotated[
        str, Query(description="By how much a schedule may be overdue.")
    ] = format_duration(GRACE),
) -> Response:
    """Whether everything that is due can run: 200, or 503 when not.

    A token for all namespaces also learns what is in the way.
    """
    watch: Watch = request.app.state.watch
    caller = request.scope[CALLER]
    form = {"ready": watch.is_ready()}
    if caller is not None and caller.everywhere:
        form = readiness_form(watch.readiness(grace))
    return Answer(form, 200 if form["ready"] else 503).response()


@operations("GET", "/metrics", Role.VIEWER, None, media=(CONTENT_TYPE,), everywhere=True)
def metrics(request: Request) -> Response:
    """What this process and the books count, as Prometheus reads it."""
    watch: Watch = request.app.state.watch
    return Response(watch.metrics(), media_type=CONTENT_TYPE)
