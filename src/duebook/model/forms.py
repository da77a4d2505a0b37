"""JSON forms that differ from the fields of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.model.codec import encode, parts_of
from duebook.model.run import LatestRun
from duebook.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.access import AccessToken
    from duebook.model.queue import Queue

__all__ = ["CALENDARS", "definition_of", "is_completed", "is_whole", "limits_form", "token_scope"]

CALENDARS: Final = "calendars"
"""What an export adds to a whole schedule: the definitions of the calendars that it needs, unless
an earlier schedule of the list has them."""


def is_whole(form: Mapping[str, Any]) -> bool:
    """Whether this is a schedule as lists print it, with its state, and not a definition."""
    return {"id", "version", "status"} <= form.keys()


def is_completed(form: Any) -> bool:
    """Whether this is a whole schedule that is completed; created anew, it would start again."""
    return isinstance(form, dict) and is_whole(form) and form["status"] == "completed"


def definition_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in the form of a whole schedule, with its name and `enabled`.

    A form that is a definition already stays as it is.
    """
    if not is_whole(form):
        return dict(form)
    others = {part.key for kind in (Schedule, LatestRun) for part in parts_of(kind)}
    others = (others | {CALENDARS}) - {"name", "enabled"}
    return {key: form[key] for key in form if key not in others}


def limits_form(queue: Queue) -> dict[str, Any]:
    """The limits of a queue without its name."""
    form = encode(queue)
    return {key: form[key] for key in form if key != "name"}


def token_scope(token: AccessToken) -> dict[str, Any]:
    """What a token may do, in which namespaces and until when."""
    form = encode(token)
    return {key: form[key] for key in ("role", "namespaces", "expires_at")}
