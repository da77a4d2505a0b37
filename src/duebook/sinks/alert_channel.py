"""Sends alert events to one channel, and ignores those for other channels."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from duebook.model.alert_message import AlertMessage
from duebook.sinks.channels import MessageRefused
from duebook.sinks.each import deliver_each
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.consumer import Delivery, Report
    from duebook.model.event import Event
    from duebook.sinks.channels import Sender

__all__ = ["AlertChannelSink", "message_of"]


class AlertChannelSink:
    """Sends one message after another; `name` is the channel's name in events."""

    def __init__(self, name: str, sender: Sender, public_url: str | None = None) -> None:
        self._name = name
        self._sender = sender
        self._public_url = public_url

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        return deliver_each(deliveries, self._deliver)

    def _deliver(self, delivery: Delivery) -> str | None:
        event = delivery.event
        if not isinstance(event.data, dict) or self._name not in event.data.get("channels", ()):
            return None
        try:
            self._sender.send(message_of(event, self._public_url))
        except MessageRefused as error:
            return str(error)
        return None

    def interrupt(self) -> None:
        self._sender.interrupt()

    def close(self) -> None:
        """Nothing to close."""


def message_of(event: Event, public_url: str | None) -> AlertMessage:
    """The message for an alert event, with a link if the dashboard's address is known."""
    data = event.data
    return AlertMessage(
        data["kind"],
        data["status"],
        data["title"],
        data["text"],
        _link(event, public_url),
        data["incident"],
        event.namespace,
        data["schedule"],
        data["run"],
        parse_instant(data["at"]),
        data["count"],
    )


def _link(event: Event, public_url: str | None) -> str | None:
    """A link to the run, or to the schedule, or to the alerts."""
    if not public_url:
        return None
    run_id, schedule = event.data["run"], event.data["schedule"]
    place = "alerts"
    if run_id is not None:
        place = f"runs/{quote(run_id, safe='')}"
    elif schedule is not None:
        place = f"schedules/{quote(schedule, safe='')}"
    default = event.namespace == "default"
    chosen = "" if default else f"?namespace={quote(event.namespace, safe='')}"
    return f"{public_url.rstrip('/')}/{place}{chosen}"
