"""The use cases of doctor: examine in one view of the database; repair, and examine again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from duebook.book.audit import SHARED, Auditor
from duebook.book.doctor import checks
from duebook.book.doctor.database_checks import FREE_SPACE, check_file, check_server
from duebook.book.doctor.facts import LOOKED, PAGE, gather, misplaced, title_of
from duebook.budget import Budget
from duebook.errors import Conflict, DiskFull, counted
from duebook.model.change import Change
from duebook.model.checkup import FileFacts
from duebook.model.diagnosis import CHECKED, Checkup, Diagnosis
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from duebook.book.doctor.facts import Facts, Misplaced
    from duebook.errors import Unavailable
    from duebook.store.base import Store, Tx

__all__ = ["Doctor", "judge", "unreachable"]

DATABASE: Final = "database"
LONGEST: Final = 60.0
"""Seconds of processor time for an examination without a budget: about a million schedules."""
BATCH: Final = 200
"""Schedules that are woken in one transaction."""
_CHECKS: Final = (
    checks.check_schema,
    checks.check_clocks,
    checks.check_tzdata,
    checks.check_versions,
    checks.check_sessions,
    checks.check_scheduler,
    checks.check_planning,
    checks.check_definitions,
    checks.check_queues,
    checks.check_tasks,
    checks.check_secrets,
    checks.check_flows,
    checks.check_alerts,
    checks.check_retention,
)


def judge(facts: Facts) -> tuple[Checkup, ...]:
    """One line for each check, in the order of CHECKED."""
    found = [check(facts) for check in _CHECKS]
    if isinstance(facts.database, FileFacts):
        found += check_file(facts.database, facts.now)
    else:
        found += check_server(facts.database)
    return tuple(sorted(found, key=lambda one: CHECKED.index(one.check)))


def unreachable(error: Conflict | Unavailable) -> Diagnosis:
    """The database does not respond, or this Duebook cannot use it."""
    check, remedy = "database", "see that it runs, and that --database or --url leads to it"
    if isinstance(error, DiskFull):
        check, remedy = "disk", FREE_SPACE
    elif isinstance(error, Conflict):
        check, remedy = "schema", "upgrade Duebook on this machine, or migrate: duebook db migrate"
    return Diagnosis(None, (Checkup(check, "problem", str(error), remedy),))


class Doctor:
    """Examines all namespaces; `by` is recorded as the author of repairs."""

    def __init__(self, store: Store, by: str = "", budget: Budget | None = None) -> None:
        self._store = store
        self._by = by
        self._budget = budget

    def examine(self) -> Diagnosis:
        """Check clocks, time zone data, sessions, schedules, queues and the database itself.

        Reads one consistent view and changes nothing. Active schedules are read page by page, for a
        minute of processor time, or on a server for two seconds; a result says if there are more.
        """
        budget = self._budget or Budget(LONGEST)
        facts = self._store.read(lambda tx: gather(tx, budget), patient=True)
        return Diagnosis(facts.now, judge(facts))

    def repair(self) -> Diagnosis:
        """Plan schedules at once whose stored times are missing or wrong, then examine again.

        Nothing runs twice and nothing is lost: the planner computes what is due from the
        definition, as always. The audit log names every schedule.
        """
        titles = [*self._wake_asleep(), *self._wake_misplaced()]
        if titles:
            self._note_repair(titles)
        examined = self.examine()
        told = [f"{counted(len(titles), 'schedule')} planned again: {checks.listed(titles)}"]
        return Diagnosis(examined.checked_at, examined.checkups, tuple(told if titles else ()))

    def _note_repair(self, titles: Sequence[str]) -> None:
        after = {"planned_again": titles[: checks.MOST_SUBJECTS], "number": len(titles)}
        auditor = Auditor(SHARED, self._by)
        self._store.transact(lambda tx: auditor.note(tx, "repair", DATABASE, DATABASE, after=after))

    def note_backup(self, path: str) -> None:
        """Record in the audit log that the database was copied to this path."""
        auditor = Auditor(SHARED, self._by)
        self._store.transact(
            lambda tx: auditor.note(tx, "backup", DATABASE, DATABASE, after={"file": path})
        )

    def _wake_asleep(self) -> list[str]:
        """Wake the schedules that no node would ever check again."""
        titles: list[str] = []
        while found := self._store.transact(self._wake_some):
            titles += found
        return titles

    def _wake_some(self, tx: Tx) -> list[str]:
        ids = tx.upkeep.wake_asleep(BATCH)
        schedules = tx.schedules.get_schedules(ids) if ids else []
        tx.audit.record(
            [
                self._change(tx, one.namespace, one.name, one.id, None, one.next_due_at)
                for one in schedules
            ]
        )
        return [title_of(one.namespace, one.name) for one in schedules]

    def _wake_misplaced(self) -> Iterator[str]:
        """Wake the schedules that wait for the wrong time, page by page; returns their titles."""
        after, number = "", 0
        while page := self._store.read(partial(self._look, after), patient=True):
            wrong = [one for _, one in page if one is not None]
            for place in range(0, len(wrong), BATCH):
                self._wake(wrong[place : place + BATCH])
            yield from (one.title for one in wrong)
            after, number = page[-1][0], number + len(page)
            if number >= LOOKED and self._budget is not None and self._budget.is_spent:
                return  # the examination finds the rest

    @staticmethod
    def _look(after: str, tx: Tx) -> list[tuple[str, Misplaced | None]]:
        page = tx.checks.list_active(after, PAGE)
        return [(one.id, misplaced(one, tx.now)) for one in page]

    def _wake(self, wrong: Sequence[Misplaced]) -> None:
        def work(tx: Tx) -> None:
            tx.upkeep.wake([one.id for one in wrong])
            tx.audit.record(
                [
                    self._change(tx, one.namespace, one.name, one.id, one.waits_for, one.due_at)
                    for one in wrong
                ]
            )

        self._store.transact(work)

    def _change(
        self,
        tx: Tx,
        namespace: str,
        name: str,
        schedule_id: str,
        waited_for: datetime | None,
        due_at: datetime | None,
    ) -> Change:
        made = tx.now, self._by, namespace, "wake", "schedule", name, schedule_id
        before = {"wake_at": waited_for and format_instant(waited_for)}
        after = {"wake_at": format_instant(tx.now), "due_at": due_at and format_instant(due_at)}
        return Change(0, *made, before, after)
