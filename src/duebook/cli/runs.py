"""The commands about runs: runs, output, cancel, retry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from duebook.cli.arguments import find_run, runs_of
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
from duebook.errors import Conflict, NotFound, shorten
from duebook.model.codec import encode
from duebook.model.run import RunDetails

if TYPE_CHECKING:
    from duebook.client import Client
    from duebook.model.run import Run

__all__ = ["cancel_command", "output_command", "retry_command", "runs_command", "show_run"]


@click.command("runs")
@click.argument("name", required=False)
@run_filter_options
@cursor_option
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True)
@json_option
def runs_command(
    name: str | None, cursor: str | None, limit: int, as_json: bool, **options: Any
) -> None:
    """List the newest runs: all, or those of a schedule, a flow or a task NAME.

    Of a task they are the runs that were enqueued for it.

    The beginning of an id, as shown here, stands for the whole of it.

    \b
    Examples:
      duebook runs --status failed --since 2h
      duebook runs backup --origin manual
    """
    wanted = read_run_filter(options)
    with open_book() as book:
        schedule, of = (name, wanted) if name is None else _of(book, name, wanted)
        runs = gather(
            lambda place, most: book.runs.list(schedule, most, cursor=place, **of), cursor, limit
        )
        if as_json:
            print_json([encode(run) for run in runs])
        elif runs:
            print_runs(book, runs)
        else:
            click.echo("no run is like that" if wanted or cursor else "no runs yet")
        tell_more(runs)
        for problem in book.problems():
            click.echo(f"note: {problem}", err=True)


def _of(book: Client, name: str, wanted: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """What to ask for."""
    what, _ = runs_of(book, name, 1)
    return (name, wanted) if what == "schedule" else (None, wanted | {what: name})


@click.command("cancel")
@click.argument("run", metavar="RUN|NAME")
@json_option
def cancel_command(run: str, as_json: bool) -> None:
    """Cancel a run; when it is under way, its command is stopped. NAME means its active run."""
    with open_book() as book:
        run_id = _active(book, run)
        answer = book.runs.cancel(run_id)
        if as_json:
            print_json(encode(book.runs.get(run_id)))
            return
        click.echo(f"run {run_id} {'is asked to stop' if answer == 'requested' else answer}")


@click.command("retry")
@click.argument("run", metavar="RUN|NAME")
@json_option
def retry_command(run: str, as_json: bool) -> None:
    """Retry a run that has ended, as a new attempt. NAME means its latest run."""
    with open_book() as book:
        opened = book.runs.retry(find_run(book, run))
        if as_json:
            print_json(encode(opened))
        else:
            click.echo(f"run {opened.id} is queued again, for attempt {opened.attempt + 1}")


def _active(book: Client, text: str) -> str:
    try:
        what, runs = runs_of(book, text, 1_000)
    except NotFound:
        return find_run(book, text)
    active = [run.id for run in runs if run.is_active]
    if not active:
        raise Conflict(f'{what} "{text}" has no active run')
    if len(active) > 1:
        raise Conflict(f'{what} "{text}" has {len(active)} active runs; name one: {active[0]}')
    return active[0]


@click.command("output")
@click.argument("run", metavar="RUN|NAME")
@click.option("--step", metavar="STEP", help="Of a flow: what this step returned.")
@json_option
def output_command(run: str, step: str | None, as_json: bool) -> None:
    """Print what a run returned: the output of a task, a request or a step.

    NAME means its latest run. Text is printed as it is, anything else as JSON.

    \b
    Examples:
      duebook output etl --step extract
      duebook output 01a1e1a6-6ba1
    """
    with open_book() as book:
        found = book.runs.get(find_run(book, run))
        if step is not None:
            found = _step_of(book, found, step)
        output = found.show_output(book.runs.output(found.id))
    if as_json or not isinstance(output, str):
        print_json(output)
    else:
        click.echo(output)


def _step_of(book: Client, run: Run, step: str) -> Run:
    steps = {found.step: found for found in book.flows.steps(run.id)}
    if step not in steps:
        known = ", ".join(filter(None, steps)) or "none"
        raise NotFound(f'run {run.id} has no step "{shorten(step)}"; its steps are {known}')
    return steps[step]


def _output_words(run: Run) -> str:
    if run.output_size is not None:
        return f"{run.output_size:,} bytes; duebook output {run.id} prints it"
    return "" if run.output is None else json.dumps(run.show_output(run.output), ensure_ascii=False)


def show_run(book: Client, text: str, as_json: bool) -> None:
    """One run, with the attempts that it took."""
    run = book.runs.get(text)
    attempts = book.runs.attempts(run.id)
    if as_json:
        print_json(encode(RunDetails(run, attempts)))
        return
    status = f"{run.state}, attempt {run.attempt}" if run.attempt else run.state
    print_pairs(
        [
            ("run", run.id),
            ("schedule", run.schedule or ""),
            ("flow", run.flow or ""),
            ("step", run.step or ""),
            ("task", run.task or ""),
            ("trigger", run.trigger),
            ("due", when(run.due_at) if run.due_at else ""),
            ("status", status),
            ("progress", progress_words(run)),
            ("alive", when(run.beat_at) if run.beat_at and run.status == "running" else ""),
            ("why", run.why),
            ("output", _output_words(run)),
            ("output ref", run.output_ref or ""),
            ("node", run.node or ""),
            ("queued", when(run.created_at)),
            ("started", when(run.started_at) if run.started_at else ""),
            ("finished", when(run.finished_at) if run.finished_at else ""),
        ]
    )
    if attempts:
        from duebook.explain.runs import explain_overlaps  # seldom, and it takes its time

        click.echo("\nearlier attempts")
        rows = [
            (str(a.number), a.outcome.replace("_", " "), when(a.finished_at), a.error or "")
            for a in attempts
        ]
        print_table(("NO", "OUTCOME", "ENDED", "WHY"), rows)
        for told in explain_overlaps(run, attempts, when):
            click.echo(f"\n{click.wrap_text(told, 80)}")
    click.echo(f"\nits log: duebook logs {run.id}")
