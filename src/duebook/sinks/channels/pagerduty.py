"""Alerts for PagerDuty's Events API v2: a problem opens an incident, its end resolves it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from duebook.sinks.channels.answers import cut, plain
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.alert_message import AlertMessage

__all__ = ["pagerduty_forms"]

LONGEST_KEY: Final = 255
LONGEST_SUMMARY: Final = 1_024
LONGEST_TEXT: Final = 10_000


def pagerduty_forms(message: AlertMessage, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What to post, in order: the incident of a test message is resolved at once."""
    head = {"routing_key": options["routing_key"], "dedup_key": _key(message.dedup_key)}
    resolve = {**head, "event_action": "resolve"}
    if message.status == "resolved":
        return [resolve]
    severity = "info" if message.status == "test" else options.get("severity", "error")
    payload = {
        "summary": cut(plain(message.title).replace("\n", " "), LONGEST_SUMMARY),
        "source": f"duebook/{message.namespace}",
        "severity": severity,
        "timestamp": format_instant(message.at),
        "component": message.schedule or message.namespace,
        "group": message.namespace,
        "class": message.kind,
        "custom_details": {
            "text": cut(plain(message.text), LONGEST_TEXT),
            "run": message.run_id,
            "count": message.count,
        },
    }
    trigger: dict[str, Any] = {**head, "event_action": "trigger", "payload": payload}
    trigger["client"] = "Duebook"
    if message.link is not None:
        trigger["client_url"] = message.link
        trigger["links"] = [{"href": message.link, "text": "Open in Duebook"}]
    return [trigger, resolve] if message.status == "test" else [trigger]


def _key(key: str) -> str:
    """PagerDuty limits the length of keys; a long one is replaced by its hash."""
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[:180]}#{hashlib.sha256(key.encode()).hexdigest()}"
