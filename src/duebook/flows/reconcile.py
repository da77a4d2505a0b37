"""Compares the files of directories with the flows that are known, and says what changes; pure."""

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
    """A file as it is; with problems it has no flows."""

    place: str
    """the directory's name and the path in it"""
    digest: str
    source: str
    flows: tuple[Flow, ...]
    names: tuple[str, ...]
    """of its flows, as far as they could be read"""
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A flow as it is known: by its newest good revision."""

    name: str
    place: str
    digest: str
    has_schedule: bool = True
    """whether there is a schedule of its name, whoever made it"""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one flow.

    add: it is new. change: another revision is in force, its schedule and watermark stay. move:
    its file has another name. delete: nothing runs it any more; what is running ends by itself.
    schedule: what starts it is gone, and made again.
    """

    kind: Literal["add", "change", "move", "delete", "schedule"]
    name: str
    place: str
    was: str | None
    """the digest that this change is based on; None: there was no such flow"""
    revision: Revision | None = None
    flow: Flow | None = None


@dataclass(frozen=True, slots=True)
class Reconciled:
    """All that changes, deletions first, and what is wrong with which file."""

    changes: tuple[Change, ...]
    problems: Mapping[str, tuple[Problem, ...]]
    """by place, complete for the directories that were looked at"""
    broken: Mapping[str, Found]
    """the files that these are about"""


class Registry(Protocol):
    """Where flows are kept, with their schedules."""

    def kept(self) -> Sequence[Kept]:
        """All flows of the namespace that came from files."""

    def apply(self, found: Reconciled, roots: Collection[str]) -> None:
        """Do all changes at once, and keep the problems of these directories in place of others.

        Raises Conflict when a flow is no longer what a change is based on; nothing is done then.
        """

    def scanned(self, roots: Collection[str]) -> None:
        """The flows of these directories are equal to their files now.

        Raises Conflict when another node has taken one over since it was looked at.
        """


def reconcile(
    found: Mapping[str, Found],
    kept: Iterable[Kept],
    roots: Collection[str],
    unknown: Collection[str] = (),
) -> Reconciled:
    """What has to change so that the flows are those of the files.

    `roots` are the directories that could be looked at: nothing is said about others. A broken
    file leaves the last good revision of its flows in force, and so does a place that is
    `unknown`, for somebody is writing there.
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
    """The flows of all files in order, and what is wrong with the others.

    Who has a name keeps it; of new files with the same name, the first in order gets it.
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
    """A flow whose file is gone, or does not have it any more."""
    for place in sorted(problems):
        file = found.get(place)
        if kept.place not in found and file is not None and kept.name in file.names:
            return Change("move", kept.name, place, kept.digest)  # renamed, and broken meanwhile
    return Change("delete", kept.name, kept.place, kept.digest)


def notes_about(flows: Collection[Flow], names: Collection[str]) -> list[str]:
    """What to say about flows that may do something else than was meant; a `run` that is the name
    of a flow called that flow in Dagu 1."""
    notes = [note for flow in flows for note in flow.notes]
    return notes + [
        f'step "{step.name}" of flow {flow.name} runs the command {step.written.strip()}; '
        f"to run the flow of that name, write `call: {step.likely_flow}`"
        for flow in flows
        for step in flow.all_steps()
        if step.likely_flow in names
    ]
