"""The status: what of the namespaces that a token sees cannot run, and what helps."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.asking import Everywhere
from duebook.api.operations import V1, Operations
from duebook.api.parameters import Query
from duebook.api.permissions import choose_namespace
from duebook.api.schemas.others import StatusShape
from duebook.book.readiness import GRACE, look
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.timetext import format_duration

__all__ = ["operations"]

operations = Operations(f"{V1}/status", "status")


@operations("GET", "", Role.VIEWER, StatusShape, errors=(404, 422))
def get_status(
    ask: Everywhere,
    grace: Annotated[
        str, Query(description="By how much a schedule may be overdue.")
    ] = format_duration(GRACE),
    namespace: Annotated[
        str | None,
        Query(description="Only what is in it; all that the token sees when it is left out."),
    ] = None,
) -> Response:
    """Whether everything that is due can run, and what is in the way.

    Always 200: `ready` is false when something cannot run. Probes ask `/readyz`, which is about
    one node.
    """
    seen = None if ask.caller.everywhere else ask.caller.namespaces
    if namespace is not None:
        seen = (choose_namespace(ask.caller, namespace),)
    return Answer(encode(look(ask.services.store, grace, seen))).response()
