"""Many schedules at once: creates definitions together, and acts on all that match a filter."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.book.actions import STATES, act, refuse_past_end
from duebook.book.calendar_use import are_current, calendars_of, resolved
from duebook.book.checks import (
    check_definition,
    never_due,
    refuse_circle,
    refuse_past,
)
from duebook.book.quotas import admit
from duebook.book.templates import target_of
from duebook.errors import Conflict, Invalid, NotFound, quoted, shorten
from duebook.ids import new_id
from duebook.lazy_dataclasses import dataclass
from duebook.model.acted import Acted
from duebook.model.aliases import read_enabled
from duebook.model.definition import load_changes
from duebook.model.schedule import InvalidSchedule, Schedule
from duebook.model.window import spans_for
from duebook.planner import (
    first_plan,
    next_control,
)
from duebook.store.values import NewSchedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from duebook.book.audit import ScheduleAudit
    from duebook.book.rights import Rights
    from duebook.model.acted import Action, Pause
    from duebook.model.filters import ScheduleFilter
    from duebook.model.listing import Found, PagePosition
    from duebook.model.schedule import ScheduleSpec
    from duebook.model.target import Target
    from duebook.model.template import ScheduleTemplate
    from duebook.model.window import MaintenanceWindow
    from duebook.store.base import Store, Tx
    from duebook.targets.task import Tasks

__all__ = [
    "Wanted",
    "act_on",
    "act_on_named",
    "count_for",
    "create_all",
    "first_state",
    "read_all",
]

MOST_AT_ONCE: Final = 10_000
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of all definitions that are created together, as JSON, with their templates applied."""
MOST_PROBLEMS: Final = 100
MOST_COUNTED: Final = 1_000
"""Problems after which the rest is not checked."""
BATCH: Final = 200
"""Schedules that one transaction acts on."""
COUNTED: Final = 2_000
"""Schedules that one query counts."""
MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """A schedule to create, under its name."""

    name: str
    spec: ScheduleSpec
    enabled: bool = True
    template_target: Target | None = None
    """the target from its template, if it has one"""


class Problems:
    """Problems of items in a list, by path such as `schedules[17].trigger`; up to a limit."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        self._more = 0

    def add(self, number: int, problems: Mapping[str, str]) -> None:
        for field, problem in problems.items():
            if len(self._named) < MOST_PROBLEMS:
                place = f"schedules[{number}]"
                self._named[f"{place}.{field}" if field else place] = f"{place}: {problem}"
            else:
                self._more += 1

    @property
    def are_enough(self) -> bool:
        return self._more >= MOST_COUNTED

    def refuse(self) -> None:
        """Raises InvalidSchedule, if there are any."""
        if self._more:
            least = "at least " if self.are_enough else ""
            self._named["schedules"] = f"and {least}{self._more:,} more problems"
        if self._named:
            raise InvalidSchedule(self._named)


def read_all(
    definitions: Iterable[Mapping[str, Any]],
    find_template: Callable[[str], ScheduleTemplate],
    tasks: Tasks,
    namespace: str,
    least: int = 1,
) -> list[Wanted]:
    """Definitions with their names; raises InvalidSchedule with the problems of all of them."""
    if not isinstance(definitions, Iterable) or isinstance(definitions, str | bytes | dict):
        raise Invalid(f"schedules {shorten(definitions)} is not a list of definitions")
    forms = list(definitions)
    if not least <= len(forms) <= MOST_AT_ONCE:
        does = "created" if least else "declared"
        told = f"{least} to {MOST_AT_ONCE:,} can be {does} at once, not {len(forms):,}"
        raise Invalid(f"schedules: {told}")
    problems, found = Problems(), []
    places: dict[str, int] = {}
    room = Room()
    for number, form in enumerate(forms):
        if problems.are_enough:
            break
        try:
            wanted = _read(form, find_template, tasks, room, namespace)
        except InvalidSchedule as error:
            problems.add(number, error.problems)
            continue
        if (other := places.setdefault(wanted.name, number)) != number:
            told = f'name "{wanted.name}" is also the name of schedules[{other}]'
            problems.add(number, {"name": told})
        found.append(wanted)
    problems.refuse()
    return found


class Room:
    """How much more the definitions of a request may hold. Counted after templates are applied: a
    short request can use a large template ten thousand times."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def take(self, definition: dict[str, Any]) -> None:
        """Raises Invalid when it is too much."""
        try:
            self._left -= len(json.dumps(definition, ensure_ascii=False, default=str).encode())
        except (TypeError, ValueError, RecursionError):
            return  # not valid JSON; reading the definition reports that
        if self._left < 0:
            raise Invalid(
                f"schedules: together with the fields from their templates, they have more than "
                f"{MOST_BYTES:,} bytes; create fewer at once, or use smaller payloads"
            )


