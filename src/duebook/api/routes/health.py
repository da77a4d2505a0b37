"""Whether this process lives, whether its node is ready, and what was measured."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.gate import CALLER
from duebook.api.metrics import CONTENT_TYPE
from duebook.api.operations import Handlers
from duebook.api.watching import Watch
from duebook.model.codec import encode

__all__ = ["handlers"]

handlers = Handlers()


@handlers
async def healthz() -> Response:
    return Answer({"status": "ok"}).response()


@handlers
def readyz(request: Request) -> Response:
    watch: Watch = request.app.state.watch
    caller, readiness = request.scope[CALLER], watch.readiness()
    form = {"ready": readiness.ready}
    if caller is not None and caller.everywhere:
        form = encode(readiness)
    return Answer(form, 200 if readiness.ready else 503).response()


@handlers
def metrics(request: Request) -> Response:
    watch: Watch = request.app.state.watch
    return Response(watch.metrics(), media_type=CONTENT_TYPE)
