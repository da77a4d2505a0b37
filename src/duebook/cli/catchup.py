"""The commands about held due times: ls, approve, reject."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from duebook.cli.arguments import optional_name_argument, read_pair
from duebook.cli.commands import group
from duebook.cli.filters import gather, limit_option
from duebook.cli.instants import read_past
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table, when, wrapped
from duebook.errors import counted
from duebook.model.codec import encode
from duebook.model.held import BulkDecision
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.client import Client
    from duebook.model.held import CatchupDecision, DecisionKind, HeldRange

__all__ = ["catchup_group", "held_words"]


@group("catchup")
def catchup_group() -> None:
    """List, approve and reject missed due times that are held.

    A schedule with catchup_approval holds missed due times when there are too many
    of them. They wait for a decision and do not expire; later due times run as usual.
    """


@catchup_group.command("ls")
@optional_name_argument
@limit_option(100, "How many ranges to list.")
@json_option
def ls_command(name: str | None, limit: int, as_json: bool) -> None:
    """List the missed due times that wait for a decision.

    \b
    Examples:
      duebook catchup ls
      duebook catchup ls report --json
    """
    with open_book() as book:
        found = gather(
            lambda place, most: book.catchup.list(name, place, min(most, 1_000)), None, limit
        )
    if as_json:
        print_json([encode(held) for held in found])
    elif found:
        head = ("SCHEDULE", "DUE TIMES", "FIRST", "LAST", "HELD SINCE")
        print_table(head, [_row(held) for held in found], shrinks=0)
        if found.next_cursor is not None:
            click.echo("note: there are more; use --limit", err=True)
    else:
        click.echo("no due times are held")


def _row(held: HeldRange) -> tuple[str, ...]:
    times = (when(moment) for moment in (held.due_from, held.due_to, held.held_at))
    return held.schedule, _number(held.count, held.exact), *times


def held_words(ranges: Sequence[HeldRange]) -> str:
    """How many due times of a schedule are held, and which."""
    exact = all(held.exact for held in ranges)
    count = counted(sum(held.count for held in ranges), "due time")
    first, last = ranges[0].due_from, max(held.due_to for held in ranges)
    span = f"from {when(first)} to {when(last)}" if last > first else f"at {when(first)}"
    return f"{'' if exact else 'at least '}{count} {span}"


def _number(count: int, exact: bool) -> str:
    return f"{count:,}{'' if exact else '+'}"


def _choice(words: str) -> Callable[[Any], Any]:
    """The options with which both commands select due times."""

    def add(function: Any) -> Any:
        for option in (
            json_option,
            click.option("--dry-run", is_flag=True, help="Only print what would happen."),
            click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
            click.option("--to", "end", metavar="TIME", help="… to here."),
            click.option(
                "--from",
                "start",
                metavar="TIME",
                help=f"{words} the due times from here, such as 7d ago, a date or time in the "
                "schedule's zone, or an instant …",
            ),
            click.option("--all", "every", is_flag=True, help=f"{words} all held due times."),
            click.option(
                "--label",
                "labels",
                metavar="NAME=VALUE",
                multiple=True,
                help="Without NAME: of all schedules with this label; repeatable.",
            ),
        ):
            function = option(function)
        return function

    return add


@catchup_group.command("approve")
@optional_name_argument
@_choice("Run")
@click.option("--newest", type=int, metavar="N", help="Run the newest N due times.")
@click.option("--reject-rest", is_flag=True, help="Reject all other held due times.")
def approve_command(
    name: str | None,
    labels: tuple[str, ...],
    every: bool,
    start: str | None,
    end: str | None,
    newest: int | None,
    reject_rest: bool,
    **options: bool,
) -> None:
    """Run held due times: all, the newest, or a period.

    The others stay held, or are rejected with --reject-rest. The runs start one
    after the other unless overlap is allow, and give way to due times. Without NAME,
    applies to all schedules, or to those with a label.

    \b
    Examples:
      duebook catchup approve report --all
      duebook catchup approve report --newest 1 --reject-rest
      duebook catchup approve report --from 2026-03-01 --to 2026-03-08 --dry-run
      duebook catchup approve --all --label team=data
    """
    span = start is not None or end is not None
    if [every, span, newest is not None].count(True) != 1:
        raise click.UsageError("give one of --all, --newest N, or --from TIME and --to TIME")
    chosen: dict[str, Any] = {"newest": newest, "reject_rest": reject_rest}
    if name is None or labels:
        _decide_many("approve", name, labels, span, chosen, **options)
        return
    with open_book() as book:
        chosen |= _read_span(book, name, start, end)
        tried = book.catchup.approve(name, **chosen, dry_run=True)
        if not _goes_on(tried, **options):
            return
        done = book.catchup.approve(name, **chosen)
    if options["as_json"]:
        print_json(encode(done))
        return
    _print_done(done)
    if done.queued_at is not None:
        span_words = f"--from {format_instant(done.due_from)} --to {format_instant(done.due_to)}"
        undo = f"--undo {format_instant(done.queued_at)}"
        click.echo(f"to cancel the runs: duebook backfill {name} {span_words} {undo}")


@catchup_group.command("reject")
@optional_name_argument
@_choice("Drop")
def reject_command(
    name: str | None,
    labels: tuple[str, ...],
    every: bool,
    start: str | None,
    end: str | None,
    **options: bool,
) -> None:
    """Drop held due times: all, or a period.

    They are recorded as skipped_by_user. A backfill can still run them. Without NAME,
    applies to all schedules, or to those with a label.

    \b
    Examples:
      duebook catchup reject report --all
      duebook catchup reject report --from 2026-03-01 --to 2026-03-08
      duebook catchup reject --all --label team=data
    """
    span = start is not None or end is not None
    if every == span:
        raise click.UsageError("give either --all, or --from TIME and --to TIME")
    if name is None or labels:
        _decide_many("reject", name, labels, span, {}, **options)
        return
    with open_book() as book:
        period = _read_span(book, name, start, end)
        tried = book.catchup.reject(name, **period, dry_run=True)
        if not _goes_on(tried, **options):
            return
        done = book.catchup.reject(name, **period)
    if options["as_json"]:
        print_json(encode(done))
        return
    _print_done(done)
    times = f"--from {format_instant(done.due_from)} --to {format_instant(done.due_to)}"
    click.echo(f"to run them all the same: duebook backfill {name} {times}")


def _decide_many(
    decision: DecisionKind,
    name: str | None,
    labels: tuple[str, ...],
    span: bool,
    chosen: dict[str, Any],
    **options: bool,
) -> None:
    """Decide for many schedules, after confirmation; exits with 1 if any of them fails."""
    if name is not None:
        raise click.UsageError("give either NAME or --label")
    if span:
        raise click.UsageError("--from and --to need NAME; without it, use --all or --newest N")
    wanted = dict(read_pair(item, "--label") for item in labels)
    with open_book() as book:
        tried = book.catchup.decide(decision, wanted, **chosen, dry_run=True)
        if not tried.schedules:
            _print_many(tried, options["as_json"])
            return
        if not _goes_on(tried, **options):
            return
        _print_many(book.catchup.decide(decision, wanted, **chosen), options["as_json"])


def _print_many(done: BulkDecision, as_json: bool) -> None:
    if as_json:
        print_json(encode(done))
    elif done.schedules:
        click.echo(wrapped(_words(done, "queued", "rejected", "kept")))
    elif not done.refused:
        click.echo("no due times are held")
    for problem in () if as_json else done.problems:
        click.echo(wrapped(f"refused: {problem}"), err=True)
    if more := 0 if as_json else done.refused - len(done.problems):
        click.echo(f"refused: {counted(more, 'more schedule')}", err=True)
    if done.refused:
        click.get_current_context().exit(1)


def _read_span(book: Client, name: str, start: str | None, end: str | None) -> dict[str, Any]:
    """The period; times without an offset are in the schedule's zone."""
    if start is None and end is None:
        return {}
    spec = book.schedules.get(name).spec
    tz = spec.tz if spec else None
    return {
        "start": None if start is None else read_past("--from", start, tz),
        "end": None if end is None else read_past("--to", end, tz),
    }


