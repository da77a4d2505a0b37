"""CronJobs are due when the cron library of Kubernetes says so, by its rules.

The library is written in Go, so its rules are written down here: it visits every minute that
exists, local times that happen twice are visited twice, and a day counts if either day field
matches, unless one of them has a star.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import pytest

from duebook.imports.files import next_due
from duebook.imports.found import Found, finish
from duebook.imports.kubernetes import read_manifests
from duebook.triggers import load_trigger
from tests.support.cron_jobs import CONTAINER, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 11, 18, 6, 0, 30, tzinfo=UTC)
END = NOW + timedelta(days=365)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
BOUNDS: Final[tuple[tuple[int, int, tuple[str, ...]], ...]] = (
    *((0, 59, ()), (0, 23, ()), (1, 31, ())),
    *((1, 12, ("", *MONTHS)), (0, 6, WEEKDAYS)),
)
MACROS = {"@hourly": "0 * * * *", "@weekly": "0 0 * * 0", "@yearly": "0 0 1 1 *"}


def values(text: str, low: int, high: int, names: tuple[str, ...]) -> tuple[set[int], bool]:
    """The values of a field, and whether it has a star."""
    found: set[int] = set()
    starred = False
    for item in text.lower().split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if first in ("*", "?"):
            begin, end = low, high
            starred = starred or step in ("", "1")
        else:
            begin = names.index(first) if first in names else int(first)
            end = begin if not last else names.index(last) if last in names else int(last)
            end = high if step and not last else end
        found |= set(range(begin, end + 1, int(step or 1)))
    return found, starred


def by_the_rules(expression: str, tz: str) -> Iterator[datetime]:
    """Every due time until the end."""
    fields = MACROS.get(expression, expression).split()
    read = [values(text, *bound) for text, bound in zip(fields, BOUNDS, strict=True)]
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = read
    zone, day = ZoneInfo(tz), NOW.date() - timedelta(days=1)
    while day <= END.date() + timedelta(days=1):
        matches = (day.day in days, (day.weekday() + 1) % 7 in weekdays)
        if day.month in months and (all(matches) if any_day or any_weekday else any(matches)):
            midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
            walls = [midnight.replace(hour=h, minute=m) for h in hours for m in minutes]
            instants = {wall.replace(fold=f).astimezone(UTC) for wall in walls for f in (0, 1)}
            existing = (one for one in instants if one.astimezone(zone).date() == day)
            kept = (one for one in existing if one.astimezone(zone).hour in hours)
            yield from sorted(
                one for one in kept if one.astimezone(zone).minute in minutes and NOW < one <= END
            )
        day += timedelta(days=1)


def imported(expression: str, tz: str, **more: str) -> list[datetime]:
    text = manifest({"schedule": expression, "timeZone": tz}, {}, CONTAINER)
    (found,) = finish(read_manifests(text, "jobs.yaml"), {}).found
    given: Any = found.form["trigger"]
    forms = given if isinstance(given, list) else [given]
    triggers = tuple(load_trigger({**form, **more}) for form in forms)
    due = next_due(Found("job", {}, "", triggers=triggers), NOW, 9_000)
    return [one for one in due if one <= END]


EXPRESSIONS = [
    "30 9 * * 1-5",
    "0 0 13 * fri",
    "0 0 */10 * 1",
    "15 6 1,15 * */3",
    "0 12 */2 * */2",
    "0 12 */1 * mon",
    "0 12 * * */2",
    "0 12 ? jan-mar ?",
    "0 12 5,* * 1",
    "0 12 5 * ?",
    "*/45 8-18/5 * * sun,sat",
    "50/4 5/9 20/5 2/5 *",
    "5 4 31 * *",
    "0 4 29 2 *",
    "@hourly",
    "@weekly",
    "@yearly",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_cron_job_is_due_by_the_rules_of_kubernetes(expression: str) -> None:
    due = list(by_the_rules(expression, "UTC"))
    assert imported(expression, "UTC") == due
    assert due or expression == "0 4 29 2 *", "2027 has no 29 February"


CLOCKS = ["30 2 * * *", "0 2 * * 0", "*/30 * * * *", "15,45 1-3 * * *", "0 3 * 3,10 *"]


@pytest.mark.parametrize("tz", ["Europe/Brussels", "America/New_York"])
@pytest.mark.parametrize("expression", CLOCKS)
def test_with_gap_and_fold_it_is_the_same_when_clocks_change(expression: str, tz: str) -> None:
    """As docs/explanation/imports.md says."""
    assert (
        imported(expression, tz, gap="skip", fold="both")
        == list(by_the_rules(expression, tz))[:9_000]
    )


def test_without_them_only_the_gap_and_the_fold_differ() -> None:
    ours = set(imported("30 2 * * *", "Europe/Brussels"))
    theirs = set(by_the_rules("30 2 * * *", "Europe/Brussels"))
    assert ours - theirs == {datetime(2027, 3, 28, 1, tzinfo=UTC)}
    assert theirs - ours == {datetime(2027, 10, 31, 1, 30, tzinfo=UTC)}
