"""The command `run`: runs a schedule now, and optionally waits for the run."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import name_argument, read_object
from duebook.cli.commands import command
from duebook.cli.exit_codes import INTERRUPTED, RUN_FAILED, RUN_PARTIAL
from duebook.cli.log_reader import LogPrinter, RunLog
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_pairs, when
from duebook.cli.terminal import painted
from duebook.clock import utc_now
from duebook.errors import printable
from duebook.model.codec import encode
from duebook.model.hidden import load_shown
from duebook.model.run import DONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.client import Client
    from duebook.model.run import Run, RunStatus

__all__ = ["exit_by", "run_command", "until_interrupted"]

POLL: Final = 0.1
HINT_AFTER: Final = 2.0
"""Seconds that a run waits before a hint explains why."""


@command("run")
@name_argument
@click.option("--payload", metavar="JSON", help="Use this payload instead of the schedule's.")
@click.option(
    "--wait",
    is_flag=True,
    help="Print its log until it ends; exit code 5 unless it succeeded, 6 if partial.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would run, with its values, without running it."
)
@json_option
def run_command(name: str, payload: str | None, wait: bool, dry_run: bool, as_json: bool) -> None:
    """Run a schedule now, without using up a due time.

    \b
    Examples:
      duebook run backup
      duebook run backup --wait
      duebook run report --payload '{"region": "eu"}' --dry-run
    """
    given = None if payload is None else read_object("--payload", payload)
    with open_book() as book:
        if dry_run:
            form = book.schedules.render(name, given)
            print_json(form) if as_json else print_pairs(_rendered(form))
            return
        run = book.schedules.trigger(name, given)
        if not wait:
            print_json(encode(run)) if as_json else click.echo(f"queued run {run.id}")
            return
        with until_interrupted(run.id):
            run = _await(book, run, quiet=as_json)
        if as_json:
            print_json(encode(run))
        else:
            why = f": {run.error or run.reason}" if run.reason else ""
            click.echo(printable(f"run {run.id} ") + painted(run.status) + printable(why))
        exit_by(run.status)


def exit_by(*ends: RunStatus) -> None:
    """Exit with an error code unless all awaited runs succeeded."""
    if set(ends) <= {"succeeded"}:
        return
    click.get_current_context().exit(RUN_PARTIAL if set(ends) <= {*DONE} else RUN_FAILED)


@contextmanager
def until_interrupted(run_id: str) -> Iterator[None]:
    """After Ctrl-C, print that the run continues, and exit."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\nstopped waiting; run {run_id} continues", err=True)
        click.echo(f"to follow it: duebook logs {run_id} --follow", err=True)
        click.echo(f"to stop it: duebook cancel {run_id}", err=True)
        click.get_current_context().exit(INTERRUPTED)


def _rendered(form: dict[str, Any]) -> list[tuple[str, str]]:
    target, payload = form["target"], form["payload"]
    http = target.get("http", {})
    runs = f"{http['method']} {http['url']}" if http else str(load_shown(target))
    return [
        ("runs", runs),
        *(("header", f"{name}: {value}") for name, value in http.get("headers", {}).items()),
        ("json", json.dumps(http["json"], ensure_ascii=False) if "json" in http else ""),
        ("body", http.get("body", "")),
        ("payload", json.dumps(payload, ensure_ascii=False) if payload else ""),
    ]


def _await(book: Client, run: Run, quiet: bool) -> Run:
    """Follow a run until it has ended: state changes on stderr, its log on stdout."""
    log, printer = RunLog(book, run), LogPrinter()
    shown, hint_at, hinted = None, 0.0, False
    while run.is_active:
        if (run.status, run.attempt) != shown:
            shown = (run.status, run.attempt)
            until_ready = max((run.ready_at - utc_now()).total_seconds(), 0.0)
            hint_at = time.monotonic() + until_ready + HINT_AFTER
            if not quiet:
                click.echo(f"run {run.id} {_progress(run, until_ready > 0)}", err=True)
        if run.status == "queued" and not hinted and time.monotonic() > hint_at:
            hinted = True
            click.echo(f"no worker has started it yet{_why_not(book, run)}", err=True)
        time.sleep(POLL)
        run = book.runs.get(run.id)
        if not quiet:
            for piece in log.new():
                printer(piece, log.width)
    return run


def _why_not(book: Client, run: Run) -> str:
    problem = book.schedules.get(run.schedule_id).problem if run.schedule_id else None
    return f": {problem}" if problem else "; is a node running? start one: duebook up"


def _progress(run: Run, waits: bool) -> str:
    if run.status == "queued" and run.attempt and waits:
        return f"waiting for attempt {run.attempt + 1}, {when(run.ready_at)}"
    number = run.attempt + 1 if run.status == "queued" else run.attempt
    return f"{run.status}, attempt {number}" if number > 1 else run.status
