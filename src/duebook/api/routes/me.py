"""Who the caller is."""

from __future__ import annotations

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.asking import Everywhere
from duebook.api.operations import V1, Operations
from duebook.api.schemas.others import Me
from duebook.model.access import Role

__all__ = ["operations"]

operations = Operations(V1, "tokens")


@operations("GET", "/me", Role.VIEWER, Me)
def get_me(ask: Everywhere) -> Response:
    """Which token this is, what it may do, and which namespaces it sees."""
    caller = ask.caller
    form = {"name": caller.name, "role": str(caller.role), "namespaces": list(caller.namespaces)}
    return Answer(form).response()
