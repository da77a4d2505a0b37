"""Reads definitions of schedules, each once: a revision never changes."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.model.plan import Handover, Owner, Plan, Snapshot
from duebook.model.schedule import InvalidSchedule, ScheduleSpec
from duebook.model.unreadable import describe_unreadable, missing_definition, read_spec
from duebook.store.sql.rows import Copied, copied
from duebook.store.sql.statements import Ask, Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.store.sql.statements import Row

__all__ = ["UNREADABLE_AGAIN", "Definition", "DefinitionReader", "Definitions", "remember"]

MOST_KNOWN: Final = 100_000
UNREADABLE_AGAIN: Final = timedelta(minutes=1)


class Definition(NamedTuple):
    """A revision, with the values that its runs copy."""

    name: str
    spec: ScheduleSpec
    copied: Copied
    heeds_runs: bool
    owner: Owner
    handover: Handover | None = None


Definitions = dict[tuple[str, int], Definition]


class Unread(NamedTuple):
    """A revision that this node cannot read."""

    owner: Owner
    name: str
    text: str | None
    """None when it is missing"""
    problem: str
    handover: Handover | None = None

    @property
    def title(self) -> str:
        namespace = self.owner.namespace
        return self.name if namespace == "default" else f"{namespace}/{self.name}"


def remember(known: Definitions, learned: Definitions) -> None:
    """Cache definitions that a committed transaction read; revisions never change."""
    if len(known) + len(learned) > MOST_KNOWN:
        known.clear()
    known.update(learned)


class DefinitionReader(Part):
    """Definitions by the id and version of their schedules."""

    @cached_property
    def unreadable(self) -> dict[tuple[str, int], Unread]:
        """Definitions that this node cannot read."""
        return {}

    def read(self, pairs: Sequence[tuple[str, int]]) -> Definitions:
        """Name and definition of each pair; revisions never change, so they are read once."""
        if unknown := self.unknown(pairs):
            self.learn(self._db.together(self.ask(unknown))[0])
        return self.known(pairs)

    def unknown(self, pairs: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Those that must be read."""
        known, learned = self._db.known, self._db.learned
        return [pair for pair in pairs if pair not in known and pair not in learned]

    def known(self, pairs: Sequence[tuple[str, int]]) -> Definitions:
        """Those that have been read, and perhaps others."""
        known, learned = self._db.known, self._db.learned
        if not learned:
            return known
        return {pair: found for pair in pairs if (found := known.get(pair) or learned.get(pair))}

    def ask(self, unknown: Sequence[tuple[str, int]]) -> Ask:
        """The query whose result `learn` needs."""
        ids, versions = [id_ for id_, _ in unknown], [version for _, version in unknown]
        return Ask("list_definitions", {"ids": ids, "versions": versions})

    def learn(self, rows: Sequence[Row]) -> None:
        for id_, version, namespace, name, spec, user, *former in rows:
            handover = self._handover(*former)
            try:
                if spec is None:
                    raise missing_definition()
                found = _definition(spec, namespace, name, user)
                if handover is not None:
                    found = found._replace(handover=handover)
                self._db.learned[id_, version] = found
            except InvalidSchedule as error:  # a newer node may allow what this one does not
                problem = describe_unreadable(error.problems)
                owner = Owner(namespace, user)
                self.unreadable[id_, version] = Unread(owner, name, spec, problem, handover)

    def _handover(self, at: Any, last_due_at: Any) -> Handover | None:
        time = self._db.time
        return None if at is None else Handover(time(at), time(last_due_at))

    def of(self, owner: Plan | Snapshot) -> Definition:
        """What was read when the schedule was taken."""
        pair = owner.schedule_id, owner.version
        return self._db.known.get(pair) or self.read([pair])[pair]


@lru_cache(maxsize=10_000)
def _definition(text: str, namespace: str, name: str, user: str) -> Definition:
    """Cached by text, as definitions never change."""
    spec = read_spec(text, name)
    owner = Owner(namespace, user)
    return Definition(name, spec, copied(namespace, spec), spec.heeds_runs, owner)
