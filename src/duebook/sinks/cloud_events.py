"""Events in CloudEvents 1.0 format: a JSON object, or headers beside the data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.model.consumer import Delivery

__all__ = ["JSON_TYPE", "as_headers", "as_json"]

JSON_TYPE: Final = "application/cloudevents+json; charset=utf-8"


def _attributes(delivery: Delivery) -> dict[str, str]:
    event = delivery.event
    owner = event.meta.get("schedule")
    attributes = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"/duebook/{event.namespace}" + (f"/schedules/{owner}" if owner else ""),
        "type": event.type,
        "time": format_instant(event.at),
        "topic": event.topic,
        "partitionkey": event.key,
        "sequence": str(event.position or 0),
    }
    if event.key:
        attributes["subject"] = event.key
    for name, key in (("runid", "run_id"), ("dueat", "due_at")):
        if event.meta.get(key):
            attributes[name] = str(event.meta[key])
    if delivery.replay:
        attributes["replay"] = "true"
    return attributes


def as_json(delivery: Delivery) -> bytes:
    """Structured mode: everything in one object."""
    form: dict[str, Any] = _attributes(delivery)
    form |= {"datacontenttype": "application/json", "data": delivery.event.data}
    return json.dumps(form, ensure_ascii=False).encode()


def as_headers(delivery: Delivery) -> tuple[list[tuple[str, bytes]], bytes]:
    """Binary mode: attributes as headers with `ce_`, and only the data as the value."""
    attributes = _attributes(delivery).items()
    headers = [(f"ce_{name}", value.encode()) for name, value in attributes]
    value = json.dumps(delivery.event.data, ensure_ascii=False).encode()
    return [*headers, ("content-type", b"application/json")], value
