"""What an alert says to people, as a value that every channel can carry; its JSON form."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, Literal

from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant, parse_instant

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["AlertMessage", "MessageStatus", "load_message"]

MessageStatus = Literal["problem", "resolved", "test"]
LONGEST_TITLE: Final = 300
LONGEST_TEXT: Final = 10_000


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """One message: what happened, why, and where to look."""

    kind: str
    """what it is about: the kind of a condition, such as failure or late, or test"""
    status: MessageStatus
    title: str
    """one line"""
    text: str
    """the explanation; it may have several lines"""
    link: str | None
    """the page about it"""
    dedup_key: str
    """equal for a problem, its repetitions and the message that it is resolved"""
    namespace: str
    schedule: str | None
    run_id: str | None
    at: datetime
    count: int = 1
    """how many things it stands for"""

    @property
    def id(self) -> str:
        """The same for a message that is sent twice, by which receivers know it."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return f"msg_{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "status": self.status,
            "title": self.title,
            "text": self.text,
            "link": self.link,
            "dedup_key": self.dedup_key,
            "namespace": self.namespace,
            "schedule": self.schedule,
            "run_id": self.run_id,
            "at": format_instant(self.at),
            "count": self.count,
        }


def load_message(form: dict[str, Any]) -> AlertMessage:
    """From what `to_json` returned."""
    return AlertMessage(**form | {"at": parse_instant(form["at"])})
