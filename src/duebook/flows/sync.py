"""Keeps flows equal to the files of directories: reads them, waits until they are stable, compares.

Every step reads all files again and compares their content: a lost event only costs time. New
content counts once it has been stable for a moment, and nothing is deleted while other files
change, so that half-written files and renames are recognised.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from duebook.errors import Conflict, Invalid, shorten
from duebook.flows.build import build
from duebook.flows.files import Content, called, default_name, find, read
from duebook.flows.problems import Problem, Refused
from duebook.flows.reconcile import Found, notes_about, reconcile
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import root_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from duebook.flows.reconcile import Change, Kept, Reconciled, Registry

__all__ = ["FlowSync", "Synced"]

STILL: Final = 0.2
"""Seconds for which content must be stable."""
PATIENCE: Final = 5.0
"""Seconds for which other changing files delay a deletion."""
RESCAN: Final = 60.0
"""Seconds between scans when nothing hints at a change."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Synced:
    """What a step has done, and when the next one is needed."""

    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]
    """all problems that exist now"""
    wait: float
    """seconds until the next step, unless something hints at a change"""
    notes: tuple[str, ...] = ()
    """notes on flows that changed"""
    is_late: bool = False
    """whether another node changed something first, perhaps under its own lease"""


@dataclass(frozen=True, slots=True)
class _File:
    """The content of a file, or why it cannot be read."""

    path: Path
    content: Content | Refused

    @property
    def digest(self) -> str:
        return f"? {self.content}" if isinstance(self.content, Refused) else self.content.digest

    def is_gone(self) -> bool:
        return isinstance(self.content, Content) and not os.path.exists(self.path)  # noqa: PTH110

    def build(self, place: str) -> Found:
        if isinstance(self.content, Refused):
            return Found(place, self.digest, "", (), (), (self.content.problem,))
        built = build(self.content.text, place, default_name(self.path))
        return Found(
            place, self.digest, self.content.text, built.flows, built.names, built.problems
        )


@dataclass(slots=True)
class _Seen:
    """The content of a place, and since when it has been there; "" means no file."""

    digest: str
    since: float


class FlowSync:
    """The files of some directories and a registry; each step makes the two equal."""

    def __init__(self, roots: Sequence[Path], registry: Registry) -> None:
        self._roots = {root.resolve().name: root for root in roots}
        if len(self._roots) < len(roots):
            raise Invalid("two flow directories have the same name; rename one")
        if any(not name or not name.isprintable() for name in self._roots):
            raise Invalid("a flow directory needs a name")
        self._registry = registry
        self._seen: dict[str, _Seen] = {}
        self._taken: dict[str, Found] = {}
        """by place: the content that counts, because it has been stable"""
        self._moving_since: float | None = None

    def step(self, now: float, held: Collection[str] | None = None) -> Synced:
        """Read all files and apply what changed; `now` is from a clock that is never set.

        If `held` is given, only those directories are read; otherwise all are.

        Raises Unavailable when the registry does not answer; the next step then starts from the
        same state.
        """
        current, roots, gone = self._look(self._roots if held is None else held)
        moving = self._settle(current, roots, now)
        unknown = {place for place in moving if place not in self._taken}
        files = {place: file for place, file in self._taken.items() if root_of(place) in roots}
        kept = self._registry.kept()
        found = reconcile(files, kept, roots, unknown)
        found = self._patient(found, moving, now)
        told = (*gone, *(p for place in sorted(found.problems) for p in found.problems[place]))
        try:
            self._registry.apply(found, roots)
            self._registry.scanned(roots - self._unsettled(moving, now))
        except Conflict as error:  # another node was quicker; look again
            _log.info("flows: %s", error)
            return Synced((), told, STILL, is_late=True)
        notes = _notes(found.changes, kept)
        return Synced(found.changes, told, STILL if moving else RESCAN, notes)

    @property
    def queues(self) -> set[str]:
        """The queues that the flows in the files name."""
        return {flow.policies.queue for file in self._taken.values() for flow in file.flows}

    @property
    def has_problems(self) -> bool:
        return any(file.problems for file in self._taken.values())

    def forget(self, roots: Collection[str]) -> None:
        """Forget directories that other nodes manage from now on: what was seen will be
        outdated."""
        for known in (self._seen, self._taken):
            for place in [place for place in known if root_of(place) in roots]:
                del known[place]

    def _look(self, names: Collection[str]) -> tuple[dict[str, _File], set[str], list[Problem]]:
        """All files by place, the directories that could be listed, and problems for the others."""
        current: dict[str, _File] = {}
        roots: set[str] = set()
        gone: list[Problem] = []
        for name, root in self._roots.items():
            if name not in names:
                continue
            try:
                paths = list(find(root))
            except OSError as error:
                told = f"the directory cannot be read: {shorten(error.strerror or str(error))}"
                gone.append(Problem(name, 0, 0, "", told, "its flows stay unchanged"))
                continue
            roots.add(name)
            for path in paths:
                place = f"{name}/{path.relative_to(root).as_posix()}"
                try:
                    content = read(path, place, root)
                except Refused as error:
                    current[called(place)] = _File(path, error)
                else:
                    if content is not None:
                        current[place] = _File(path, content)
        return current, roots, gone

    def _settle(self, current: dict[str, _File], roots: set[str], now: float) -> set[str]:
        """Accept content that has been stable; returns the places that are not.

        Only accepted files are built, and only if they still exist: in a storm of changes, most are
        gone.
        """
        moving = set()
        for place in sorted({*current, *self._seen}):
            if root_of(place) not in roots:
                continue
            digest = current[place].digest if place in current else ""
            seen = self._seen.get(place)
            if seen is None or seen.digest != digest:
                seen = self._seen[place] = _Seen(digest, now)
            if self._counts(place) != digest:
                if now - seen.since < STILL or (digest and current[place].is_gone()):
                    moving.add(place)
                    continue
                if digest:
                    self._taken[place] = current[place].build(place)
                else:
                    del self._taken[place]
            if not digest:
                del self._seen[place]
        return moving

    def _counts(self, place: str) -> str:
        return self._taken[place].digest if place in self._taken else ""

    def _unsettled(self, moving: set[str], now: float) -> set[str]:
        """Directories with changing files; empty once nothing waits for them any more."""
        return set() if self._is_patient_no_longer(now) else {root_of(place) for place in moving}

    def _is_patient_no_longer(self, now: float) -> bool:
        """Whether files have been changing for so long that nothing waits for them any more."""
        return self._moving_since is not None and now - self._moving_since >= PATIENCE

    def _patient(self, found: Reconciled, moving: set[str], now: float) -> Reconciled:
        """Drop deletions while other files change, for a while: a rename may be in progress."""
        if not moving:
            self._moving_since = None
            return found
        if self._moving_since is None:
            self._moving_since = now
        if self._is_patient_no_longer(now):
            return found
        changes = tuple(change for change in found.changes if change.kind != "delete")
        return replace(found, changes=changes)


def _notes(changes: Sequence[Change], kept: Sequence[Kept]) -> tuple[str, ...]:
    flows = [change.flow for change in changes if change.flow is not None]
    names = {flow.name for flow in flows} | {flow.name for flow in kept}
    return tuple(notes_about(flows, names))
