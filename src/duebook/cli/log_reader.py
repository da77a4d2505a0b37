"""Reads the output of a run and its steps as it comes, and prints it, separated by attempt."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from duebook.cli.output import cut
from duebook.errors import counted, printable
from duebook.model.flow_target import FLOW_QUEUE
from duebook.store.values import START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.client import Client
    from duebook.model.run import LogLine, Run
    from duebook.store.values import Page

__all__ = ["LogPiece", "LogPrinter", "RunLog"]

PAGE: Final = 1_000
WIDEST: Final = 24
"""Characters of a step's name in front of its lines."""


class LogPiece(NamedTuple):
    """A line, with the step and attempt that printed it."""

    run_id: str
    step: str
    attempt: int
    left_out: int
    """lines before it that were discarded"""
    line: LogLine


class RunLog:
    """New output of a run and its steps since the last read."""

    def __init__(self, book: Client, run: Run, step: str | None = None) -> None:
        self._book = book
        self._run = run
        self._step = step
        self._places: dict[str, Page] = {}
        self._read: set[str] = set()
        """runs that have ended, and whose log was read to its end"""
        self.width = 0
        """length of the longest step name"""
        self.state = run.state if step is None else "not started"

    def new(self) -> Iterator[LogPiece]:
        """The lines available now, in the order of time."""
        sources = list(self._sources(self._run, ""))
        self.width = max((min(len(name), WIDEST) for name, _ in sources), default=0)
        logs = [self._lines(name, run) for name, run in sources if run.id not in self._read]
        yield from heapq.merge(*logs, key=lambda piece: piece.line.at)
        ended = {run.id for _, run in sources if not run.is_active}
        self._read |= ended - {self._run.id}

    def _sources(self, run: Run, name: str) -> Iterator[tuple[str, Run]]:
        """A run, and for a flow run the runs of its steps; each with the step's name."""
        wanted = self._shown(name)
        if wanted is not None:
            self.state = run.state if name == (self._step or "") else self.state
            yield wanted, run
        if run.queue == FLOW_QUEUE:
            for step in self._book.flows.steps(run.id):
                if step.step is not None:
                    yield from self._sources(step, f"{name}/{step.step}" if name else step.step)

    def _shown(self, name: str) -> str | None:
        """The step's name in front of its lines; None if that step is not selected."""
        if self._step is None:
            return name
        within = name == self._step or name.startswith(f"{self._step}/")
        return name[len(self._step) + 1 :] if within else None

    def _lines(self, name: str, run: Run) -> Iterator[LogPiece]:
        place, lines = self._places.get(run.id, START), None
        while lines is None or len(lines) == PAGE:
            lines = self._book.runs.log(run.id, place, PAGE)
            for page, line in lines:
                left_out = page.seq - place.seq - 1 if page.attempt == place.attempt else 0
                self._places[run.id] = place = page
                yield LogPiece(run.id, name, page.attempt, left_out, line)


class LogPrinter:
    """Prints lines, with a separator between attempts."""

    def __init__(self, times: bool = False) -> None:
        self._times = times
        self._attempts: dict[str, int] = {}

    def __call__(self, piece: LogPiece, width: int) -> None:
        """`width`: length of the longest step name."""
        name = cut(printable(piece.step), WIDEST)
        before = f"{name.ljust(width)} | " if width else ""
        if piece.attempt != self._attempts.get(piece.run_id, 1):
            click.echo(f"{before}--- attempt {piece.attempt} ---")
        self._attempts[piece.run_id] = piece.attempt
        if piece.left_out > 0:
            click.echo(f"{before}… {counted(piece.left_out, 'line')} not kept …")
        line = piece.line
        stamp = f"{line.at.astimezone():%Y-%m-%d %H:%M:%S.%f}"[:-3] + " " if self._times else ""
        click.echo(stamp + before + printable(line.text.replace("\t", "    ")))
