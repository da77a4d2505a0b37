"""Reads when a flow starts, stops and restarts, when a step is retried, and durations."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.flows.parse import Node, plain
from duebook.flows.section import Section, items, whole_of
from duebook.flows.words import SCHEDULE
from duebook.model.repeat import Repeat
from duebook.model.retry import LONGEST_DELAY, Retry
from duebook.model.stopping import LONGEST_GRACE
from duebook.triggers import load_trigger

if TYPE_CHECKING:
    from duebook.model.flow import Condition
    from duebook.triggers import Trigger

__all__ = [
    "Times",
    "read_clean_up",
    "read_codes",
    "read_repeat",
    "read_retry",
    "read_seconds",
    "read_times",
]

FIELDS: Final = 5
"""The number of fields in a cron expression."""
MOST_TRIGGERS: Final = 20
LONGEST_SECONDS: Final = 36_500 * 86_400

_TYPED: Final = ({"kind", "expression"}, {"expression"})
_ONCE: Final = Retry(attempts=1)

Times = tuple[tuple["Trigger", ...], tuple["Trigger", ...], tuple["Trigger", ...]]
"""start, stop, restart"""


def read_seconds(key: str, value: Any) -> timedelta:
    return timedelta(seconds=whole_of(0, LONGEST_SECONDS)(key, value))


def read_clean_up(key: str, value: Any) -> timedelta:
    """How long a command may take to stop; raises Invalid."""
    return timedelta(seconds=whole_of(0, int(LONGEST_GRACE.total_seconds()))(key, value))


def read_times(section: Section, name: str) -> Times:
    """The triggers of `schedule`; `name` is what H in a cron expression is hashed from."""
    node, tz = section.get("schedule"), _zone(section)
    if node is None:
        return (), (), ()
    if isinstance(node.value, dict) and {"start", "stop", "restart"} & set(node.value):
        inner = Section(node, section.at("schedule"), section.problems, SCHEDULE)
        start, stop, restart = (
            () if (found := inner.get(key)) is None else _triggers(inner, key, found, tz, name)
            for key in ("start", "stop", "restart")
        )
        return start, stop, restart
    return _triggers(section, "schedule", node, tz, name), (), ()


def _zone(section: Section) -> str | None:
    node = section.get("tz")
    if node is None:
        return None
    return section.judge(node, "tz", None, _check_zone, plain(node))


def _check_zone(value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid(f"tz {shorten(value)} is not a time zone such as Europe/Brussels")
    load_trigger({"cron": "0 0 * * *", "tz": value})
    return value


def _triggers(
    section: Section, key: str, node: Node, tz: str | None, name: str
) -> tuple[Trigger, ...]:
    found = []
    for item in items(node):
        form = _form(plain(item), tz)
        try:
            trigger = load_trigger(form, name)
        except Invalid as error:
            section.problem(item, key, str(error), _example(form, str(error)))
            continue
        found.append(trigger)
    if len(found) > MOST_TRIGGERS:
        told = f"{key} has {len(found)} triggers; at most {MOST_TRIGGERS} are allowed"
        section.problem(node, key, told)
    return tuple(found)


def _example(form: Any, told: str) -> str:
    """An example of a time, unless the message has a hint or the cron expression is complete."""
    looks = isinstance(form, dict) and len(str(form.get("cron", "")).split()) >= FIELDS
    return "" if looks or ";" in told else 'use a form such as "0 2 * * *", @daily or {every: 1h}'


def _form(form: Any, tz: str | None) -> Any:
    """The form with the zone of the flow unless it has its own; Dagu's `kind` names its type."""
    if isinstance(form, dict) and set(form) in _TYPED and form.get("kind", "cron") == "cron":
        form = form["expression"]
    elif isinstance(form, dict) and set(form) == {"kind", "at"} and form["kind"] == "at":
        form = {"at": form["at"]}
    if isinstance(form, str):
        own = form.lstrip().startswith(("CRON_TZ=", "TZ="))
        return {"cron": form} | ({"tz": tz} if tz and not own else {})
    if isinstance(form, dict) and tz and "tz" not in form and "at" not in form:
        return {**form, "tz": tz}
    return form


def read_retry(section: Section) -> Retry:
    """Attempts after failures, from the words of `retry_policy`."""
    limit = section.read("limit", whole_of(0, 999), 0)
    delay = section.read("interval_sec", read_seconds, timedelta())
    longest = section.read("max_interval_sec", read_seconds, LONGEST_DELAY)
    backoff = section.read("backoff", _backoff, 1.0)
    codes = section.read("exit_code", read_codes, ())
    if "limit" not in section and section.is_whole:
        section.problem(section.node, "limit", "retry_policy has no limit", "add limit: 3")
    return section.judge(
        section.node, "", _ONCE, Retry, limit + 1, delay, backoff, longest, False, codes
    )


def read_repeat(section: Section, condition: Condition | None) -> Repeat | None:
    """The keys of `repeat_policy`, except for its condition; None if, as Dagu reads them, nothing
    is repeated."""
    codes = section.read("exit_code", read_codes, ())
    implied = "until" if condition is not None and condition.expected is not None else "while"
    default = implied if condition is not None or codes else False
    mode = section.read("repeat", _repeat_mode, default)
    repeat = Repeat(
        until=mode == "until",
        interval=section.read("interval_sec", read_seconds, timedelta()),
        limit=section.read("limit", whole_of(0, 1_000_000), 0) or None,
        backoff=section.read("backoff", _backoff, 1.0),
        longest=section.read("max_interval_sec", read_seconds, LONGEST_DELAY),
        condition=condition,
        exit_codes=codes,
    )
    return repeat if mode else None


def _repeat_mode(key: str, value: Any) -> str | bool:
    if value is True:
        return "while"
    if value is False or value in ("while", "until"):
        return value  # type: ignore[no-any-return]
    raise Invalid(f"{key} {shorten(value)} is not one of while, until, true, false")


def _backoff(key: str, value: Any) -> float:
    if isinstance(value, bool):
        return 2.0 if value else 1.0
    if isinstance(value, int | float) and 1 <= value <= 100:
        return float(value)
    raise Invalid(f"{key} {shorten(value)} is not true or a number from 1 to 100")


def read_codes(key: str, value: Any) -> tuple[int, ...]:
    """Exit codes, or status codes of a response."""
    codes = value if isinstance(value, list) else [value]
    return tuple(whole_of(0, 599)(key, code) for code in codes)
