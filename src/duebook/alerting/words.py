"""The titles of alerts, and the texts of messages about them; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.errors import counted
from duebook.model.alert import SLOWER
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.alert import Alert, Condition

__all__ = ["MOST_NAMED", "message_text", "message_title", "title_of"]

MOST_NAMED: Final = 5
"""Problems that a message about several of them names."""
_TITLES: Final = {
    "failure": "{subject} failed",
    "failures": "{subject} failed {count} times in a row",
    "missed": "{subject} missed a due time",
    "late": "{subject} is more than {limit} late",
    "running": "{subject} has been running for more than {limit}",
    "slow": "{subject} has been running for more than {slower} times its p95 duration",
    "no_success": "{subject} has not succeeded for {limit}",
}
_UNATTENDED: Final = {
    "plan": "no node plans due times",
    "work": "no node executes runs of this namespace",
}


def title_of(condition: Condition, subject: str, streak: int = 0) -> str:
    """One line about a problem."""
    if condition.kind == "unattended":
        return _UNATTENDED[subject]
    return _TITLES[condition.kind].format(
        subject=_bare(subject),
        count=max(condition.number, streak),
        limit=format_duration(condition.limit),
        slower=SLOWER,
    )


_NAMES: Final = {"plan": "no scheduler", "work": "no worker"}


def _bare(subject: str) -> str:
    """What has the problem, without the run in question."""
    kind, colon, name = subject.partition(" run:")[0].partition(":")
    return f"{kind} {name}" if colon else kind


def _named(alert: Alert) -> str:
    return _NAMES[alert.subject] if alert.kind == "unattended" else _bare(alert.subject)


def message_title(alerts: Sequence[Alert], count: int, status: str, repeated: bool) -> str:
    """One line for a message about one problem, or about `count`, of which `alerts` are some."""
    if count == 1:
        first = alerts[0].title
        return f"recovered: {first}" if status == "resolved" else _again(first, repeated)
    names = ", ".join(dict.fromkeys(_named(alert) for alert in alerts[:MOST_NAMED]))
    more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
    if status == "resolved":
        return f"recovered: {counted(count, 'problem')}: {names}{more}"
    return _again(f"{counted(count, 'problem')}: {names}{more}", repeated)


def _again(title: str, repeated: bool) -> str:
    return f"still: {title}" if repeated else title


def message_text(alerts: Sequence[Alert], sentences: Sequence[str], count: int) -> str:
    """The sentence from `explain` about each that is named."""
    if count == 1:
        return sentences[0]
    lines = [
        f"- {alert.title}: {sentence}" if sentence else f"- {alert.title}"
        for alert, sentence in zip(alerts[:MOST_NAMED], sentences, strict=False)
    ]
    if count > len(lines):
        lines.append(f"- and {count - len(lines)} more")
    return "\n".join(lines)
