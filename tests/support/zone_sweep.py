"""Compares triggers with the oracle, question by question, around the transitions of a zone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from itertools import product, takewhile
from typing import TYPE_CHECKING, Protocol

from duebook import cron, daily, every, weekly
from tests.support import oracle
from tests.support.oracle import DAY, HOUR, SECOND, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

OPTIONS = list(product(("run_after", "skip"), ("first", "both")))
MOST_WALLS = 10_000
LONGEST_CHAIN = 50


class Counted(Protocol):
    @property
    def exact(self) -> bool: ...

    def __int__(self) -> int: ...


class Omitted(Protocol):
    @property
    def wall(self) -> datetime: ...

    @property
    def moved_to(self) -> datetime | None: ...


class Trigger(Protocol):
    """What the comparison needs of a trigger."""

    def next_after(self, instant: datetime, /) -> datetime | None: ...

    def previous_before(self, instant: datetime, /) -> datetime | None: ...

    def between(self, start: datetime, end: datetime, limit: int, /) -> Sequence[datetime]: ...

    def count(self, start: datetime, end: datetime, /) -> Counted: ...

    def omitted(self, start: datetime, end: datetime, /) -> Sequence[Omitted]: ...


# One trigger against its rule


def assert_agrees(
    trigger: Trigger, rule: Rule, start: datetime, end: datetime, asked: Iterable[datetime]
) -> None:
    """Every question about (start, end], and about each instant in `asked`, has the oracle's
    answer."""
    due = oracle.due_times(rule, start, end)
    assert_lists(trigger, due, start, end)
    omitted = [(omission.wall, omission.moved_to) for omission in trigger.omitted(start, end)]
    assert omitted == oracle.omissions(rule, start, end)
    assert_chains(trigger, due, start, end)
    for instant in asked:
        if start <= instant <= end:
            assert_neighbours(trigger, due, instant, start, end)
            assert_neighbours(trigger, due, in_zone(instant, rule.tz), start, end)
    assert_beyond(trigger, rule, start, end)


def in_zone(instant: datetime, tz: str) -> datetime:
    """The same instant, as written in the zone (fold included)."""
    return instant.astimezone(oracle.zone(tz))


def assert_lists(trigger: Trigger, due: list[datetime], start: datetime, end: datetime) -> None:
    listed = trigger.between(start, end, len(due) + 1)
    assert list(listed) == due
    assert all(instant.utcoffset() == timedelta(0) for instant in listed)
    assert list(trigger.between(start, end, 2)) == due[:2]
    counted = trigger.count(start, end)
    assert (int(counted), counted.exact) == (len(due), True)


def assert_chains(trigger: Trigger, due: list[datetime], start: datetime, end: datetime) -> None:
    """Asking again from each answer walks through the due times, forwards and backwards."""
    forwards = chain_after(trigger, start, LONGEST_CHAIN)
    assert list(takewhile(lambda instant: instant <= end, forwards)) == due[:LONGEST_CHAIN]
    backwards = chain_before(trigger, end + timedelta(microseconds=1), LONGEST_CHAIN)
    reached = list(takewhile(lambda instant: instant > start, backwards))
    assert reached == due[::-1][:LONGEST_CHAIN]


def chain_after(trigger: Trigger, instant: datetime, limit: int) -> Iterator[datetime]:
    """Repeated ``next_after``."""
    found = trigger.next_after(instant)
    for _ in range(limit):
        if found is None:
            return
        yield found
        found = trigger.next_after(found)


def chain_before(trigger: Trigger, instant: datetime, limit: int) -> Iterator[datetime]:
    """Repeated ``previous_before``."""
    found = trigger.previous_before(instant)
    for _ in range(limit):
        if found is None:
            return
        yield found
        found = trigger.previous_before(found)


def assert_neighbours(
    trigger: Trigger, due: list[datetime], instant: datetime, start: datetime, end: datetime
) -> None:
    later = due[bisect_right(due, instant) :]
    found = trigger.next_after(instant)
    if later:
        assert found == later[0], f"next_after({instant})"
    else:
        assert found is None or found > end, f"next_after({instant})"
    earlier = due[: bisect_left(due, instant)]
    found = trigger.previous_before(instant)
    if earlier:
        assert found == earlier[-1], f"previous_before({instant})"
    else:
        assert found is None or found <= min(start, instant), f"previous_before({instant})"


def assert_beyond(trigger: Trigger, rule: Rule, start: datetime, end: datetime) -> None:
    """The first due time beyond either end is one, and nothing lies between."""
    later = trigger.next_after(end)
    if later and is_bearable(rule, later - end):
        assert oracle.due_times(rule, end, later) == [later]
    earlier = trigger.previous_before(start)
    if earlier and is_bearable(rule, start - earlier):
        just_before = earlier - timedelta(microseconds=1)
        just_before_start = start - timedelta(microseconds=1)
        assert oracle.due_times(rule, just_before, just_before_start) == [earlier]


def is_bearable(rule: Rule, distance: timedelta) -> bool:
    """Whether brute force is fast enough: not too many days times not too many times."""
    days = (distance + 2 * oracle.LONGEST_FOLD) / DAY
    return days * (len(rule.times) + 5) < MOST_WALLS


# A zone


def assert_transitions_agree(tz: str, transitions: Iterable[datetime]) -> None:
    """Between its transitions a zone is plain arithmetic: look closely around each of them."""
    everywhere = list(zone_cases(tz))
    for transition in transitions:
        start, end = transition - 30 * HOUR, transition + 30 * HOUR
        asked = instants_around(transition, tz)
        for trigger, rule in [*everywhere, *transition_cases(tz, transition)]:
            assert_agrees(trigger, rule, start, end, asked)


def assert_years_agree(tz: str, text: str, first_year: int, last_year: int) -> None:
    """Check every due time of a cron expression in those years."""
    start, end = new_year(first_year), new_year(last_year + 1)
    assert_agrees(cron(text, tz=tz), oracle.cron_rule(text, tz), start, end, [])


def zone_cases(tz: str) -> Iterator[tuple[Trigger, Rule]]:
    """Times where gaps and folds usually are, and expressions that follow elapsed time."""
    for text in ("30 0-4,23 * * *", "0/20 2 * * SUN,FRI", "*/20 * * * *", "15 */2 * * *"):
        yield cron(text, tz=tz), oracle.cron_rule(text, tz)
    text = "0,59 0-3,23 * * *"
    yield (
        cron(text, tz=tz, gap="skip", fold="both"),
        oracle.cron_rule(text, tz, gap="skip", fold="both"),
    )
    weekdays = "FRI,SAT,SUN,MON 00:30"
    yield weekly(weekdays, tz=tz, fold="both"), oracle.weekly_rule(weekdays, tz, fold="both")


def transition_cases(tz: str, transition: datetime) -> Iterator[tuple[Trigger, Rule]]:
    """Times at the edges of this gap or fold and inside it."""
    lower, upper = sorted(
        (
            oracle.wall_at(transition, tz),
            oracle.wall_at(transition - SECOND, tz) + SECOND,
        )
    )
    minute = timedelta(minutes=1)
    walls = [lower - minute, lower, lower + (upper - lower) // 2, upper - minute, upper]
    times = sorted({wall.strftime("%H:%M") for wall in walls})
    for gap, fold in OPTIONS:
        yield daily(*times, tz=tz, gap=gap, fold=fold), oracle.daily_rule(times, tz, gap, fold)
    anchor = oracle.instants_of(walls[2] - 9 * DAY, tz)[:1]
    for instant in anchor:
        yield (
            every("3d", anchor=instant, tz=tz, fold="both"),
            oracle.calendar_rule(3, instant, tz, fold="both"),
        )
    text = (upper - SECOND).strftime("%S %M %H * * *")
    yield cron(text, tz=tz), oracle.cron_rule(text, tz)


def instants_around(transition: datetime, tz: str) -> list[datetime]:
    """The transition, the far ends and the middles of what it moves, and a second either side."""
    span = abs(oracle.jump_at(transition, tz))
    landmarks = [transition + n * span / 2 for n in (-2, -1, 0, 1, 2)]
    return [landmark + n * SECOND for landmark in landmarks for n in (-1, 0, 1)]


def new_year(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)
