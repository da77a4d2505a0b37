"""The commands about runs: runs, output, cancel, retry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from duebook.cli.arguments import find_run, runs_of
from duebook.cli.commands import command
from duebook.cli.filters import (
    cursor_option,
    gather,
    limit_option,
    print_more,
    read_run_filter,
    run_filter_options,
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
    wrapped,
)
from duebook.cli.terminal import show_page, watch_option
from duebook.errors import Conflict, NotFound, shorten
from duebook.model.codec import encode
from duebook.model.run import RunDetails

if TYPE_CHECKING:
    from duebook.client import Client
    from duebook.model.run import Run

__all__ = ["cancel_command", "output_command", "retry_command", "runs_command", "show_run"]


@command("runs")
@click.argument("name", required=False)
@run_filter_options
@cursor_option
@limit_option(20, "How many runs to list.")
@watch_option
@json_option
def runs_command(
    name: str | None, cursor: str | None, limit: int, watch: bool, as_json: bool, **options: Any
) -> None:
    """List the newest runs, of all schedules or of NAME.

    NAME is a schedule, a flow, or a task with enqueued runs. The first
    characters of an id, as shown here, stand for the whole id.

    \b
    Examples:
      duebook runs --status failed --since 2h
      duebook runs backup --since 2026-03-29
      duebook runs --watch
    """
    wanted = read_run_filter(options)
    with open_book() as book:
        schedule, of = (name, wanted) if name is None else _of(book, name, wanted)

        def render() -> None:
            runs = gather(
                lambda place, most: book.runs.list(schedule, most, cursor=place, **of),
                cursor,
                limit,
            )
            if as_json:
                print_json([encode(run) for run in runs])
            elif runs:
                print_runs(book, runs)
            else:
                click.echo("no matching runs" if wanted or cursor else "no runs yet")
            print_more(runs)
            for problem in book.problems():
                click.echo(f"note: {problem}", err=True)

        show_page(render, watch, as_json)


def _of(book: Client, name: str, wanted: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The schedule to list, or the filter for the flow or task."""
    what, _ = runs_of(book, name, 1)
    return (name, wanted) if what == "schedule" else (None, wanted | {what: name})


@command("cancel")
@click.argument("run", metavar="RUN|NAME")
@json_option
def cancel_command(run: str, as_json: bool) -> None:
    """Cancel a run that is queued or running.

    NAME means its active run. A command that is running is stopped.
    """
    with open_book() as book:
        run_id = _active(book, run)
        answer = book.runs.cancel(run_id)
        if as_json:
            print_json(encode(book.runs.get(run_id)))
            return
        click.echo(f"run {run_id} {'was asked to stop' if answer == 'requested' else answer}")


@command("retry")
@click.argument("run", metavar="RUN|NAME")
@json_option
def retry_command(run: str, as_json: bool) -> None:
    """Run a finished run again, as a new attempt.

    NAME means its latest run. To retry failed runs by themselves, use --retry of
    duebook add: --retry 3 runs at most 3 times, counting the first. In a flow file,
    retries counts only the later ones: retries: 3 runs a step at most 4 times.
    """
    with open_book() as book:
        opened = book.runs.retry(find_run(book, run))
        if as_json:
            print_json(encode(opened))
        else:
            click.echo(f"run {opened.id} is queued again as attempt {opened.attempt + 1}")


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


@command("output")
@click.argument("run", metavar="RUN|NAME")
@click.option("--step", metavar="STEP", help="The output of this step of a flow.")
@json_option
def output_command(run: str, step: str | None, as_json: bool) -> None:
    """Print what the task, request or step of a run returned.

    NAME means its latest run. Text is printed as it is, everything else as JSON.

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
        known = ", ".join(filter(None, steps)) or "not known"
        raise NotFound(f'run {run.id} has no step "{shorten(step)}"; its steps are {known}')
    return steps[step]


def _output_words(run: Run) -> str:
    if run.output_size is not None:
        return f"{run.output_size:,} bytes; to print it: duebook output {run.id}"
    return "" if run.output is None else json.dumps(run.show_output(run.output), ensure_ascii=False)


def _interval(run: Run) -> str:
    if run.interval is None:
        return ""
    return f"{when(run.interval.start)} to {when(run.interval.end)}"


def show_run(book: Client, text: str, as_json: bool) -> None:
    """Show one run, with its earlier attempts."""
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
            ("interval", _interval(run)),
            ("requested by", run.requested_by or ""),
            ("planned by", run.planned_by or ""),
            ("status", status),
            ("progress", progress_words(run)),
            (
                "heartbeat",
                when(run.beat_at) if run.beat_at and run.status == "running" else "",
            ),
            ("reason", run.why),
            ("output", _output_words(run)),
            ("output ref", run.output_ref or ""),
            ("node", run.node or ""),
            ("queued", when(run.created_at)),
            ("started", when(run.started_at) if run.started_at else ""),
            ("finished", when(run.finished_at) if run.finished_at else ""),
        ],
        state="status",
    )
    if attempts:
        from duebook.explain.runs import explain_overlaps  # rarely needed, and slow to import

        click.echo("\nearlier attempts")
        rows = [
            (str(a.number), a.outcome.replace("_", " "), when(a.finished_at), a.error or "")
            for a in attempts
        ]
        print_table(("ATTEMPT", "OUTCOME", "ENDED", "ERROR"), rows, states=1)
        for told in explain_overlaps(run, attempts, when):
            click.echo(f"\n{wrapped(told, 0)}")
    click.echo(f"\nto see its log: duebook logs {run.id}")
