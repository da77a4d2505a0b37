"""Posts alerts to the webhooks of services, in the format of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from duebook.model.channel import PAGERDUTY
from duebook.sinks.channels.answers import judge
from duebook.sinks.channels.discord import discord_form
from duebook.sinks.channels.pagerduty import pagerduty_forms
from duebook.sinks.channels.slack import slack_form
from duebook.sinks.channels.teams import teams_form

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.alert_message import AlertMessage
    from duebook.model.channel import Channel
    from duebook.targets.posting import Poster

__all__ = ["HookChannel"]

_FORMS: Final = {"slack": slack_form, "teams": teams_form, "discord": discord_form}


class HookChannel:
    def __init__(self, channel: Channel, poster: Poster, hide: Callable[[str], str]) -> None:
        self._channel = channel
        self._poster = poster
        self._hide = hide

    def send(self, message: AlertMessage) -> None:
        url = self._channel.options.get("url", PAGERDUTY)
        headers = {"Content-Type": "application/json"}
        for form in self._forms(message):
            body = json.dumps(form, ensure_ascii=False).encode()
            judge(*self._poster.fetch(url, headers, body), self._hide)

    def _forms(self, message: AlertMessage) -> list[dict[str, Any]]:
        if self._channel.kind == "pagerduty":
            return pagerduty_forms(message, self._channel.options)
        return [_FORMS[self._channel.kind](message)]

    def interrupt(self) -> None:
        self._poster.stop()
