"""Finds violated invariants in one view of the database, as far as statements can.

Checks that need triggers are made elsewhere; this part supplies their facts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid
from duebook.model.clock_step import ClockStep, Span, overlap, repeated, shown_before
from duebook.model.finding import Finding
from duebook.model.plan import Reason
from duebook.model.revision import Revision
from duebook.model.stored_spec import read_stored
from duebook.model.unreadable import read_spec
from duebook.store.sql.rows import read_stretches
from duebook.store.sql.statements import Part, Row, Statements, Values
from duebook.store.values import CLOCK_BEHIND, Account, Record, Records
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duebook.store.sql.held import HeldCatchup
    from duebook.store.sql.schedules import Schedules
    from duebook.store.sql.snapshots import Snapshots
    from duebook.store.sql.upkeep import Upkeep

__all__ = ["RECENT", "Checks"]

RECENT: Final = timedelta(days=1)
"""How far back a check looks unless it is deep."""
OVERDUE: Final = timedelta(minutes=1)
MOST: Final = 1_000
"""Findings of one kind; more add nothing new."""
MOST_SPANS: Final = 20_000
_EVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PROBLEMS: Final = {
    "check_overlaps": ("I3", "{0} runs that exclude each other are running"),
    "check_unknown_owners": ("I8", "runs under session {0}, which is not in the database"),
    "check_doubled": ("I2", "ran, but is also recorded as {0}"),
    "check_held": ("I2", "ran, but also waits for an operator"),
    "check_order": ("I2", "is next, but everything up to {0} is already decided"),
    "check_asleep": ("I2", "no node will plan it until a keeper wakes it"),
    "check_states": ("I6", "has no state: it is never planned"),
    "check_state_versions": ("I6", "is at version {0}, but version {1} is planned"),
    "check_deleted_states": ("I6", "was deleted, but is still planned"),
    "check_definitions": ("I6", "has no definition of version {0}"),
    "check_run_definitions": ("I6", "belongs to version {0}, which has no definition"),
    "check_attempts": ("I4", "is {0} in attempt {1}, but {2} attempts are on record"),
    "check_losses": ("I4", "has {0} losses, but {1} are on record"),
    "check_event_order": ("I5", "event {0} comes after a later event of {1}"),
}
_EARLY: Final = {
    "check_early": "started at {0}, before it was due",
    "check_planned_early": "was queued at {0}, before it was due",
}
_DEEP: Final = {
    "check_doubled_runs": ("I1", "has {0} runs"),
    "check_late_logs": ("I4", "has a log of attempt {0}, but is in attempt {1}"),
    "check_use": (
        "quota",
        (
            "namespace {0} is recorded with {1} schedules of {2} bytes, but has {3} of {4} bytes; "
            "duebook namespace recount {0}"
        ),
    ),
    "check_event_gaps": ("I5", "of {0}: {1} of {2} events are missing"),
}
_NOTES: Final = {
    "check_crowds": ("I3", "{0} runs are running, {1} are allowed: was the limit lowered?"),
    "check_queue_crowds": ("I3", "queue {0}: {1} runs are running, {2} are allowed"),
    "check_times": ("I9", "finished before it started: was the clock set back?"),
    "check_problems": ("I2", "cannot be planned: {0}"),
}
_SINCE: Final = {
    "check_doubled",
    "check_run_definitions",
    "check_attempts",
    "check_losses",
    "check_times",
}
"""Checks of what is over: of the last day, unless they are deep."""


class Checks(Part, ABC):
    """Reads only, and takes no locks."""

    _slack = timedelta()
    """how far times of two transactions may be out of order"""

    def __init__(
        self,
        db: Statements,
        snapshots: Snapshots,
        schedules: Schedules,
        upkeep: Upkeep,
        held: HeldCatchup,
    ) -> None:
        super().__init__(db)
        self._held = held
        self._snapshots = snapshots
        self._schedules = schedules
        self._upkeep = upkeep

    @abstractmethod
    def _damage(self, deep: bool) -> Iterable[Finding]:
        """Damage found by the database itself."""

    def check(self, deep: bool = False) -> list[Finding]:
        """Which invariants are violated, as far as can be seen without the triggers.

        Of what is over only the last day is checked, unless `deep`.
        """
        since = _EVER if deep else self._db.now - RECENT
        found = [*self._damage(deep), *self._clock_notes()]
        checks = {**_PROBLEMS, **(_DEEP if deep else {}), **_NOTES}
        for query, (rule, text) in checks.items():
            values: Values = {"limit": MOST}
            if query in _SINCE:
                values["since"] = since
            rows = self._db.all(query, **values)
            found += [self._finding(rule, text, row, query not in _NOTES) for row in rows]
        steps = self._upkeep.list_clock_steps()
        found += [Finding("I7", _told_of(step), problem=False) for step in steps]
        found += [*self._early(since, steps), *self._overlapped(since, steps)]
        return [*found, *self._abandoned(), *self._overdue()]

    def _finding(self, rule: str, text: str, row: Row, problem: bool) -> Finding:
        schedule, due_at, run_id, *details = row
        told = [self._told(value) for value in details]
        return Finding(rule, text.format(*told), problem, schedule, self._db.time(due_at), run_id)

    def _told(self, value: Any) -> Any:
        """A detail of a finding: instants are large numbers, or datetimes."""
        moment = self._db.time(value) if _is_moment(value) else None
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else value

    def _clock_notes(self) -> Iterable[Finding]:
        if self._db.behind >= CLOCK_BEHIND:
            yield Finding(
                "I7",
                f"this machine's clock is {self._db.behind} behind the latest time in the "
                "database; "
                "nothing is due until it has caught up",
            )
        for row in self._db.all("check_future", now=self._db.now, limit=MOST):
            text = "is already decided, but is in the future: was the clock set back?"
            yield self._finding("I7", text, row, problem=False)

    def _early(self, since: datetime, steps: Sequence[ClockStep]) -> Iterable[Finding]:
        """Runs that were queued or started before they were due, unless the clock had shown that
        time already and stepped back."""
        for query, text in _EARLY.items():
            for *row, place, created_at in self._db.all(query, since=since, limit=MOST):
                _, due_at, run_id, moment = row
                span = Span(run_id, place, self._db.time(created_at), self._db.time(moment), None)
                if not shown_before(steps, span, self._db.time(due_at)):
                    yield self._finding("I7", text, tuple(row), problem=True)

    def _overlapped(self, since: datetime, steps: Sequence[ClockStep]) -> Iterable[Finding]:
        """Attempts that overlapped; an edit may have allowed that at the time. Those with times
        that the clock showed twice are compared one by one."""
        for *row, schedule_id, before in self._db.all("check_overlapped", since=since, limit=MOST):
            ended, began = self._db.time(before), self._db.time(row[-1])
            if ended - began <= self._slack or repeated(steps, began) or repeated(steps, ended):
                continue
            yield from self._overlap(schedule_id, tuple(row))
        for (schedule_id, name, due_at), span in self._overlaps_at_steps(since, steps):
            later = name, due_at, span.run_id, self._db.stamp(span.began)
            yield from self._overlap(schedule_id, later)

    def _overlaps_at_steps(
        self, since: datetime, steps: Sequence[ClockStep]
    ) -> Iterable[tuple[tuple[str, str, Any], Span]]:
        """Of attempts near a step of the clock, the later one of any two that overlap wherever
        their times lie."""
        if not steps:
            return
        stretch: Values = {
            "earliest": min(step.earliest for step in steps),
            "before": max(step.before for step in steps),
        }
        spans: dict[str, list[tuple[tuple[str, str, Any], Span]]] = {}
        rows = self._db.all("list_repeated_spans", since=since, limit=MOST_SPANS, **stretch)
        for schedule_id, name, due_at, run_id, place, *times in rows:
            span = Span(run_id, place, *map(self._db.time, times))
            spans.setdefault(schedule_id, []).append(((schedule_id, name, due_at), span))
        for together in spans.values():
            for (_, one), (about, other) in combinations(sorted(together, key=_began), 2):
                if overlap(steps, one, other, self._slack):
                    yield about, other

    def _overlap(self, schedule_id: str, row: Row) -> Iterable[Finding]:
        specs = [revision.spec for revision in self._schedules.list_revisions(schedule_id)]
        if all(spec is not None and spec.overlap != "allow" for spec in specs):
            text = "started at {0}, while another run that excludes it was running"
            yield self._finding("I3", text, row, problem=True)

    def _abandoned(self) -> Iterable[Finding]:
        """Runs of dead nodes; a problem once live nodes have had the time to take them over."""
        alive = [self._db.time(row[2]) for row in self._db.all("list_alive", now=self._db.now)]
        for *row, died_at, seen_at, expires_at in self._db.all(
            "check_abandoned", now=self._db.now, limit=MOST
        ):
            lease = self._db.time(expires_at) - self._db.time(seen_at)
            late = False
            if not alive:
                text = "was left by {0}, and no node is running"
            elif self._db.now <= max(self._db.time(died_at), min(alive) + lease) + lease * 2 / 3:
                text = "was left by {0}, which is dead; a live node will take it over soon"
            else:
                late = True
                text = "was left by {0}, which is dead, and no node took it over in time"
            yield self._finding("I8", text, tuple(row), problem=late)

    def _overdue(self) -> Iterable[Finding]:
        rows = self._db.all("check_overdue", before=self._db.now - OVERDUE, limit=MOST)
        if not rows:
            return
        alive = self._db.all("list_alive", now=self._db.now)
        if any("scheduler" in roles.split(",") for _, roles, *_ in alive):
            text = "has not been planned since {0}, although a scheduler is running"
            for row in rows:
                yield self._finding("I2", text, row, problem=True)
            return
        seconds = int((self._db.now - self._db.time(rows[0][3])).total_seconds())
        more = f" and {len(rows) - 1:,} more" if len(rows) > 1 else ""
        waits = format_duration(timedelta(seconds=seconds))
        text = f"{rows[0][0]}{more}: overdue for {waits}, and no scheduler is running"
        yield Finding("I2", text, problem=False)

    def list_accounts(self, after: str, limit: int) -> list[Account]:
        """All schedules by id, including deleted ones, after the one with id `after`."""
        rows = self._db.all("list_accounts", after=after, limit=limit)
        if not rows:
            return []
        ids = [row[0] for row in rows]
        revisions: dict[str, list[Revision]] = {id_: [] for id_ in ids}
        names = {row[0]: row[2] for row in rows}
        for id_, version, text, valid_from, by in self._db.all(
            "list_revisions_between", first=ids[0], last=ids[-1]
        ):
            try:
                spec = read_spec(text, names[id_])
            except Invalid:
                spec = None
            revisions[id_].append(Revision(version, spec, self._db.time(valid_from), by))
        exceptions = self._snapshots.exceptions(ids)
        return [
            _account(row, tuple(revisions[row[0]]), exceptions.get(row[0], []), self._db.time)
            for row in rows
        ]

    def list_active(self, after: str, limit: int, paused: bool = False) -> list[Account]:
        """Active schedules by id, and optionally `paused` ones, after the one with id `after`, with
        their current definition; an unreadable one is None."""
        also = "paused" if paused else "active"
        rows = self._db.all("list_active_accounts", after=after, limit=limit, also=also)
        exceptions = self._snapshots.exceptions([row[0] for row in rows]) if rows else {}
        accounts = []
        for *row, text, valid_from in rows:
            id_, _, name, *_ = row
            try:
                spec = None if text is None else read_stored(text, name)
            except Invalid:
                spec = None
            revision = Revision(row[5], spec, self._db.time(valid_from), "")
            said = exceptions.get(id_, [])
            accounts.append(_account(tuple(row), (revision,), said, self._db.time))
        return accounts

    def list_records(
        self, wanted: Sequence[tuple[str, datetime]], until: datetime
    ) -> dict[str, Records]:
        """The runs and entries of the schedules' due times, each after the instant beside it."""
        ids, sinces = [id_ for id_, _ in wanted], [self._db.stamp(since) for _, since in wanted]
        where: Values = {"ids": ids, "sinces": sinces, "until": until}
        time = self._db.time
        found = {id_: Records({}, []) for id_ in ids}
        for id_, due_at, run_id, origin in self._db.all("list_due_runs", **where):
            found[id_].runs[time(due_at)] = (run_id, origin)
        for id_, first, last, count, exact, reason, version, kind in self._db.all(
            "list_due_entries", **where
        ):
            entry = Record(time(first), time(last), count, bool(exact), reason, version, kind)
            found[id_].entries.append(entry)
        for held in self._held.of(ids):
            span = held.due_from, held.due_to, held.count, held.exact
            entries = found[held.schedule_id].entries
            entries.append(Record(*span, Reason.HELD.value, held.version))
            entries.sort(key=lambda entry: entry.due_from)
        return found


def _began(item: tuple[Any, Span]) -> datetime:
    return item[1].began


def _told_of(step: ClockStep) -> str:
    return f"{step}: some times occurred twice, and checks allow for that"


def _is_moment(value: Any) -> bool:
    return isinstance(value, datetime) or (isinstance(value, int) and value > 10**12)


def _account(
    row: Row, revisions: tuple[Revision, ...], exceptions: list[Any], time: Callable[[Any], Any]
) -> Account:
    id_, namespace, name, created_at, deleted_at, version, status, watermark = row[:8]
    next_due_at, wake_at, fired, seen, problem, controlled_until = row[8:]
    return Account(
        id_,
        name if namespace == "default" else f"{namespace}/{name}",
        name,
        time(created_at),
        time(deleted_at),
        revisions,
        version,
        status,
        time(watermark),
        time(next_due_at),
        time(wake_at),
        fired,
        read_stretches(seen),
        tuple(exceptions),
        problem,
        time(controlled_until),
    )
