"""When a rule may send its next message: not more often than its group and its limit say; pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.alert import AlertRule

__all__ = ["may_send_at", "remember"]

HOUR: Final = timedelta(hours=1)


def may_send_at(rule: AlertRule, sent: Sequence[datetime]) -> datetime | None:
    """The earliest time of its next message; None: now.

    The first problem is told at once. What follows within `group` of a message waits for its end,
    and is told together; no hour has more than `limit` messages.
    """
    times = sorted(sent)
    if not times:
        return None
    after_group = times[-1] + parse_duration(rule.group)
    after_limit = times[-rule.limit] + HOUR if len(times) >= rule.limit else after_group
    return max(after_group, after_limit)


def remember(sent: Sequence[datetime], now: datetime) -> tuple[datetime, ...]:
    """With a message of now, and without those that no longer count."""
    return (*(at for at in sent if now - at < HOUR), now)
