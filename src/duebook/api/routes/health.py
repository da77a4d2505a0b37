"""Whether this process lives, whether its node is ready, and what was measured."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.gate import CALLER
from duebook.api.metrics import CONTENT_TYPE
from duebook.api.operations import Operations
from duebook.api.schemas.others import Health, ReadinessShape
from duebook.api.watching import Watch
from duebook.model.access import Role
from duebook.model.codec import encode

__all__ = ["operations"]

operations = Operations("", "health")


@operations("GET", "/healthz", None, Health)
async def healthz() -> Response:
    """This process answers; it says nothing about the database."""
    return Answer({"status": "ok"}).response()


@operations("GET", "/readyz", None, ReadinessShape, also=(503,))
def readyz(request: Request) -> Response:
    """Whether this node works: 200, or 503 when not.

    It reaches its database, may use the schema, holds its lease and is not stopping. What cannot
    run is the answer of `/api/v1/status`. A token for all namespaces also learns the problems.
    """
    watch: Watch = request.app.state.watch
    caller, readiness = request.scope[CALLER], watch.readiness()
    form = {"ready": readiness.ready}
    if caller is not None and caller.everywhere:
        form = encode(readiness)
    return Answer(form, 200 if readiness.ready else 503).response()


@operations("GET", "/metrics", Role.VIEWER, None, media=(CONTENT_TYPE,), everywhere=True)
def metrics(request: Request) -> Response:
    """What this process and the books count, as Prometheus reads it."""
    watch: Watch = request.app.state.watch
    return Response(watch.metrics(), media_type=CONTENT_TYPE)
