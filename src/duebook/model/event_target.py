"""An event as a target: the value and its JSON form."""

from __future__ import annotations

import json
from dataclasses import field, replace
from typing import Any, Final

from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.event import LIFECYCLE, check_key, check_topic, check_type, data_text
from duebook.model.secret import refuse_hidden, show_payload

__all__ = ["EventTarget", "load_event"]

_KEYS: Final = ("topic", "type", "key", "data")


@dataclass(frozen=True, slots=True)
class EventTarget:
    """What is written to the log at a due time; each part may have templates."""

    topic: str
    type: str | None = None
    """None: like the topic"""
    key: str | None = None
    """None: the name of the schedule"""
    data: Any = None
    """None: the payload"""
    fixed: str | None = field(init=False, repr=False, compare=False)
    """the data as JSON; None if it is the payload, or if any part is a template"""

    def __post_init__(self) -> None:
        text = json.dumps([self.topic, self.type, self.key, self.data], ensure_ascii=False)
        plain = self.data is not None and "{{" not in text and "{%" not in text
        fixed = json.dumps(self.data, ensure_ascii=False) if plain else None
        object.__setattr__(self, "fixed", fixed)

    def masked(self) -> EventTarget:
        """Secrets in the data are shown only to receivers of the event."""
        return replace(self, data=show_payload(self.data))

    def to_json(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in _KEYS}
        return {"event": {name: value for name, value in parts.items() if value is not None}}

    def __str__(self) -> str:
        return f"event {self.topic}" + (f" {self.type}" if self.type else "")


def load_event(form: object, named: str = "target event ") -> EventTarget:
    """An event from its JSON form, or from a topic alone.

    Raises Invalid that names the part, after `named`.
    """
    if isinstance(form, str):
        form = {"topic": form}
    if not isinstance(form, dict):
        raise Invalid(
            f'target event {shorten(form)} is not an object such as {{"topic": "orders"}}'
        )
    if unknown := sorted(str(key) for key in form if key not in _KEYS):
        known = ", ".join(_KEYS)
        raise Invalid(f'target event key "{shorten(unknown[0])}" is unknown; use one of {known}')
    if form.get("topic") is None:
        raise Invalid("target event topic is missing")
    data = form.get("data")
    data_text(data, f"{named}data")
    refuse_hidden(f"{named}data", data)
    return EventTarget(
        topic=_topic(form["topic"], named),
        type=_part(f"{named}type", form.get("type"), check_type),
        key=_part(f"{named}key", form.get("key"), check_key),
        data=data,
    )


def _topic(value: object, named: str) -> str:
    if isinstance(value, str) and value.startswith(LIFECYCLE):
        raise Invalid(
            f'{named}topic "{shorten(value)}" is reserved: {LIFECYCLE}… topics belong to Duebook'
        )
    return _part(f"{named}topic", value, check_topic) or ""


def _part(name: str, value: object, check: Any) -> str | None:
    """A template is checked when it is rendered."""
    if value is None:
        return None
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        return check_key(value, name)
    checked: str = check(value, name)
    return checked
