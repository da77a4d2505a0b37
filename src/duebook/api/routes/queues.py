"""Queues: what waits and runs in each, and how much of it may. All namespaces share them."""

from __future__ import annotations

from starlette.responses import Response

from duebook.api.answers import Answer, listed
from duebook.api.asking import Everywhere
from duebook.api.bodies import read_fields
from duebook.api.operations import V1, Operations
from duebook.api.schemas.others import QueueLimits, QueueList, QueueShape
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.model.fields import whole
from duebook.model.queue import MOST, QueueLoad, read_rate

__all__ = ["operations"]

operations = Operations(f"{V1}/queues", "queues")


@operations("GET", "", Role.VIEWER, QueueList)
def list_queues(ask: Everywhere) -> Response:
    """The queues that have limits or work, by name.

    A token for some namespaces sees the queues with work of its own, and how much of it there is.
    """
    return listed([encode(load) for load in ask.book.queues.list()]).response()


@operations("PUT", "/{name}", Role.ADMIN, QueueShape, body=QueueLimits, everywhere=True)
def limit_queue(ask: Everywhere, name: str) -> Response:
    """Limit a queue over all nodes; a concurrency of 0 holds it."""
    given = read_fields(ask.body, {"concurrency": whole(0, MOST), "rate": read_rate})
    queues = ask.book.queues
    queue = queues.limit(name, **given)
    loads = (load for load in queues.list() if load.queue.name == name)
    return Answer(encode(next(loads, QueueLoad(queue, 0, 0)))).response()


@operations("DELETE", "/{name}", Role.ADMIN, None, status=204, errors=(404,), everywhere=True)
def free_queue(ask: Everywhere, name: str) -> Response:
    """Lift the limits of a queue."""
    ask.book.queues.free(name)
    return Answer().response()
