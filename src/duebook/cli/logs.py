"""The command `logs`: what a run printed; of a flow what its steps did, each line with its step."""

from __future__ import annotations

import heapq
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from duebook.cli.arguments import find_run
from duebook.cli.opening import open_book
from duebook.cli.output import cut, json_option, print_json
from duebook.errors import Invalid, NotFound, counted, printable, shorten
from duebook.flows.problems import did_you_mean
from duebook.model.codec import encode
from duebook.model.flow_target import FLOW_QUEUE
from duebook.store.values import START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.client import Client
    from duebook.model.run import LogLine, Run
    from duebook.store.values import Page

__all__ = ["logs_command"]

POLL: Final = 0.2
PAGE: Final = 1_000
WIDEST: Final = 24
"""Characters of a step's name before its lines."""


@click.command("logs")
@click.argument("run", metavar="RUN|NAME")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--step", metavar="STEP", help="Of a flow: what this step printed.")
@click.option("--times", is_flag=True, help="Show when each line was printed.")
@json_option
def logs_command(run: str, follow: bool, step: str | None, times: bool, as_json: bool) -> None:
    """Print what a run printed: stdout and stderr as they came. NAME means its latest run.

    Of a flow it is what its steps printed, in the order of time.

    \b
    Examples:
      duebook logs backup
      duebook logs etl --follow
      duebook logs etl --step extract
    """
    with open_book() as book:
        found = book.runs.get(find_run(book, run))
        if step is not None:
            _check_step(book, found, step)
        log, collected, nothing = _Log(book, found, step), list[dict[str, Any]](), True
        while True:
            ended, more = not book.runs.get(found.id).is_active, False
            for piece in log.new():
                more, nothing = True, False
                if as_json:
                    collected.append(_form(found, piece))
                else:
                    _print(piece, log.width, times)
            if not more and (ended or not follow):
                break
            if not more:
                time.sleep(POLL)
        if as_json:
            print_json(collected)
        elif nothing:
            who = f"run {found.id}" if step is None else f'step "{printable(step)}"'
            click.echo(f"{who} ({log.state}) has printed nothing", err=True)


class _Piece(NamedTuple):
    """A line, and whose it is."""

    run_id: str
    step: str
    left_out: int
    """lines before it that were not kept"""
    line: LogLine


class _Log:
    """What a run and its steps have printed since that was last asked."""

    def __init__(self, book: Client, run: Run, step: str | None) -> None:
        self._book = book
        self._run = run
        self._step = step
        self._places: dict[str, Page] = {}
        self._read: set[str] = set()
        """runs that have ended, of which nothing will come"""
        self.width = 0
        """of the longest name of a step"""
        self.state = run.state if step is None else "not begun"

    def new(self) -> Iterator[_Piece]:
        """In the order of time, as far as there is something now."""
        sources = list(self._sources(self._run, ""))
        self.width = max((min(len(name), WIDEST) for name, _ in sources), default=0)
        logs = [self._lines(name, run) for name, run in sources if run.id not in self._read]
        yield from heapq.merge(*logs, key=lambda piece: piece.line.at)
        ended = {run.id for _, run in sources if not run.is_active}
        self._read |= ended - {self._run.id}

    def _sources(self, run: Run, name: str) -> Iterator[tuple[str, Run]]:
        """A run and, when it is that of a flow, those of its steps; by the names of the steps."""
        wanted = self._shown(name)
        if wanted is not None:
            self.state = run.state if name == (self._step or "") else self.state
            yield wanted, run
        if run.queue == FLOW_QUEUE:
            for step in self._book.flows.steps(run.id):
                if step.step is not None:
                    yield from self._sources(step, f"{name}/{step.step}" if name else step.step)

    def _shown(self, name: str) -> str | None:
        """How a step is called here; None when nobody asked for it."""
        if self._step is None:
            return name
        within = name == self._step or name.startswith(f"{self._step}/")
        return name[len(self._step) + 1 :] if within else None

    def _lines(self, name: str, run: Run) -> Iterator[_Piece]:
        place, lines = self._places.get(run.id, START), None
        while lines is None or len(lines) == PAGE:
            lines = self._book.runs.log(run.id, place, PAGE)
            for page, line in lines:
                left_out = page.seq - place.seq - 1 if page.attempt == place.attempt else 0
                self._places[run.id] = place = page
                yield _Piece(run.id, name, left_out, line)


def _check_step(book: Client, run: Run, step: str) -> None:
    """Refuse a step that the flow does not have."""
    if run.queue != FLOW_QUEUE:
        raise Invalid(f"--step goes with flows; run {run.id} is none of a flow")
    known = {found.step for found in book.flows.steps(run.id)} - {None}
    first = step.partition("/")[0]
    if {step, first} & known:
        return
    with suppress(NotFound):  # deleted since: the run tells which there are
        known |= {each["name"] for each in book.flows.get(run.flow or "").steps}
    if not {step, first} & known:
        names = sorted(filter(None, known))
        hint = did_you_mean(step, names) or f"it has {', '.join(names)}"
        raise NotFound(f'flow "{run.flow}" has no step "{shorten(step)}"; {hint}')


def _form(run: Run, piece: _Piece) -> dict[str, Any]:
    form = encode(piece.line)
    if run.queue != FLOW_QUEUE:
        return form
    return {"step": piece.step, "run_id": piece.run_id} | form


def _print(piece: _Piece, width: int, times: bool) -> None:
    name = cut(printable(piece.step), WIDEST)
    before = f"{name.ljust(width)} | " if width else ""
    if piece.left_out > 0:
        click.echo(f"{before}… {counted(piece.left_out, 'line')} left out …")
    line = piece.line
    stamp = f"{line.at.astimezone():%H:%M:%S.%f}"[:-3] + " " if times else ""
    click.echo(stamp + before + printable(line.text.replace("\t", "    ")))
