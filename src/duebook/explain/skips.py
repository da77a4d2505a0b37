"""Explains why a due time did not become a run, from its ledger entry; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.explain.words import Clock, as_moment, day_text, length_text, short_id
from duebook.lazy_dataclasses import dataclass
from duebook.model.plan import Reason
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.model.schedule import ScheduleSpec
    from duebook.store.values import LedgerEntry

__all__ = ["Outage", "Skipped", "skip_text", "why_missed"]


@dataclass(frozen=True, slots=True)
class Outage:
    """No scheduler was running from `since` (None: since ever) until `until`."""

    since: datetime | None
    until: datetime


@dataclass(frozen=True, slots=True)
class Skipped:
    """A due time that an entry covers, with the other facts for its sentence."""

    entry: LedgerEntry
    due_at: datetime
    spec: ScheduleSpec | None
    """the definition by which it was decided"""
    outage: Outage | None = None
    into_fired: bool = False
    """whether the due time that it was coalesced into has a run"""


def skip_text(skipped: Skipped, clock: Clock) -> str:
    """One sentence, by the reason."""
    say = _SENTENCES.get(skipped.entry.reason)
    return say(skipped, clock) if say else f"skipped: {skipped.entry.reason}"


def _overlap(skipped: Skipped, clock: Clock) -> str:
    facts, entry = skipped.entry.facts, skipped.entry
    if "run" not in facts:
        due_at = as_moment(facts.get("due_at"))
        what = f"the run of {clock.time(due_at)}" if due_at else "another run"
        return f"skipped: {what} was about to start"
    since = as_moment(facts.get("since"))
    if since is None:
        return f"skipped: run {short_id(facts['run'])} was still active"
    asked = entry.count > 1 and skipped.due_at > since
    length = (skipped.due_at if asked else entry.at) - since
    span = f"since {clock.minute(since, length)}, for {length_text(length)}"
    return f"skipped: run {short_id(facts['run'])} was still active, {span}"


def _missed(skipped: Skipped, clock: Clock) -> str:
    return f"{why_missed(skipped, clock)}; catchup=skip dropped it"


def _coalesced(skipped: Skipped, clock: Clock) -> str:
    into = as_moment(skipped.entry.facts.get("into"))
    verb = "fired" if skipped.into_fired else "kept"
    newest = clock.time(into) if into else "a newer one"
    return f"{why_missed(skipped, clock)}; catchup=one {verb} {newest} instead"


def _expired(skipped: Skipped, clock: Clock) -> str:
    facts = skipped.entry.facts
    if "catchup_window" in facts:
        bound = f"catchup_window={facts['catchup_window']} reaches back no further"
    elif "catchup_limit" in facts:
        bound = f"catchup_limit={facts['catchup_limit']} keeps no more"
    else:
        bound = "it is outside the limits of catchup=all"
    return f"{why_missed(skipped, clock)}; it expired: {bound}"


def _held(skipped: Skipped, clock: Clock) -> str:
    since = clock.minute(skipped.entry.at)
    return f"{why_missed(skipped, clock)}; held since {since}, until an operator decides"


def why_missed(skipped: Skipped, clock: Clock) -> str:
    outage = skipped.outage
    if outage is not None and outage.since is not None:
        length = outage.until - outage.since
        first, last = clock.minute(outage.since, length), clock.minute(outage.until, length)
        return f"missed: no scheduler was running from {first} to {last}"
    if outage is not None:
        return f"missed: no scheduler was running before {clock.minute(outage.until)}"
    late = length_text(skipped.entry.at - skipped.due_at)
    grace = (
        f", more than the grace of {format_duration(skipped.spec.grace)}" if skipped.spec else ""
    )
    return f"missed: it was seen {late} late{grace}"


def _superseded(skipped: Skipped, clock: Clock) -> str:
    facts = skipped.entry.facts
    if moved_to := as_moment(facts.get("moved_to")):
        return f"skipped: a user moved it to {clock.time(moved_to)}"
    into = as_moment(facts.get("into"))
    newest = clock.time(into) if into else "a newer due time"
    policy = f"overlap={skipped.spec.overlap}" if skipped.spec else "the overlap policy"
    return f"skipped: {policy} kept only the newest, {newest}"


def _already_succeeded(skipped: Skipped, clock: Clock) -> str:
    facts = skipped.entry.facts
    began = as_moment(facts.get("since"))
    run = f"run {short_id(facts['run'])}" if "run" in facts else "a run"
    when = f", started manually at {clock.minute(began)}," if began else ""
    return f"skipped: {run}{when} had already succeeded (skip_if_successful)"


def _dependency(skipped: Skipped, clock: Clock) -> str:
    return f"skipped: {dependency_text(skipped.entry.facts, clock)}"


def dependency_text(facts: dict[str, Any], clock: Clock) -> str:
    """What was missing from a schedule that another one depends on."""
    name = facts.get("schedule", "a schedule it depends on")
    if not facts.get("exists", True):
        return f"it depends on {name}, which did not exist"
    succeeded_at = as_moment(facts.get("succeeded_at"))
    last = f"last at {clock.minute(succeeded_at)}" if succeeded_at else "it never succeeded"
    return f"{name} had not succeeded within {facts.get('within', 'the time')} ({last})"


def _excluded(skipped: Skipped, clock: Clock) -> str:
    own = Clock(skipped.spec.tz, clock.asked) if skipped.spec else clock
    return f"excluded: {day_text(own.wall(skipped.due_at))} is one of its excluded days"


def _calendar(skipped: Skipped, clock: Clock) -> str:
    facts = skipped.entry.facts
    own = Clock(skipped.spec.tz, clock.asked) if skipped.spec else clock
    name = f"calendar {facts['calendar']}" if "calendar" in facts else "its calendar"
    text = f"skipped: {name} closes {day_text(own.wall(skipped.due_at))}"
    to = facts.get("rolled_to")
    return f"{text}; it rolled to {to}" if to else text


def _edited(skipped: Skipped, clock: Clock) -> str:
    if to := skipped.entry.facts.get("rolled_to"):
        name = skipped.entry.facts.get("calendar")
        return f"skipped: calendar {name} rolls it to {to}, which was over when that was defined"
    return f"skipped: an edit removed it from the definition, at {clock.minute(skipped.entry.at)}"


def _paused(skipped: Skipped, clock: Clock) -> str:
    facts = skipped.entry.facts
    if name := facts.get("window"):
        end = as_moment(facts.get("until"))
        until = f", which lasts until {clock.minute(end)}" if end else ""
        return f'skipped: it fell into the maintenance window "{name}"{until}'
    until = clock.minute(skipped.entry.at)
    return f"skipped: the schedule was paused until {until}; on_resume=skip dropped it"


def _shadow(skipped: Skipped, clock: Clock) -> str:
    kind = " as a catch-up run" if skipped.entry.facts.get("origin") == "catchup" else ""
    when = clock.time(skipped.entry.at)
    return f"skipped: shadow mode recorded it; it would have started{kind} at {when}"


def _max_runs(skipped: Skipped, _: Clock) -> str:
    most = skipped.entry.facts.get("max_runs")
    return f"skipped: the schedule had reached its max_runs{f' of {most}' if most else ''}"


def _at_once(what: str) -> Callable[[Skipped, Clock], str]:
    def say(skipped: Skipped, clock: Clock) -> str:
        return f"skipped: {what} {clock.minute(skipped.entry.at)}"

    return say


def _plainly(text: str) -> Callable[[Skipped, Clock], str]:
    return lambda *_: f"skipped: {text}"


_SENTENCES: Final[dict[str, Callable[[Skipped, Clock], str]]] = {
    Reason.OVERLAP: _overlap,
    Reason.MISSED: _missed,
    Reason.COALESCED: _coalesced,
    Reason.EXPIRED: _expired,
    Reason.HELD: _held,
    Reason.SUPERSEDED: _superseded,
    Reason.ALREADY_SUCCEEDED: _already_succeeded,
    Reason.ALREADY_STARTED: _plainly("that due time already had a run"),
    Reason.DEPENDENCY: _dependency,
    Reason.EXCLUDED: _excluded,
    Reason.PAUSED: _paused,
    Reason.CALENDAR: _calendar,
    Reason.SKIPPED_BY_USER: _plainly("a user requested it"),
    Reason.EDITED: _edited,
    Reason.DELETED: _at_once("the schedule was deleted, at"),
    Reason.MAX_RUNS: _max_runs,
    Reason.SHADOW: _shadow,
    Reason.STOPPED: _plainly("the flow was stopped"),
    Reason.RESTARTED: _plainly("the flow was restarted"),
    Reason.DST_GAP: _plainly("the clocks jumped over it"),
}
