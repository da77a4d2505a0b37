"""The message of an alert to people, as a value that every channel can carry; its JSON form."""

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
    """equal for a problem, its repetitions and its resolution"""
    namespace: str
    schedule: str | None
    run_id: str | None
    at: datetime
    count: int = 1
    """the number of problems in it"""

    @property
    def id(self) -> str:
        """Identical if a message is sent twice, so that receivers can recognise it."""
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
    """From the output of `to_json`."""
    return AlertMessage(**form | {"at": parse_instant(form["at"])})
