"""Notes about what a schedule needs but does not have yet: a node, a worker, a program."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Final

import click

from duebook.cli.output import wrapped
from duebook.errors import Forbidden, NotFound, printable
from duebook.flows.problems import did_you_mean
from duebook.model.celery_target import CELERY, unknown_task
from duebook.model.event_target import EventTarget
from duebook.model.serving import unserved
from duebook.model.target import CommandTarget, worker_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.client import Client
    from duebook.model.node import LiveNode
    from duebook.model.schedule import Schedule, ScheduleSpec

__all__ = ["note_missing_nodes", "print_notes"]

ROLES: Final = ("scheduler", "worker")
"""Roles that must be running for a schedule to run."""


def note_missing_nodes(book: Client) -> None:
    """Print a note if nothing would be planned or run, unless the caller may not list nodes."""
    with suppress(Forbidden):
        if (missing := _missing_nodes(book.nodes.list())) is not None:
            _print(missing)


def _missing_nodes(nodes: Sequence[LiveNode], roles: Sequence[str] = ROLES) -> str | None:
    if not nodes:
        return "no node is running, so nothing is planned or run; start one: duebook up"
    for role in roles:
        if not any(role in node.roles for node in nodes):
            what = "becomes due" if role == "scheduler" else "is run"
            return f"no running node has the role {role}, so nothing {what}; start one: duebook up"
    return None


def _print(note: str) -> None:
    click.echo(wrapped(printable(f"note: {note}")), err=True)


def print_notes(book: Client, schedule: Schedule) -> None:
    """Print what is missing. It may be added later, so the schedule is not rejected."""
    if schedule.spec is not None:
        for note in _notes(book, schedule.namespace, schedule.spec):
            _print(note)


def _notes(book: Client, namespace: str, spec: ScheduleSpec) -> Iterator[str]:
    yield from _missing_schedules(book, spec)
    target = spec.target
    if isinstance(target, CommandTarget):
        yield from _missing_files(target)
    nodes = book.nodes.list()
    needed = ROLES[:1] if isinstance(target, EventTarget) else ROLES
    if (missing := _missing_nodes(nodes, needed)) is not None:
        yield missing
    if isinstance(target, EventTarget):  # needs no worker
        return
    told = unserved(namespace, [node.namespaces for node in nodes if node.works])
    if told is not None:
        yield told
        return
    workers = [node for node in nodes if node.serves(namespace)]
    if (task := worker_task(target)) is not None:
        yield from _unknown_task(task, workers)
    yield from _unserved_queue(spec.queue, workers)


def _missing_schedules(book: Client, spec: ScheduleSpec) -> Iterator[str]:
    """Schedules that it depends on, without which it does not run, but that do not exist."""
    for dependency in spec.depends_on:
        try:
            book.schedules.get(dependency.schedule)
        except NotFound:
            yield f'there is no schedule "{dependency.schedule}" yet'


def _missing_files(target: CommandTarget) -> Iterator[str]:
    """Programs and directories that do not exist; templates are skipped, as they have no value
    yet."""
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
    if name in known:
        return
    hint = did_you_mean(name, known) or "start one: duebook worker MODULE:BOOK"
    if name == CELERY:
        hint = "start one: duebook up --celery MODULE:APP"
    yield f"no live worker {unknown_task(name)}; {hint}"


def _unserved_queue(queue: str, workers: list[LiveNode]) -> Iterator[str]:
    """A note if no live worker serves the queue."""
    served = {name for node in workers for name in node.queues}
    if queue not in served and (workers or queue != "default"):
        yield f'no live worker serves queue "{queue}"; start one: duebook up --queue {queue}'
