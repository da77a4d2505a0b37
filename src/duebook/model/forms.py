"""What is shown as JSON in another way than by its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.model.codec import encode, parts_of
from duebook.model.run import LatestRun
from duebook.model.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.access import AccessToken
    from duebook.model.queue import Queue

__all__ = ["definition_of", "limits_form", "token_scope"]


def definition_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in the form of a whole schedule: its name, and whether it is `enabled`, stay.

    What is no such form, but a definition, stays as it is.
    """
    if not {"id", "version", "status"} <= form.keys():
        return dict(form)
    state = {part.key for kind in (Schedule, LatestRun) for part in parts_of(kind)}
    return {key: form[key] for key in form if key not in state - {"name", "enabled"}}


def limits_form(queue: Queue) -> dict[str, Any]:
    """The limits of a queue without its name."""
    form = encode(queue)
    return {key: form[key] for key in form if key != "name"}


def token_scope(token: AccessToken) -> dict[str, Any]:
    """What a token may do, where and until when."""
    form = encode(token)
    return {key: form[key] for key in ("role", "namespaces", "expires_at")}
