"""Checks all schedules in one view of the database, within a budget unless the check is deep."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.balance.due_times import judge, judge_state, windows_of
from duebook.lazy_dataclasses import dataclass
from duebook.model.finding import Finding
from duebook.model.plan import KINDS
from duebook.store.sql.checks import RECENT
from duebook.store.values import Records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from duebook.balance.due_times import Window
    from duebook.store.base import Store, Tx
    from duebook.store.values import Account

__all__ = ["Checked", "check_books"]

PAGE: Final = 200
MOST_EACH: Final = 1_000
"""Due times that are checked for each schedule, the newest ones; and for all together:"""
MOST: Final = 200_000
SLICE: Final = 5_000
"""Due times between two queries of a deep check; the queries keep its view open."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, and what was found."""

    findings: tuple[Finding, ...]
    schedules: int
    due_times: int
    since: datetime
    complete: bool
    """False: more due times were left out to save time"""

    @property
    def balanced(self) -> bool:
        return not any(finding.problem for finding in self.findings)


def check_books(store: Store, deep: bool = False) -> Checked:
    """Verify the invariants in one consistent view; takes no locks, and blocks no writers."""
    return store.read(lambda tx: _check(tx, deep), patient=True)


def _check(tx: Tx, deep: bool) -> Checked:
    since = tx.now - (tx.history.keeps().longest if deep else RECENT)
    findings = list(tx.checks.check(deep))
    schedules = due_times = 0
    complete = True
    for page in _pages(tx):
        schedules += len(page)
        findings += [finding for account in page for finding in judge_state(account, tx.now)]
        if not deep and due_times >= MOST:
            complete = False
            continue
        lows = _lows(tx, page, since)
        for found, number, whole in _deep(tx, page, lows) if deep else _recent(tx, page, lows):
            findings += found
            due_times += number
            complete &= whole
    findings.sort(key=lambda finding: (not finding.problem, finding.rule))
    return Checked(tuple(findings), schedules, due_times, since, complete)


def _pages(tx: Tx) -> Iterator[list[Account]]:
    after = ""
    while page := tx.checks.list_accounts(after, PAGE):
        yield page
        after = page[-1].id


def _lows(tx: Tx, page: list[Account], since: datetime) -> dict[str, datetime]:
    """The instant from which the due times of each schedule can be checked: older records were
    deleted, or may be at any time."""
    histories = tx.history.of_many([account.id for account in page])
    return {id_: max(since, history.since(tx.now)) for id_, history in histories.items()}


Judged = tuple[list[Finding], int, bool]


def _recent(tx: Tx, page: list[Account], lows: dict[str, datetime]) -> Iterator[Judged]:
    """The newest due times of each schedule, with one query for the whole page."""
    windows = {
        account.id: [_newest(windows_of(account, lows[account.id], kind)) for kind in KINDS]
        for account in page
    }
    firsts = {
        id_: min((cut[0].after for cut, _ in kinds if cut), default=None)
        for id_, kinds in windows.items()
    }
    wanted = [(id_, first) for id_, first in firsts.items() if first is not None]
    # due times may have been decided ahead of the clock, if it stepped back
    ends = [w.until for kinds in windows.values() for cut, _ in kinds for w in cut]
    records = tx.checks.list_records(wanted, max([tx.now, *ends])) if wanted else {}
    for account in page:
        for cut, whole in windows[account.id]:
            for window in cut:
                yield *judge(account, window, records[account.id]), whole


def _newest(windows: list[Window]) -> tuple[list[Window], bool]:
    """The windows that fit into the budget of a schedule, and whether these are all."""
    kept: list[Window] = []
    left = MOST_EACH
    for window in reversed(windows):
        after = window.due.newest_from(window.after, window.until, left)
        kept.insert(0, replace(window, after=after))
        left -= window.due.count(after, window.until)
        if after > window.after or left <= 0:
            return kept, False
    return kept, True


def _deep(tx: Tx, page: list[Account], lows: dict[str, datetime]) -> Iterator[Judged]:
    for account in page:
        low = lows[account.id]
        for window in (w for kind in KINDS for w in windows_of(account, low, kind)):
            for part in _parts(window):
                asked = tx.checks.list_records([(account.id, part.after)], part.until)
                yield *judge(account, part, asked.get(account.id, Records({}, []))), True


def _parts(window: Window) -> Iterator[Window]:
    place = window.after
    while True:
        ahead = list(islice(window.due.among(place, window.until), SLICE))
        if len(ahead) < SLICE:
            yield replace(window, after=place)
            return
        yield replace(window, after=place, until=ahead[-1])
        place = ahead[-1]
