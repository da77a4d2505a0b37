"""The commands about runs: runs, logs, cancel, retry."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import find_run
from duebook.cli.filters import (
    cursor_option,
    gather,
    read_run_filter,
    run_filter_options,
    tell_more,
)
from duebook.cli.opening import open_book
from duebook.cli.output import (
    json_option,
    print_json,
    print_pairs,
    print_runs,
    print_table,
    progress_words,
    when,
)
from duebook.errors import Conflict, NotFound, printable
from duebook.model.forms import attempt_form, log_form, run_form
from duebook.store.values import START

if TYPE_CHECKING:
    from duebook.book import Book

__all__ = ["cancel_command", "logs_command", "retry_command", "runs_command", "show_run"]

POLL: Final = 0.2


@click.command("runs")
@click.argument("name", required=False)
@run_filter_options
@cursor_option
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True)
@json_option
def runs_command(
    name: str | None, cursor: str | None, limit: int, as_json: bool, **options: Any
) -> None:
    """List the newest runs, of all schedules or of NAME.

    The beginning of an id, as shown here, stands for the whole of it.

    \b
    Examples:
      duebook runs --status failed --since 2h
      duebook runs backup --origin manual
    """
    wanted = read_run_filter(options)
    with open_book() as book:
        runs = gather(
            lambda place, most: book.runs.list(name, most, cursor=place, **wanted), cursor, limit
        )
        if as_json:
            print_json([run_form(run) for run in runs])
        elif runs:
            print_runs(book, runs)
        else:
            click.echo("no run is like that" if wanted or cursor else "no runs yet")
        tell_more(runs)
        for problem in book.problems():
            click.echo(f"note: {problem}", err=True)


@click.command("logs")
@click.argument("run", metavar="RUN|NAME")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--times", is_flag=True, help="Show when each line was printed.")
@json_option
def logs_command(run: str, follow: bool, times: bool, as_json: bool) -> None:
    """Print what a run printed: stdout and stderr as they came. NAME means its latest run."""
    with open_book() as book:
        run_id = find_run(book, run)
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


@click.command("cancel")
@click.argument("run", metavar="RUN|NAME")
@json_option
def cancel_command(run: str, as_json: bool) -> None:
    """Cancel a run; when it is under way, its command is stopped. NAME means its active run."""
    with open_book() as book:
        run_id = _active(book, run)
        answer = book.runs.cancel(run_id)
        if as_json:
            print_json(run_form(book.runs.get(run_id)))
            return
        click.echo(f"run {run_id} {'is asked to stop' if answer == 'requested' else answer}")


@click.command("retry")
@click.argument("run", metavar="RUN|NAME")
@json_option
def retry_command(run: str, as_json: bool) -> None:
    """Open a run again that has ended, as another attempt. NAME means its latest run."""
    with open_book() as book:
        opened = book.runs.retry(find_run(book, run))
        if as_json:
            print_json(run_form(opened))
        else:
            click.echo(f"run {opened.id} is queued again, for attempt {opened.attempt + 1}")


def _active(book: Book, text: str) -> str:
    try:
        runs = book.runs.list(text, limit=1_000)
    except NotFound:
        return find_run(book, text)
    active = [run.id for run in runs if run.status in ("queued", "running")]
    if not active:
        raise Conflict(f'schedule "{text}" has no active run')
    if len(active) > 1:
        raise Conflict(f'schedule "{text}" has {len(active)} active runs; name one: {active[0]}')
    return active[0]


def show_run(book: Book, text: str, as_json: bool) -> None:
    """One run, with the attempts that it took."""
    run = book.runs.get(text)
    attempts = book.runs.attempts(run.id)
    if as_json:
        print_json(run_form(run) | {"attempts": [attempt_form(attempt) for attempt in attempts]})
        return
    status = f"{run.status}, attempt {run.attempt}" if run.attempt else run.status
    print_pairs(
        [
            ("run", run.id),
            ("schedule", run.schedule or ""),
            ("task", run.task or ""),
            ("trigger", run.trigger),
            ("due", when(run.due_at) if run.due_at else ""),
            ("status", status),
            ("progress", progress_words(run)),
            ("alive", when(run.beat_at) if run.beat_at and run.status == "running" else ""),
            ("why", run.error or run.reason or ""),
            ("output", "" if run.output is None else json.dumps(run.output, ensure_ascii=False)),
            ("output ref", run.output_ref or ""),
            ("node", run.node or ""),
            ("queued", when(run.created_at)),
            ("started", when(run.started_at) if run.started_at else ""),
            ("finished", when(run.finished_at) if run.finished_at else ""),
        ]
    )
    if attempts:
        click.echo("\nearlier attempts")
        rows = [
            (str(a.number), a.outcome.replace("_", " "), when(a.finished_at), a.error or "")
            for a in attempts
        ]
        print_table(("NO", "OUTCOME", "ENDED", "WHY"), rows)
    click.echo(f"\nits log: duebook logs {run.id}")
