"""When a rule may send its next message: no more often than `group` and `limit` allow; pure."""

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

    The first problem is sent at once. Problems within `group` of a message wait until that time is
    over, and are sent together; no hour has more than `limit` messages.
    """
    times = sorted(sent)
    if not times:
        return None
    after_group = times[-1] + parse_duration(rule.group)
    after_limit = times[-rule.limit] + HOUR if len(times) >= rule.limit else after_group
    return max(after_group, after_limit)


def remember(sent: Sequence[datetime], now: datetime) -> tuple[datetime, ...]:
    """Add a message sent now, and drop those that no longer count."""
    return (*(at for at in sent if now - at < HOUR), now)
