"""The commands about stored flows: ls, show, start, stop, restart, retry, forget."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import read_params
from duebook.cli.commands import command
from duebook.cli.opening import open_book
from duebook.cli.output import (
    json_option,
    print_json,
    print_pairs,
    print_problem,
    print_runs,
    print_table,
    took,
    when,
    wrapped,
)
from duebook.cli.run import exit_by, until_interrupted
from duebook.clock import utc_now
from duebook.errors import NotFound, printable
from duebook.flows.problems import Problem
from duebook.model.codec import encode
from duebook.model.flow_target import FLOW_QUEUE
from duebook.timetext import format_duration, relative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from duebook.client import Client
    from duebook.model.flow_view import FlowView
    from duebook.model.run import Run

__all__ = ["COMMANDS", "print_end", "watch"]

PAGE: Final = 1_000
POLL: Final = 0.2
CHECK_EVERY: Final = 2.0
"""Seconds between two checks of what the run waits for."""
_wait_option = click.option(
    "--wait",
    is_flag=True,
    help="Print each step until the run ends; exit code 5 unless it succeeded, 6 if partial.",
)


@command("ls")
@click.option(
    "--label",
    "labels",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Only flows with this label or tag; repeatable.",
)
@json_option
def ls_command(labels: tuple[str, ...], as_json: bool) -> None:
    """List flows, each with its latest run, and broken files.

    With --json, a file that defines no flow has no name, only place and problem.
    """
    wanted = dict(label.partition("=")[::2] for label in labels)
    with open_book() as book:
        page = book.flows.list(PAGE)
        found = list(page)
        while page.next_cursor is not None:
            page = book.flows.list(PAGE, cursor=page.next_cursor)
            found += page
        views = [view for view in found if _has(view, wanted)]
        if not views and wanted:
            raise NotFound(f"no flow has the label {', '.join(labels)}; duebook flow ls lists all")
        problems = book.flows.problems()
        flowless = [] if wanted else list(_flowless(found, problems))
        if as_json:
            broken = [{"name": None, "place": file, "problem": told} for file, told in flowless]
            print_json([*map(encode, views), *broken])
            return
        if not views and not problems:
            click.echo("no flows yet; start a node that reads some: duebook up --flows DIR")
            return
        now, rows = utc_now(), []
        for view in views:
            run = view.last_run
            last = "" if run is None else f"{run.state} {relative(run.created_at - now)}"
            rows.append((view.name, view.starts or "manually", last, view.problem or ""))
        rows += [(file, "", "", told.removeprefix(f"{file}:").lstrip()) for file, told in flowless]
        if rows:
            print_table(("FLOW", "STARTS", "LAST RUN", "PROBLEM"), rows, shrinks=1, states=2)
        for told in problems:
            print_problem(Problem(**told), err=True)


def _flowless(
    views: Iterable[FlowView], problems: Iterable[dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    """The broken files that define no flow, each with its first problem."""
    told = {view.place for view in views}
    for problem in (Problem(**each) for each in problems):
        if problem.file not in told:
            told.add(problem.file)
            yield problem.file, str(problem)


@command("show")
@click.argument("name")
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show a flow, its steps and its latest runs."""
    with open_book() as book:
        view = book.flows.get(name)
        if as_json:
            print_json(encode(view))
            return
        print_pairs(
            [
                ("flow", view.name),
                ("file", f"{view.place}, since {when(view.updated_at)}"),
                ("starts", view.starts or "manually"),
                ("stops", view.stops or ""),
                ("restarts", view.restarts or ""),
                ("stops by", _how_it_stops(view)),
                ("params", ", ".join(param["name"] for param in view.params)),
            ]
        )
        _print_problems(book, view)
        _print_steps(book, view)
        if runs := book.flows.runs(view.name, 5):
            print_runs(book, runs)
        for told in (*view.waits, *([view.unread] if view.unread else [])):
            click.echo(wrapped(printable(told)))
        if view.last_run is not None and view.last_run.is_active:
            click.echo(f"to see what each step waits for: duebook explain {view.name}")


def _has(view: FlowView, wanted: Mapping[str, str]) -> bool:
    """Whether a flow has all labels; a label without a value matches any value."""
    own = view.labels or {}
    return all(name in own and value in ("", own[name]) for name, value in wanted.items())


