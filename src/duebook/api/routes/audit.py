"""The audit: who changed what, when, and from what to what."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from starlette.responses import Response

from duebook.api.answers import paged
from duebook.api.asking import Cursor, Here, Limit
from duebook.api.operations import V1, Operations
from duebook.api.parameters import Query
from duebook.api.permissions import refuse_role
from duebook.api.schemas.access import ChangeList
from duebook.model.access import Role
from duebook.model.codec import encode

__all__ = ["operations"]

operations = Operations(f"{V1}/audit", "audit")


@operations("GET", "", Role.VIEWER, ChangeList)
def list_changes(
    ask: Here,
    kind: Annotated[
        str | None,
        Query(description="schedule, run, template, queue, token, namespace, sink or group."),
    ] = None,
    subject: Annotated[str | None, Query(description="The name of what was changed.")] = None,
    by: Annotated[str | None, Query(description="Who, such as `token:ci`.")] = None,
    since: Annotated[str | None, Query(description="An instant.")] = None,
    until: Annotated[str | None, Query(description="An instant.")] = None,
    everywhere: Annotated[
        bool,
        Query(description="Of all namespaces and of what they share; needs a token for all."),
    ] = False,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """What was changed in a namespace, the newest first; secrets are not in it."""
    if everywhere:
        refuse_role(ask.caller, Role.VIEWER, everywhere=True)
    read = partial(ask.book.audit.list, kind, subject, by, since, until, everywhere=everywhere)
    return paged(lambda at, most: read(cursor=at, limit=most), encode, cursor, limit).response()
