"""What programs poll: liveness of this process, readiness of its node, metrics, and due times as
an iCal file."""

from __future__ import annotations

from typing import Annotated, Final

from starlette.requests import Request
from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.asking import Services
from duebook.api.gate import CALLER
from duebook.api.metrics import CONTENT_TYPE
from duebook.api.operations import Handlers
from duebook.api.parameters import Query
from duebook.api.problems import Unauthorized
from duebook.api.watching import Watch
from duebook.book import feeds
from duebook.budget import Budget
from duebook.model.codec import encode

__all__ = ["handlers"]

handlers = Handlers()

FEED_SECONDS: Final = 5.0


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
def read_feed(
    request: Request, token: Annotated[str, Query("The token of the feed.")] = ""
) -> Response:
    """The token of a feed allows reading that feed, and nothing else."""
    services: Services = request.app.state.services
    feed = feeds.find_feed(services.store, token)
    if feed is None:
        raise Unauthorized("the token of this feed is wrong, or was revoked")
    with services.computing.turn(feed.id):
        text = feeds.write_feed(services.store, feed, Budget(FEED_SECONDS))
    return Response(text, media_type="text/calendar; charset=utf-8")


@handlers
def metrics(request: Request) -> Response:
    watch: Watch = request.app.state.watch
    return Response(watch.metrics(), media_type=CONTENT_TYPE)