@command("start")
@click.argument("name")
@click.argument("words", metavar="[-- VALUE...]", nargs=-1)
@click.option(
    "--param", "params", metavar="NAME=VALUE", multiple=True, help="A parameter; repeatable."
)
@_wait_option
@json_option
def start_command(
    name: str, words: tuple[str, ...], params: tuple[str, ...], wait: bool, as_json: bool
) -> None:
    """Start a flow now.

    Values after -- are its params: NAME=VALUE by name, others by their place.

    \b
    Examples:
      duebook flow start etl --param DAY=2026-02-07
      duebook flow start etl --wait
      duebook flow start copy -- in.csv out.csv
    """
    given = read_params(params, words)
    with open_book() as book:
        run = book.flows.start(name, given)
        if (unread := book.flows.get(name).unread) is not None:
            click.echo(wrapped(printable(f"note: {unread}")), err=True)
        _follow(book, run, wait, as_json, "started")


@command("stop")
@click.argument("name")
@json_option
def stop_command(name: str, as_json: bool) -> None:
    """Cancel the active runs of a flow.

    Its `abort` handler runs.
    """
    with open_book() as book:
        runs = book.flows.stop(name)
        if as_json:
            print_json([encode(run) for run in runs])
            return
        if not runs:
            click.echo(f"flow {name} has no active runs; it will not be restarted")
        for run in runs:
            told = "cancelled" if run.status == "cancelled" else "was asked to stop"
            click.echo(f"run {run.id} {told}")


@command("forget")
@click.argument("directory")
def forget_command(directory: str) -> None:
    """Delete the flows of a directory that no node reads.

    Deletes their schedules too. DIRECTORY is its name, as in the paths of flow
    files: `flows` for flows/etl.yaml.
    """
    with open_book() as book:
        for name in book.flows.forget(directory):
            click.echo(f"deleted {name}")


@command("restart")
@click.argument("name")
@json_option
def restart_command(name: str, as_json: bool) -> None:
    """Stop a flow if it is running, and start it again.

    Waits between the two as long as its file says.
    """
    with open_book() as book:
        view = book.flows.restart(name)
        if as_json:
            print_json(encode(view))
        else:
            click.echo(f"flow {view.name} restarts")


@command("retry")
@click.argument("run", metavar="RUN|NAME")
@click.option("--step", metavar="STEP", help="Start at this step instead of those that failed.")
@_wait_option
@json_option
def retry_command(run: str, step: str | None, wait: bool, as_json: bool) -> None:
    """Continue a finished run of a flow from where it failed.

    NAME means its latest run. Steps that succeeded are not run again. To retry
    failed steps by themselves, use retries in the flow file: retries: 3 runs a step
    at most 4 times. (--retry 3 of duebook add counts the first: at most 3 times.)
    """
    with open_book() as book:
        run_id = _latest(book, run) or run
        before = book.flows.steps(run_id)
        again = book.flows.retry(run_id, step)
        if not as_json:
            _print_newer(book, again)
        _follow(book, again, wait, as_json, "continues", before)


_step_arguments = (click.argument("run", metavar="RUN|NAME"), click.argument("step"))
_comment_option = click.option("--comment", metavar="TEXT", help="Why; kept with the answer.")


@command("approve")
@_step_arguments[0]
@_step_arguments[1]
@_comment_option
@json_option
def approve_command(run: str, step: str, comment: str | None, as_json: bool) -> None:
    """Approve a step that waits for a person.

    NAME means the latest run of that flow, which continues.
    """
    with open_book() as book:
        done = book.flows.approve(_latest(book, run) or run, step, comment)
        print_json(encode(done)) if as_json else click.echo(f"approved step {step}")


@command("reject")
@_step_arguments[0]
@_step_arguments[1]
@_comment_option
@json_option
def reject_command(run: str, step: str, comment: str | None, as_json: bool) -> None:
    """Reject a step that waits for a person.

    NAME means the latest run of that flow. The step fails.
    """
    with open_book() as book:
        done = book.flows.reject(_latest(book, run) or run, step, comment)
        print_json(encode(done)) if as_json else click.echo(f"rejected step {step}")


def _print_newer(book: Client, run: Run) -> None:
    """Note that the file has changed since the run started: the run keeps its version."""
    name = run.flow or ""
    try:
        newest = book.flows.get(name)
    except NotFound:
        return
    if newest.digest != book.flows.performed(run.id).digest:
        click.echo(
            "note: the file has changed since this run started; the run uses the old version"
        )
        click.echo(f"to use the new version: duebook flow start {name}")


def _latest(book: Client, name: str) -> str | None:
    try:
        return next((run.id for run in book.flows.runs(name, 1)), None)
    except NotFound:
        return None


def _follow(
    book: Client, run: Run, wait: bool, as_json: bool, told: str, before: Iterable[Run] = ()
) -> None:
    """`before`: its steps so far, which are printed only when they change."""
    if not as_json:
        click.echo(f"run {run.id} of flow {run.flow} {told}")
    if wait:
        with until_interrupted(run.id):
            run = watch(book, run, {step.id: _progress(step) for step in before}, quiet=as_json)
    if as_json:
        print_json(encode(run))
    if wait:
        if not as_json:
            print_end(run)
        exit_by(run.status)


