"""Alerts for Discord webhooks: one embed, without mentions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duebook.sinks.channels.answers import cut, plain
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.model.alert_message import AlertMessage

__all__ = ["discord_form"]

COLOURS: Final = {"problem": 0xC62828, "resolved": 0x2E7D32, "test": 0x1565C0}
LONGEST_TITLE: Final = 256
LONGEST_TEXT: Final = 2_000
"""Before escaping, which may double it; Discord takes 4,096."""
_MARKDOWN: Final = re.compile(r"[\\`*_~|<>\[\]#]")


def discord_form(message: AlertMessage) -> dict[str, Any]:
    title = cut(plain(message.title).replace("\n", " "), LONGEST_TITLE // 2)
    embed: dict[str, Any] = {
        "title": _escaped(title),
        "description": _escaped(cut(plain(message.text), LONGEST_TEXT)),
        "color": COLOURS[message.status],
        "timestamp": format_instant(message.at),
        "footer": {"text": "Duebook"},
    }
    if message.link is not None:
        embed["url"] = message.link
    return {"embeds": [embed], "allowed_mentions": {"parse": []}}


def _escaped(text: str) -> str:
    """Text with Markdown escaped."""
    return _MARKDOWN.sub(r"\\\g<0>", text)
