"""What somebody who defines a schedule should know: what it needs, and is not there yet."""

from __future__ import annotations

import os
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import click

from duebook.cli.output import wrapped
from duebook.errors import NotFound, printable
from duebook.flows.problems import did_you_mean
from duebook.model.event_target import EventTarget
from duebook.model.serving import unserved
from duebook.model.target import CommandTarget, TaskTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.client import Client
    from duebook.model.node import LiveNode
    from duebook.model.schedule import Schedule, ScheduleSpec

__all__ = ["print_notes"]


def print_notes(book: Client, schedule: Schedule) -> None:
    """Mostly none. All of it may come later, so nothing of it is refused."""
    if schedule.spec is not None:
        for note in _notes(book, schedule.namespace, schedule.spec):
            click.echo(wrapped(printable(f"note: {note}")), err=True)


def _notes(book: Client, namespace: str, spec: ScheduleSpec) -> Iterator[str]:
    yield from _missing_schedules(book, spec)
    target = spec.target
    if isinstance(target, CommandTarget):
        yield from _missing_files(target)
    if isinstance(target, EventTarget):  # it needs no worker
        return
    nodes = book.nodes.list()
    told = unserved(namespace, [node.namespaces for node in nodes if "worker" in node.roles])
    if told is not None:
        yield told
        return
    workers = [node for node in nodes if node.serves(namespace)]
    if isinstance(target, TaskTarget):
        yield from _unknown_task(target.name, workers)
    yield from _unserved_queue(spec.queue, workers)


def _missing_schedules(book: Client, spec: ScheduleSpec) -> Iterator[str]:
    """Until a schedule exists, what depends on it does not run."""
    for dependency in spec.depends_on:
        try:
            book.schedules.get(dependency.schedule)
        except NotFound:
            yield f'there is no schedule "{dependency.schedule}" yet'


def _missing_files(target: CommandTarget) -> Iterator[str]:
    """What a template names nobody knows yet."""
    folder = target.cwd
    if folder is not None and "{{" not in folder and not Path(folder).is_dir():
        yield f'there is no directory "{folder}" on this machine'
        return
    program = target.argv[0] if target.argv else None
    if program is None or "{{" in program:
        return
    if os.sep in program:
        found = which(str(Path(folder or ".") / program))
    else:
        found = which(program, path=dict(target.env).get("PATH"))
    if found is None:
        yield f'there is no program "{program}" on this machine'


def _unknown_task(name: str, workers: list[LiveNode]) -> Iterator[str]:
    known = sorted({task for node in workers for task in node.tasks})
    if name not in known:
        hint = did_you_mean(name, known) or "start one: duebook worker MODULE:BOOK"
        yield f'no live worker knows task "{name}"; {hint}'


def _unserved_queue(queue: str, workers: list[LiveNode]) -> Iterator[str]:
    """That nothing serves the default queue before the first node starts, everybody knows."""
    served = {name for node in workers for name in node.queues}
    if queue not in served and (workers or queue != "default"):
        yield f'no live worker serves queue "{queue}"; start one: duebook up --queue {queue}'
