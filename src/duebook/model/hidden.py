"""What a target hides when shown, and how it is restored when the form is sent again; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.model.http_target import HttpTarget, origin_of
from duebook.model.secret import HIDDEN, fill_secrets, keep_secrets
from duebook.model.target import (
    CeleryTarget,
    CommandTarget,
    EventTarget,
    FlowTarget,
    Target,
    load_target,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["keep_hidden", "load_shown"]


def load_shown(form: object) -> Target:
    """A target from a form that may hide values: they stay hidden. Raises Invalid."""
    return load_target(
        _filled(form, lambda _: "hidden", lambda _, sent: fill_secrets(sent))
    ).masked()


def keep_hidden(form: object, current: Target | None) -> object:
    """The form of a target that replaces `current`: hidden values are kept.

    Those of a request are kept only if the new one has the same origin, as they are its secrets.
    """
    known: dict[str, str] = {}
    content: Any = None
    parts: dict[str, Any] = {}
    request = None
    if isinstance(current, CommandTarget):
        known = dict(current.env)
    elif isinstance(current, HttpTarget) and origin_of(_url(form)) == origin_of(current.url):
        known = {name.lower(): value for name, value in current.headers}
        content, request = current.json, current
    elif isinstance(current, EventTarget):
        content = current.data
    elif isinstance(current, FlowTarget) and _named(form, "flow") == current.name:
        content = dict(current.params)
    elif isinstance(current, CeleryTarget) and _named(form, "celery") == current.task:
        known = dict(current.headers)
        parts = {"args": list(current.args), "kwargs": current.kwargs}

    def keep(part: str, sent: Any) -> Any:
        if part in parts:
            return keep_secrets(sent, parts[part])
        is_text = request is not None and part in ("url", "body")
        return keep_secrets(sent, getattr(request, part) if is_text else content)

    return _filled(form, lambda name: known.get(name, known.get(name.lower(), HIDDEN)), keep)


def _filled(
    form: object, value_of: Callable[[str], str], content_of: Callable[[str, Any], Any]
) -> object:
    """With another value for each hidden one."""
    if not isinstance(form, dict):
        return form
    filled = dict(form)
    if "env" in filled:
        filled["env"] = _texts(filled["env"], value_of)
    if isinstance(http := filled.get("http"), dict):
        filled["http"] = http = dict(http)
        if "headers" in http:
            http["headers"] = _texts(http["headers"], value_of)
        for part in http.keys() & {"url", "json", "body"}:
            http[part] = content_of(part, http[part])
    elif isinstance(http, str):
        filled["http"] = content_of("url", http)
    if isinstance(event := filled.get("event"), dict) and "data" in event:
        filled["event"] = event | {"data": content_of("data", event["data"])}
    if "flow" in filled and "params" in filled:
        filled["params"] = content_of("params", filled["params"])
    return _filled_celery(filled, value_of, content_of) if "celery" in filled else filled


def _filled_celery(
    form: dict[str, Any], value_of: Callable[[str], str], content_of: Callable[[str, Any], Any]
) -> dict[str, Any]:
    filled = {part: content_of(part, form[part]) for part in form.keys() & {"args", "kwargs"}}
    if "headers" in form:
        filled["headers"] = _texts(form["headers"], value_of)
    return form | filled


def _texts(texts: Any, value_of: Callable[[str], str]) -> Any:
    if not isinstance(texts, dict):
        return texts
    return {
        name: value_of(name) if text == HIDDEN and isinstance(name, str) else text
        for name, text in texts.items()
    }


def _named(form: object, kind: str) -> object:
    return form.get(kind) if isinstance(form, dict) else None


def _url(form: object) -> str:
    http = form.get("http") if isinstance(form, dict) else None
    url = http.get("url") if isinstance(http, dict) else http
    return url if isinstance(url, str) else ""
