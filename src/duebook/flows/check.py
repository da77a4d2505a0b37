"""Checks flow files together: each by itself, and how they fit together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.flows.build import Built, build, calls_in_circle
from duebook.flows.files import called, default_name, find, read
from duebook.flows.problems import Problem, Refused
from duebook.flows.reconcile import notes_about
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import FlowTarget

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from duebook.model.flow import Flow

__all__ = ["Checked", "check_files", "unknown_calls"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A file, its flows, and what is wrong with it."""

    file: str
    flows: tuple[Flow, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def check_files(paths: Iterable[Path]) -> list[Checked]:
    """Check each file, and those in directories; a name that two files use is also a problem."""
    files: dict[Path, Path | None] = {}
    for path in paths:
        root = path if path.is_dir() else None
        files |= dict.fromkeys([path] if root is None else find(root), root)
    return _together([_check(file, root) for file, root in files.items()])


def _check(path: Path, root: Path | None) -> Checked:
    """Check one file; in a directory, the rules that a node applies there hold too."""
    name = called(str(path))
    try:
        content = read(path, str(path), root)
    except Refused as error:
        return Checked(name, (), (error.problem,))
    if content is None:
        told = "it is a broken link" if path.is_symlink() else "the file does not exist"
        return Checked(name, (), (Problem(name, 0, 0, "", told),))
    built: Built = build(content.text, name, default_name(path))
    return Checked(name, built.flows, built.problems)


def _together(checked: list[Checked]) -> list[Checked]:
    owners: dict[str, str] = {}
    found = []
    for each in checked:
        problems = list(each.problems)
        for flow in each.flows:
            owner = owners.setdefault(flow.name, each.file)
            if owner != each.file:
                told = f'flow "{flow.name}" is already defined in {owner}'
                problems.append(Problem(each.file, 1, 1, "name", told, "rename one of them"))
        found.append(Checked(each.file, each.flows, tuple(problems)))
    flows = [flow for each in checked for flow in each.flows]
    names = {flow.name for flow in flows}
    found = [replace(each, notes=tuple(notes_about(each.flows, names))) for each in found]
    if circle := calls_in_circle(flows):
        told = f"flows run each other in a circle: {' → '.join(circle)}"
        place = next(n for n, each in enumerate(found) if owners[circle[0]] == each.file)
        whole = found[place]
        problem = Problem(whole.file, 1, 1, "steps", told, "remove one of these calls")
        found[place] = replace(whole, problems=(*whole.problems, problem))
    return found


def unknown_calls(checked: Iterable[Checked]) -> list[tuple[str, str]]:
    """(flow, name) for each step that calls a flow that none of the files defines."""
    flows = {flow.name: flow for each in checked for flow in each.flows}
    return [
        (flow.name, step.target.name)
        for flow in flows.values()
        for step in flow.all_steps()
        if isinstance(step.target, FlowTarget) and step.target.name not in flows
    ]