def print_end(run: Run) -> None:
    why = f": {run.why}" if run.why else ""
    click.echo(wrapped(printable(f"{run.flow} {run.state}{why}")))


def watch(
    book: Client,
    run: Run,
    seen: dict[str, tuple[str, int]],
    quiet: bool,
    look: Callable[[], None] = lambda: None,
) -> Run:
    """Print each step as it starts and ends, until the run has ended; returns the run.

    `seen` maps each step to what was printed, and `look` is called in each round.
    """
    told: set[str] = set()
    looked_at = time.monotonic()
    while True:
        current = book.runs.get(run.id)
        ended = not current.is_active
        look()
        for step in book.flows.steps(run.id):
            if step.step is None or seen.get(step.id) == _progress(step):
                continue
            seen[step.id] = _progress(step)
            if not quiet and step.status != "queued":
                click.echo(wrapped(printable(_line(step)), 4))
        if ended:
            return current
        if not quiet and time.monotonic() - looked_at > CHECK_EVERY:
            looked_at = time.monotonic()
            for line in _waits(book, run.id):
                if line not in told:
                    click.echo(wrapped(printable(f"  {line}"), 4))
                told.add(line)
        time.sleep(POLL)


def _waits(book: Client, run_id: str, within: str = "") -> Iterator[str]:
    """What a run and its steps wait for, including those of flows that it called; without times,
    which would differ a moment later."""
    found = book.flows.explain(run_id)
    if found.verdict == "queued":
        yield f"{within or found.flow}  waits: {found.text.partition(': ')[2] or found.text}"
    for step in found.steps:
        if step.verdict == "queued" or (step.verdict == "waiting" and step.run_id is not None):
            yield f"{within}{step.step}  waits: {step.text.partition(': ')[2] or step.text}"
        elif step.verdict == "waiting" and step.text.startswith("waits until"):
            yield f"{within}{step.step}  {step.text}"
    for called in book.flows.steps(run_id):
        if called.step is not None and called.queue == FLOW_QUEUE and called.status == "running":
            yield from _waits(book, called.id, f"{within}{called.step}/")


def _progress(step: Run) -> tuple[str, int]:
    return step.status, step.attempt


def _print_problems(book: Client, view: FlowView) -> None:
    """Print the problems in the file of a flow."""
    found = [Problem(**told) for told in book.flows.problems() if told["file"] == view.place]
    if found or view.problem:
        click.echo("\nits file has problems; the last valid version stays in use")
    for problem in found:
        print_problem(problem)
    if view.problem and not found:
        click.echo(printable(view.problem))
    click.echo()


def _how_it_stops(view: FlowView) -> str:
    """What its file says about signals and about the time until SIGKILL."""
    told = [f"{s['stop_signal']} for {s['name']}" for s in view.steps if "stop_signal" in s]
    if view.stop_grace is not None:
        told.append(f"SIGKILL {format_duration(view.stop_grace)} later")
    return ", ".join(told)


def _print_steps(book: Client, view: FlowView) -> None:
    """Print the steps of a flow, and their state in its latest run."""
    done = {} if view.last_run is None else {s.step: s for s in book.flows.steps(view.last_run.id)}
    begun = [run for run in done.values() if run.step is not None and run.attempt]
    short = book.runs.short_ids(begun)
    rows, reasons = [], list[str]()
    for step in view.steps:
        run = done.get(step["name"])
        status, length, why = ("", "", "") if run is None else _state(run)
        own = "" if run is None else short.get(run.id, "")
        after = ", ".join(step["depends"])
        rows.append((step["name"], status, length, own, after))
        reasons += [f"{step['name']}: {why}"] if why else []
    print_table(("STEP", "LAST RUN", "TOOK", "RUN", "AFTER"), rows, shrinks=0, states=1)
    for reason in reasons:
        click.echo(wrapped(printable(reason)))
    if begun:
        click.echo(f"to see their logs: duebook logs {view.name}, or duebook logs RUN for one")
    click.echo()


def _line(step: Run) -> str:
    """A step and its state."""
    status, length, why = _state(step)
    tries = f" (attempt {step.attempt})" if step.attempt > 1 else ""
    within = f" in {length}" if length else ""
    return f"  {step.step}  {status}{within}{tries}" + (f": {why}" if why else "")


def _state(step: Run) -> tuple[str, str, str]:
    """A step's status, its duration, and the reason of its end."""
    return step.state, took(step), "" if step.status == "running" else step.why


COMMANDS: Final = (
    ls_command,
    show_command,
    start_command,
    stop_command,
    restart_command,
    retry_command,
    approve_command,
    reject_command,
    forget_command,
)