def _read(
    form: Any,
    find_template: Callable[[str], ScheduleTemplate],
    tasks: Tasks,
    room: Room,
    namespace: str,
) -> Wanted:
    if not isinstance(form, dict):
        raise InvalidSchedule({"": f"{shorten(form)} is not an object"})
    definition = {key: value for key, value in form.items() if key not in ("name", "template")}
    given = None
    if form.get("template") is not None:
        if not isinstance(form["template"], str):
            told = f"template {quoted(form['template'])} is not a string"
            raise InvalidSchedule({"template": told})
        try:
            found = find_template(form["template"])
        except (Invalid, NotFound) as error:
            raise InvalidSchedule({"template": str(error)}) from None
        definition, given = load_changes(found.defaults, definition), target_of(found)
    room.take(definition)
    definition, enabled, wrong = read_enabled(definition)
    spec = check_definition(form.get("name"), definition, tasks, wrong, namespace)
    return Wanted(str(form["name"]), spec, enabled is not False, given)


def first_state(
    wanted: Wanted,
    namespace: str,
    now: datetime,
    owner: str = "",
    windows: Sequence[MaintenanceWindow] = (),
) -> NewSchedule:
    """The state of a new schedule; raises InvalidSchedule when it would never be due.

    `windows` are the maintenance windows of the namespace.
    """
    fixed = wanted.spec.anchored(now).counting_from(now)
    refuse_past(fixed, now)
    when = first_plan(wanted.name, fixed, now)
    if when[0] is None and next_control(fixed, now, wanted.name) is None:
        raise never_due(fixed, now)
    if spans := spans_for(windows, dict(fixed.labels)):
        when = first_plan(wanted.name, fixed, now, spans)
    paused = not wanted.enabled
    if paused:
        when = when[0], None
    return NewSchedule(new_id(), namespace, wanted.name, fixed, *when, paused, owner)


def create_all(
    store: Store,
    wanted: Sequence[Wanted],
    audit: ScheduleAudit,
    rights: Rights,
    by: str,
    owner: str = "",
) -> list[Schedule]:
    """All or none, at one instant; all slow work is done before the transaction."""
    namespace, maker = audit.namespace, by or audit.by
    specs = [one.spec for one in wanted]
    now, known, windows = store.read(
        lambda tx: (
            tx.now,
            calendars_of(tx, namespace, specs),
            tx.calendars.list_windows(namespace),
        )
    )
    problems, made = Problems(), []
    for number, one in enumerate(wanted):
        try:
            found = replace(one, spec=resolved(one.spec, known))
            made.append(first_state(found, namespace, now, owner, windows))
        except InvalidSchedule as error:
            problems.add(number, error.problems)
    problems.refuse()

    def work(tx: Tx) -> None:
        for one in wanted:
            rights.refuse_secrets(one.spec)
        rights.refuse_all(tx, ((one.spec.target, one.template_target) for one in wanted))
        if not are_current(tx, namespace, (new.spec for new in made)):
            raise Conflict("a calendar has been changed in the meantime; try again")
        _refuse_others(tx, namespace, made)
        tx.schedules.create_schedules(made, maker, now)
        admit(tx, namespace, [(new.name, new.spec, None) for new in made])
        audit.created(tx, made, maker)

    store.transact(work)
    return [as_made(new, now, maker) for new in made]


