"""Who changed what: an entry of the audit log, with the values before and after."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Shown, shown

__all__ = ["KINDS", "Change", "ChangeFilter", "change_text", "digest_of"]

KINDS: Final = (
    *("schedule", "declaration", "run", "flow", "template", "calendar", "window", "feed", "queue"),
    *("alert_rule", "shadow"),
    *("token", "namespace", "sink", "group", "event", "database", "node"),
)
"""The kinds of objects whose changes are recorded."""
LARGE: Final = 4_096
"""Characters of JSON above which an entry stores only the digest of a field."""


@shown()
@dataclass(frozen=True, slots=True)
class Change:
    """A change to an object; for an update, only the fields that changed."""

    id: int
    """0 until it is stored"""
    at: datetime
    by: Annotated[str, Shown(examples=("token:ci", "cli:alice", "code:shop"))]
    namespace: Annotated[str, Shown("Empty for objects shared by all namespaces.")]
    """empty for queues and tokens"""
    action: Annotated[str, Shown(examples=("create", "update", "pause"))]
    kind: Annotated[str, Shown(examples=("schedule", "run"))]
    """one of KINDS"""
    subject: str
    """its name; for a run that of its schedule or task"""
    subject_id: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes; fields that are None match all."""

    kind: str | None = None
    subject: str | None = None
    by: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    """both ends are included"""

    @property
    def asked(self) -> dict[str, Any]:
        """What distinguishes this filter from others."""
        return asdict(self)


def change_text(form: dict[str, Any] | None) -> str | None:
    """The JSON that an entry stores. Large values are replaced by their size and sha256, so that
    differences still show without storing every payload."""
    if form is None:
        return None
    text = json.dumps(form)
    if len(text) <= LARGE:
        return text
    return json.dumps({name: _digested(value) for name, value in form.items()})


def _digested(value: Any) -> Any:
    return value if len(json.dumps(value, ensure_ascii=False)) <= LARGE else digest_of(value)


def digest_of(value: Any) -> dict[str, Any]:
    """What an entry stores of a value that it must not show: its size and sha256, as JSON."""
    content = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    return {"bytes": len(content), "sha256": sha256(content).hexdigest()}
