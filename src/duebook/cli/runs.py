"""The commands about runs: runs, logs, cancel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_runs
from duebook.errors import NotFound, printable
from duebook.ids import looks_like_id
from duebook.model.forms import log_form, run_form
from duebook.store.base import START

if TYPE_CHECKING:
    from duebook.book import Book

__all__ = ["cancel_command", "logs_command", "runs_command"]

POLL: Final = 0.2


@click.command("runs")
@click.argument("name", required=False)
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True)
@json_option
def runs_command(name: str | None, limit: int, as_json: bool) -> None:
    """List the newest runs, of all schedules or of NAME."""
    with open_book() as book:
        runs = book.runs.list(name, limit)
        if as_json:
            print_json([run_form(run) for run in runs])
        elif runs:
            print_runs(runs)
        else:
            click.echo("no runs yet")


@click.command("logs")
@click.argument("run", metavar="RUN|NAME")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--times", is_flag=True, help="Show when each line was printed.")
@json_option
def logs_command(run: str, follow: bool, times: bool, as_json: bool) -> None:
    """Print what a run printed: stdout and stderr as they came. NAME means its latest run."""
    with open_book() as book:
        run_id = run if looks_like_id(run) else _latest(book, run)
        place, collected = START, []
        while True:
            ended = book.runs.get(run_id).status not in ("queued", "running")
            for page, line in (lines := book.runs.log(run_id, place)):
                if page.attempt == place.attempt and page.seq > place.seq + 1 and not as_json:
                    click.echo(f"… {page.seq - place.seq - 1:,} lines left out …")
                place = page
                if as_json:
                    collected.append(log_form(line))
                else:
                    stamp = f"{line.at.astimezone():%H:%M:%S.%f}"[:-3] + " " if times else ""
                    click.echo(stamp + printable(line.text.replace("\t", "    ")))
            if not lines and (ended or not follow):
                break
            if not lines:
                time.sleep(POLL)
        if as_json:
            print_json(collected)
        elif place == START:
            state = book.runs.get(run_id).status
            click.echo(f"run {run_id} ({state}) has printed nothing", err=True)


def _latest(book: Book, name: str) -> str:
    """The newest run of a schedule that has begun, else the newest."""
    runs = book.runs.list(name, limit=20)
    if not runs:
        raise NotFound(f'schedule "{name}" has no run yet')
    return next((run for run in runs if run.status != "queued"), runs[0]).id


@click.command("cancel")
@click.argument("run")
@json_option
def cancel_command(run: str, as_json: bool) -> None:
    """Cancel a run; when it is under way, its command is stopped."""
    with open_book() as book:
        answer = book.runs.cancel(run)
        if as_json:
            print_json(run_form(book.runs.get(run)))
            return
        click.echo(f"run {run} {'is asked to stop' if answer == 'requested' else answer}")
