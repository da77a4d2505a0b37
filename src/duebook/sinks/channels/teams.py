"""Alerts for Microsoft Teams: an adaptive card, in the format of Workflows webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.sinks.channels.answers import cut, plain

if TYPE_CHECKING:
    from duebook.model.alert_message import AlertMessage

__all__ = ["teams_form"]

COLOURS: Final = {"problem": "Attention", "resolved": "Good", "test": "Accent"}
LONGEST_TITLE: Final = 300
LONGEST_TEXT: Final = 8_000
MOST_LINES: Final = 60
"""Each is a separate block; a card may have 28 KB."""


def teams_form(message: AlertMessage) -> dict[str, Any]:
    """Uses text runs, which Teams shows literally; in text blocks it would interpret Markdown."""
    title = {
        "type": "TextRun",
        "text": cut(plain(message.title).replace("\n", " "), LONGEST_TITLE),
        "weight": "Bolder",
        "size": "Medium",
        "color": COLOURS[message.status],
    }
    lines = cut(plain(message.text), LONGEST_TEXT).split("\n")[:MOST_LINES]
    runs = [title, *({"type": "TextRun", "text": line} for line in lines if line.strip())]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": title["text"],
        "body": [{"type": "RichTextBlock", "inlines": [run]} for run in runs],
    }
    if message.link is not None:
        card["actions"] = [
            {"type": "Action.OpenUrl", "title": "Open in Duebook", "url": message.link}
        ]
    kind = "application/vnd.microsoft.card.adaptive"
    attachment = {"contentType": kind, "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}
