"""Alerts for Slack's incoming webhooks, and services with the same format such as Mattermost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.sinks.channels.answers import cut, plain

if TYPE_CHECKING:
    from duebook.model.alert_message import AlertMessage

__all__ = ["slack_form"]

COLOURS: Final = {"problem": "#c62828", "resolved": "#2e7d32", "test": "#1565c0"}
LONGEST_TITLE: Final = 300
LONGEST_TEXT: Final = 3_000


def slack_form(message: AlertMessage) -> dict[str, Any]:
    """One attachment, whose text is shown literally, without formatting and mentions."""
    title = _escaped(cut(plain(message.title).replace("\n", " "), LONGEST_TITLE))
    attachment: dict[str, Any] = {
        "color": COLOURS[message.status],
        "fallback": title,
        "title": title,
        "text": _escaped(cut(plain(message.text), LONGEST_TEXT)),
        "mrkdwn_in": [],
        "footer": "Duebook",
        "ts": int(message.at.timestamp()),
    }
    if message.link is not None:
        attachment["title_link"] = message.link
    return {"attachments": [attachment]}


def _escaped(text: str) -> str:
    """Escape these three characters and no others, as Slack's documentation requires."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