def _refuse_others(tx: Tx, namespace: str, made: Sequence[NewSchedule]) -> None:
    """Reject names that are taken, and circles, which only the database shows."""
    problems = Problems()
    taken = tx.schedules.list_taken(namespace, [new.name for new in made])
    known = {new.name: [d.schedule for d in new.spec.depends_on] for new in made}
    for number, new in enumerate(made):
        if new.name in taken:
            told = f'schedule "{new.name}" already exists; choose another name'
            problems.add(number, {"name": told})
        try:
            refuse_circle(tx, namespace, new.name, new.spec, known)
        except InvalidSchedule as error:
            problems.add(number, error.problems)
    problems.refuse()


def as_made(new: NewSchedule, now: datetime, by: str) -> Schedule:
    """A newly created schedule, as it would be read."""
    return Schedule(
        id=new.id,
        namespace=new.namespace,
        name=new.name,
        version=1,
        spec=new.spec,
        status="paused" if new.paused else "active",
        created_at=now,
        created_by=by,
        owner=new.owner,
        updated_at=now,
        watermark=now,
        next_due_at=new.next_due_at,
        paused_at=now if new.paused else None,
    )


def act_on(
    store: Store,
    audit: ScheduleAudit,
    action: Action,
    wanted: ScheduleFilter,
    dry_run: bool,
    pause: Pause,
) -> Acted:
    """Apply it to all schedules that match a filter and are in the state for it, in batches.

    Each schedule is checked again under its lock, because it may have changed: none is done twice.
    """
    if pause.until is not None:
        store.read(lambda tx: refuse_past_end(tx, pause))
    if dry_run:
        return count_for(store, audit.namespace, action, wanted)
    count = 0
    names: list[str] = []
    for found in _batches(store, audit.namespace, action, wanted):
        done = _done(store, audit, action, list(found), pause)
        count += len(done)
        names += [name for id_, name in found.items() if id_ in done][: MOST_NAMED - len(names)]
    return Acted(action, count, tuple(names), dry_run)


def act_on_named(
    store: Store, audit: ScheduleAudit, action: Action, names: Sequence[str], pause: Pause
) -> list[str]:
    """Apply it to the named schedules that are in the state for it, in one transaction; returns
    the names of those that changed."""

    def work(tx: Tx) -> list[str]:
        ids = tx.schedules.list_taken(audit.namespace, names)
        refuse_past_end(tx, pause)
        done = act(tx, audit, action, list(ids.values()), pause) if ids else set()
        return [name for name, id_ in ids.items() if id_ in done]

    return store.transact(work)


def count_for(
    store: Store,
    namespace: str,
    action: Action,
    wanted: ScheduleFilter,
) -> Acted:
    """How many schedules it would be applied to."""
    count = 0
    names: list[str] = []
    for found in _batches(store, namespace, action, wanted, COUNTED):
        count += len(found)
        names += list(found.values())[: MOST_NAMED - len(names)]
    return Acted(action, count, tuple(names), dry_run=True)


def _batches(
    store: Store, namespace: str, action: Action, wanted: ScheduleFilter, size: int = BATCH
) -> Iterator[dict[str, str]]:
    """The names of the schedules that are in the state for it, by id."""
    state = STATES.get(action, wanted.status)
    if wanted.status not in (None, state):
        return
    wanted = replace(wanted, status=state)
    page: Found[tuple[str, str]] | None = None
    while page is None or page.last is not None:
        page = _find(store, namespace, wanted, page.last if page else None, size)
        yield dict(page.rows)


def _find(
    store: Store, namespace: str, wanted: ScheduleFilter, after: PagePosition | None, size: int
) -> Found[tuple[str, str]]:
    return store.read(lambda tx: tx.lists.find_schedules(namespace, wanted, "name", after, size))


def _done(
    store: Store, audit: ScheduleAudit, action: Action, ids: list[str], pause: Pause
) -> set[str]:
    return store.transact(lambda tx: act(tx, audit, action, ids, pause)) if ids else set()