def _goes_on(
    tried: CatchupDecision | BulkDecision, as_json: bool, dry_run: bool, yes: bool
) -> bool:
    """Show what would happen, and ask; raises UsageError without a terminal."""
    if dry_run and as_json:
        print_json(encode(tried))
        return False
    if dry_run or not yes:
        told = _words(tried, "run", "reject", "keep")
        click.echo(wrapped(f"would {told}"), err=not dry_run)
    if dry_run:
        return False
    if yes:
        return True
    try:
        agreed = click.confirm("continue?", err=True)
    except click.Abort:
        raise click.UsageError("cannot ask for confirmation here; add --yes") from None
    if not agreed:
        click.echo("cancelled; nothing was changed", err=True)
    return agreed


def _print_done(done: CatchupDecision) -> None:
    click.echo(_words(done, "queued", "rejected", "kept"))


def _words(decision: CatchupDecision | BulkDecision, runs: str, rejects: str, keeps: str) -> str:
    parts = []
    if decision.approved:
        queued = counted(decision.approved, "run") if runs == "queued" else None
        parts.append(f"{runs} {queued or counted(decision.approved, 'due time')}")
    if decision.rejected:
        number = _number(decision.rejected, decision.exact)
        parts.append(f"{rejects} {number} due time{'' if number == '1' else 's'}")
    if decision.held:
        parts.append(f"{keeps} {_number(decision.held, decision.exact)} held")
    words = ", ".join(parts)
    if isinstance(decision, BulkDecision):
        more = ", …" if decision.schedules > len(decision.names) else ""
        number = counted(decision.schedules, "schedule")
        words += f", of {number}: {', '.join(decision.names)}{more}"
    return words
