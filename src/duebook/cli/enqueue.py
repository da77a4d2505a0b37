"""The commands `enqueue` and `wait`: runs a task without a schedule, and waits for runs to end."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.book.waiting import not_in_time, read_timeout
from duebook.cli.arguments import find_run, read_object
from duebook.cli.commands import LIMITS, command, in_section, option
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json
from duebook.cli.run import exit_by, until_interrupted
from duebook.cli.terminal import painted
from duebook.clock import utc_now
from duebook.errors import WaitTimeout, printable, shorten
from duebook.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.client import Client
    from duebook.model.run import EnqueuedRun, Run

__all__ = ["enqueue_command", "wait_command"]

HINT_AFTER: Final = 2.0
"""Seconds that a run waits for a worker before a hint explains why."""
_timeout_option = click.option(
    "--timeout",
    metavar="LENGTH",
    help="Stop waiting after this long, such as 30s; exit code 7 if the run has not ended.",
)


def _policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The policies of a run; --timeout is how long to wait, so an attempt's has another name."""
    for decorate in reversed(
        in_section(
            LIMITS,
            option("--queue", metavar="NAME", help="The queue. [default: default]"),
            option("--priority", type=int, metavar="N", help="Higher first. [default: 0]"),
            option("--retry", type=int, metavar="N", help="Attempts, counting the first."),
            option("--attempt-timeout", metavar="LENGTH", help="Stop an attempt after this long."),
            option("--expire-after", metavar="LENGTH", help="Cancel it if not started by then."),
            option("--max-takeovers", type=int, metavar="N", help="How many nodes it may lose."),
        )
    ):
        function = decorate(function)
    return function


def _key_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for decorate in reversed(
        (
            option(
                "--key",
                metavar="TEXT",
                help="Do not create another run of the task while one has this key.",
            ),
            option(
                "--unique",
                metavar="UNTIL",
                help="Until when a run keeps its key: pending (a worker claims it), active (it "
                "ends), forever, or a time such as 1h. [default: forever]",
            ),
            option(
                "--debounce",
                metavar="LENGTH",
                help="Start when the key was not used for this long, with the newest payload.",
            ),
            option(
                "--max-wait",
                metavar="LENGTH",
                help="The longest that --debounce delays a run. [default: ten times as long]",
            ),
            option(
                "--throttle",
                metavar="LENGTH",
                help="Start runs with this key at most once in this time, with the newest payload.",
            ),
        )
    ):
        function = decorate(function)
    return function


@command("enqueue")
@click.argument("task")
@click.option("--payload", metavar="JSON", help="The arguments of the task.")
@click.option("--delay", metavar="LENGTH", help="Start it this long from now.")
@_key_options
@click.option(
    "--wait", is_flag=True, help="Print its output when it ends; exit code 5 unless it succeeded."
)
@_timeout_option
@_policy_options
@json_option
def enqueue_command(
    task: str,
    payload: str | None,
    key: str | None,
    wait: bool,
    timeout: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a task once, without a schedule.

    Policies that are not given have their defaults, not those of the task's
    declaration, which only its program knows.

    \b
    Examples:
      duebook enqueue send_invoice --payload '{"order": 17}' --key invoice-17
      duebook enqueue rebuild_index --key index --unique pending
      duebook enqueue report --wait --timeout 5m
    """
    given = None if payload is None else read_object("--payload", payload)
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait; for an attempt, use --attempt-timeout")
    read_timeout(timeout)  # reject it before anything is queued
    options["timeout"] = options.pop("attempt_timeout")
    policies: Any = {name: value for name, value in options.items() if value is not None}
    with open_book(create=True) as book:
        run = book.enqueue(task, given, key=key, **policies)
        if not (wait and as_json):
            print_json(encode(run)) if as_json else click.echo(_told(run, key), err=wait)
        if wait:
            _finish([_wait(book, run, timeout)], book, as_json, one=True)


def _told(run: EnqueuedRun, key: str | None) -> str:
    """What the call did."""
    if run.is_new:
        return f"queued run {run.id}"
    taken = f'run {run.id} ({run.status}) has the key "{printable(shorten(key))}"'
    return {
        "existing": f"{taken}; nothing was created",
        "payload_ignored": f"{taken}, with another payload, which it keeps; nothing was created",
        "payload_replaced": f"{taken}; it has not started, and got the new payload",
    }[run.result]


@command("wait")
@click.argument("runs", metavar="RUN|NAME...", nargs=-1, required=True)
@_timeout_option
@json_option
def wait_command(runs: tuple[str, ...], timeout: str | None, as_json: bool) -> None:
    """Wait until runs have ended, and print what they returned.

    NAME means its latest run. The exit code is 5 if a run did not succeed, 6 if a
    flow continued after a failure, and 7 if a run has not ended in time. With several
    runs, each is printed with its id.

    \b
    Examples:
      duebook wait 01a1e1a6-6ba1 --timeout 10m
      duebook wait backup
    """
    with open_book() as book:
        found = [book.runs.get(find_run(book, run)) for run in runs]
        if len(found) == 1:
            ended = [_wait(book, found[0], timeout)]
        else:
            with until_interrupted(found[0].id):
                ended = book.runs.wait_all([run.id for run in found], timeout)
        _finish(ended, book, as_json, one=len(ended) == 1)


def _wait(book: Client, run: Run, timeout: str | None) -> Run:
    """Print a hint if no worker has started the run some time after it was due."""
    seconds = total = read_timeout(timeout)
    hint_after = max((run.ready_at - utc_now()).total_seconds(), 0.0) + HINT_AFTER
    with until_interrupted(run.id):
        if seconds is None or seconds > hint_after:
            with suppress(WaitTimeout):
                return book.runs.wait(run.id, hint_after)
            seconds = None if seconds is None else seconds - hint_after
            _hint(book, book.runs.get(run.id))
        try:
            return book.runs.wait(run.id, seconds)
        except WaitTimeout:
            raise not_in_time(run.id, total or 0.0) from None


def _hint(book: Client, run: Run) -> None:
    """Print why no worker has started it; not if a later call delayed it by debounce."""
    if run.status == "queued" and run.attempt == 0 and run.ready_at <= utc_now():
        told = "; ".join(book.problems()) or "is a node running? start one: duebook up"
        click.echo(printable(f"no worker has started it yet; {told}"), err=True)


def _finish(ended: list[Run], book: Client, as_json: bool, one: bool) -> None:
    """Print the outputs on stdout, and how the runs ended on stderr; set the exit code."""
    if as_json:
        forms = [encode(run) for run in ended]
        print_json(forms[0] if one else forms)
    for run in ended:
        why = f": {run.why}" if run.why else ""
        if not as_json:
            click.echo(printable(f"run {run.id} ") + painted(run.status) + printable(why), err=one)
            _print_output(book, run)
    exit_by(*(run.status for run in ended))


def _print_output(book: Client, run: Run) -> None:
    output = run.output if run.output_size is None else book.runs.output(run.id)
    if output is None:
        return
    shown = run.show_output(output)
    print_json(shown) if not isinstance(shown, str) else click.echo(shown)
