"""Compares the files of directories with the registered flows, and returns the changes; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from duebook.flows.problems import Problem
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import Revision, root_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from duebook.model.flow import Flow

__all__ = ["Change", "Found", "Kept", "Reconciled", "Registry", "notes_about", "reconcile"]


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it is now; it has no flows if it has problems."""

    place: str
    """the directory's name and the path in it"""
    digest: str
    source: str
    flows: tuple[Flow, ...]
    names: tuple[str, ...]
    """the names of its flows, as far as they could be read"""
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A flow in the registry, by its newest good revision."""

    name: str
    place: str
    digest: str
    has_schedule: bool = True
    """whether a schedule of its name exists, no matter what created it"""


@dataclass(frozen=True, slots=True)
class Change:
    """A change to one flow.

    add: the flow is new. change: another revision is used from now on; its schedule and watermark
    stay. move: its file has another name. delete: nothing starts the flow any more; active runs end
    by themselves. schedule: the schedule that starts the flow is missing, and is created again.
    """

    kind: Literal["add", "change", "move", "delete", "schedule"]
    name: str
    place: str
    was: str | None
    """the digest that this change is based on; None: the flow did not exist"""
    revision: Revision | None = None
    flow: Flow | None = None


@dataclass(frozen=True, slots=True)
class Reconciled:
    """All changes, deletions first, and what is wrong with which file."""

    changes: tuple[Change, ...]
    problems: Mapping[str, tuple[Problem, ...]]
    """by place, complete for the directories that were read"""
    broken: Mapping[str, Found]
    """the files with these problems"""


class Registry(Protocol):
    """Where flows are stored, with their schedules."""

    def kept(self) -> Sequence[Kept]:
        """All flows of the namespace that came from files."""

    def apply(self, found: Reconciled, roots: Collection[str]) -> None:
        """Make all changes at once, and replace the stored problems of these directories.

        Raises Conflict, and changes nothing, when a flow is no longer what a change is based on.
        """

    def scanned(self, roots: Collection[str]) -> None:
        """Record that the flows of these directories equal their files now.

        Raises Conflict when another node has taken over a directory since it was read.
        """


def reconcile(
    found: Mapping[str, Found],
    kept: Iterable[Kept],
    roots: Collection[str],
    unknown: Collection[str] = (),
) -> Reconciled:
    """What has to change so that the flows equal the files.

    `roots` are the directories that could be read; flows of others do not change. The last good
    revision of a flow stays in use if its file is broken, or if its place is `unknown` because the
    file is still being written.
    """
    known = {flow.name: flow for flow in kept}
    ours = {name: flow for name, flow in known.items() if root_of(flow.place) in roots}
    taken = {name: flow.place for name, flow in known.items() if name not in ours}
    accepted, problems = _accept(found, ours, taken)
    changes = []
    for name, (flow, file) in accepted.items():
        if (change := _changed(name, flow, file, ours.get(name))) is not None:
            changes.append(change)
    for name, flow_kept in ours.items():
        if name in accepted or flow_kept.place in unknown or flow_kept.place in problems:
            continue
        changes.append(_left(flow_kept, found, problems))
    order = ("delete", "move", "change", "add", "schedule")
    changes.sort(key=lambda change: (order.index(change.kind), change.name))
    return Reconciled(tuple(changes), problems, {place: found[place] for place in problems})


def _accept(
    found: Mapping[str, Found], ours: Mapping[str, Kept], taken: Mapping[str, str]
) -> tuple[dict[str, tuple[Flow, Found]], dict[str, tuple[Problem, ...]]]:
    """The flows of all files in order, and what is wrong with the other files.

    A file keeps the names that it has; of new files with the same name, the first in order gets it.
    """
    owners, accepted = dict(taken), dict[str, tuple["Flow", Found]]()
    problems = {place: file.problems for place, file in found.items() if file.problems}
    for kept in ours.values():
        if kept.place in problems:  # its last good revision stays
            owners[kept.name] = kept.place
    good = [file for file in found.values() if not file.problems]
    good.sort(key=lambda file: (not _is_home(file, ours), file.place))
    for file in good:
        others = (name for name in file.names if owners.get(name, file.place) != file.place)
        clash = next(others, None)
        if clash is not None:
            problems[file.place] = (_twice(file.place, clash, owners[clash], clash in taken),)
            continue
        for flow in file.flows:
            owners[flow.name] = file.place
            accepted[flow.name] = (flow, file)
    return accepted, problems


def _twice(place: str, name: str, owner: str, is_elsewhere: bool) -> Problem:
    told, hint = f'flow "{name}" is already defined in {owner}', "rename one of them"
    if is_elsewhere:
        root = root_of(owner)
        hint += f"; if no node uses {root} any more: duebook flow forget {root}"
    return Problem(place, 1, 1, "name", told, hint)


def _is_home(file: Found, ours: Mapping[str, Kept]) -> bool:
    """Whether a file is where its first flow was before."""
    first = ours.get(file.names[0])
    return first is not None and first.place == file.place


def _changed(name: str, flow: Flow, file: Found, kept: Kept | None) -> Change | None:
    revision = Revision(name, file.place, file.digest, file.source)
    if kept is None:
        return Change("add", name, file.place, None, revision, flow)
    if kept.digest != file.digest:
        return Change("change", name, file.place, kept.digest, revision, flow)
    if kept.place != file.place:
        return Change("move", name, file.place, kept.digest, revision, flow)
    if flow.has_times and not kept.has_schedule:
        return Change("schedule", name, file.place, kept.digest, None, flow)
    return None


def _left(
    kept: Kept, found: Mapping[str, Found], problems: Mapping[str, tuple[Problem, ...]]
) -> Change:
    """The change to a flow whose file is gone or no longer defines it."""
    for place in sorted(problems):
        file = found.get(place)
        if kept.place not in found and file is not None and kept.name in file.names:
            return Change("move", kept.name, place, kept.digest)  # renamed, and now broken
    return Change("delete", kept.name, kept.place, kept.digest)


def notes_about(flows: Collection[Flow], names: Collection[str]) -> list[str]:
    """Notes on flows that may not do what was meant: in Dagu 1, a `run` with the name of a flow
    called that flow."""
    notes = [note for flow in flows for note in flow.notes]
    return notes + [
        f'step "{step.name}" of flow {flow.name} runs the command {step.written.strip()}; '
        f"to run the flow of that name, write `call: {step.likely_flow}`"
        for flow in flows
        for step in flow.all_steps()
        if step.likely_flow in names
    ]
