"""What a target hides when it is shown, and how that comes back when it is sent again; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.model.http_target import HttpTarget, origin_of
from duebook.model.secret import HIDDEN, fill_secrets, keep_secrets
from duebook.model.target import CommandTarget, EventTarget, Target, load_target

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["keep_hidden", "load_shown"]


def load_shown(form: object) -> Target:
    """A target from a form that may hide values: they stay hidden. Raises Invalid."""
    return load_target(_filled(form, lambda _: "hidden", fill_secrets)).masked()


def keep_hidden(form: object, current: Target | None) -> object:
    """The form of a target that replaces `current`: what it hides stays as it is.

    What a request hides stays only with one to the same origin, for these are its secrets.
    """
    known: dict[str, str] = {}
    content = None
    if isinstance(current, CommandTarget):
        known = dict(current.env)
    elif isinstance(current, HttpTarget) and origin_of(_url(form)) == origin_of(current.url):
        known = {name.lower(): value for name, value in current.headers}
        content = current.json
    elif isinstance(current, EventTarget):
        content = current.data
    return _filled(
        form,
        lambda name: known.get(name, known.get(name.lower(), HIDDEN)),
        lambda sent: keep_secrets(sent, content),
    )


def _filled(
    form: object, value_of: Callable[[str], str], content_of: Callable[[Any], Any]
) -> object:
    """With another value for each that is hidden."""
    if not isinstance(form, dict):
        return form
    filled = dict(form)
    if "env" in filled:
        filled["env"] = _texts(filled["env"], value_of)
    if isinstance(http := filled.get("http"), dict):
        filled["http"] = http = dict(http)
        if "headers" in http:
            http["headers"] = _texts(http["headers"], value_of)
        if "json" in http:
            http["json"] = content_of(http["json"])
    if isinstance(event := filled.get("event"), dict) and "data" in event:
        filled["event"] = event | {"data": content_of(event["data"])}
    return filled


def _texts(texts: Any, value_of: Callable[[str], str]) -> Any:
    if not isinstance(texts, dict):
        return texts
    return {
        name: value_of(name) if text == HIDDEN and isinstance(name, str) else text
        for name, text in texts.items()
    }


def _url(form: object) -> str:
    http = form.get("http") if isinstance(form, dict) else None
    url = http.get("url") if isinstance(http, dict) else None
    return url if isinstance(url, str) else ""
