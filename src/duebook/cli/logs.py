"""The command `logs`: the output of a run; for a flow that of its steps, labelled by step."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import find_run
from duebook.cli.commands import command
from duebook.cli.instants import read_past
from duebook.cli.log_reader import LogPiece, LogPrinter, RunLog
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json
from duebook.errors import Invalid, NotFound, printable, shorten
from duebook.flows.problems import did_you_mean
from duebook.model.codec import encode
from duebook.model.flow_target import FLOW_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from duebook.client import Client
    from duebook.model.run import Run

__all__ = ["logs_command"]

POLL: Final = 0.2


@command("logs")
@click.argument("run", metavar="RUN|NAME")
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the run ends.")
@click.option("--tail", "-n", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
@click.option(
    "--since",
    metavar="TIME",
    help="Only lines printed since then: 5m ago, a date, or a time (in your time zone).",
)
@click.option("--step", metavar="STEP", help="Only this step of a flow.")
@click.option("--times", is_flag=True, help="Show when each line was printed.")
@json_option
def logs_command(
    run: str,
    follow: bool,
    tail: int | None,
    since: str | None,
    step: str | None,
    times: bool,
    as_json: bool,
) -> None:
    """Print what a run wrote to stdout and stderr.

    NAME means its latest run. A separator shows where another attempt starts.
    Of a flow, the lines of all steps are printed in the order of time.

    \b
    Examples:
      duebook logs backup
      duebook logs backup --tail 20 --follow
      duebook logs backup --since 10m --times
      duebook logs etl --step extract
    """
    begin = None if since is None else read_past("--since", since)
    with open_book() as book:
        found = book.runs.get(find_run(book, run))
        if step is not None:
            _check_step(book, found, step)
        log, printer, nothing = RunLog(book, found, step), LogPrinter(times), True
        collected, most = list[dict[str, Any]](), tail
        while True:
            ended, more = not book.runs.get(found.id).is_active, False
            for piece in _wanted(log.new(), begin, most):
                more, nothing = True, False
                if as_json:
                    collected.append(_form(found, piece))
                else:
                    printer(piece, log.width)
            most = None  # after the tail, print everything
            if not more and (ended or not follow):
                break
            if not more:
                time.sleep(POLL)
        if as_json:
            print_json(collected)
        elif nothing:
            _print_nothing(found, step, log.state, limited=since is not None or tail == 0)


def _wanted(
    pieces: Iterable[LogPiece], since: datetime | None, tail: int | None
) -> Iterable[LogPiece]:
    if since is not None:
        pieces = (piece for piece in pieces if piece.line.at >= since)
    return pieces if tail is None else deque(pieces, tail)


def _print_nothing(run: Run, step: str | None, state: str, limited: bool) -> None:
    who = f"run {run.id}" if step is None else f'step "{printable(step)}"'
    told = "has no such lines" if limited else "has printed nothing"
    click.echo(f"{who} ({state}) {told}", err=True)


def _check_step(book: Client, run: Run, step: str) -> None:
    """Raises NotFound for a step that the flow does not have."""
    if run.queue != FLOW_QUEUE:
        raise Invalid(f"--step is for runs of flows; run {run.id} is not one")
    known = {found.step for found in book.flows.steps(run.id)} - {None}
    first = step.partition("/")[0]
    if {step, first} & known:
        return
    with suppress(NotFound):  # the flow was deleted, but the run's steps are still known
        known |= {each["name"] for each in book.flows.get(run.flow or "").steps}
    if not {step, first} & known:
        names = sorted(filter(None, known))
        hint = did_you_mean(step, names) or f"it has {', '.join(names)}"
        raise NotFound(f'flow "{run.flow}" has no step "{shorten(step)}"; {hint}')


def _form(run: Run, piece: LogPiece) -> dict[str, Any]:
    form = encode(piece.line)
    if run.queue != FLOW_QUEUE:
        return form
    return {"step": piece.step, "run_id": piece.run_id} | form
