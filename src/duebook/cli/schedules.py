"""The commands about stored schedules: ls, show, rm, pause, resume, reschedule and others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from duebook.cli.arguments import name_argument, optional_name_argument
from duebook.cli.bulk import act_on_many, bulk_options, read_many
from duebook.cli.catchup import held_words
from duebook.cli.commands import command
from duebook.cli.definition_options import policy_words
from duebook.cli.filters import (
    cursor_option,
    filter_options,
    gather,
    print_more,
    read_filter,
    sort_option,
)
from duebook.cli.instants import read_future
from duebook.cli.notes import note_missing_nodes
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_pairs, print_runs, print_table, when
from duebook.cli.runs import show_run
from duebook.cli.terminal import show_page, watch_option
from duebook.errors import NotFound
from duebook.ids import looks_like_prefix
from duebook.model.codec import encode
from duebook.model.secret import show_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.client import Client
    from duebook.model.filters import ScheduleSort
    from duebook.model.plan import DueException
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.values import LedgerEntry

__all__ = [
    "ls_command",
    "pause_command",
    "reschedule_command",
    "restore_command",
    "resume_command",
    "rm_command",
    "show_command",
    "skip_next_command",
]


@command("ls")
@filter_options
@sort_option
@cursor_option
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=1_000,
    show_default=True,
    help="How many schedules to list.",
)
@watch_option
@json_option
def ls_command(
    sort: ScheduleSort, cursor: str | None, limit: int, watch: bool, as_json: bool, **options: Any
) -> None:
    """List schedules, all or those that match the filters.

    \b
    Examples:
      duebook ls --label team=sales --status paused
      duebook ls --text 'etl-*' --sort next_due_at --limit 50
      duebook ls --watch
    """
    wanted = read_filter(options)
    with open_book() as book:

        def render() -> None:
            schedules = gather(
                lambda place, most: book.schedules.list(
                    sort=sort, cursor=place, limit=most, **wanted
                ),
                cursor,
                limit,
            )
            if as_json:
                print_json([encode(schedule) for schedule in schedules])
            elif not schedules and (wanted or cursor):
                click.echo("no matching schedules")
            elif not schedules:
                click.echo("no schedules yet; add one: duebook add hello --every 1m -- echo hello")
            else:
                _print_list(schedules)
            print_more(schedules)
            if not as_json:
                note_missing_nodes(book)

        show_page(render, watch, as_json)


def _print_list(schedules: Sequence[Schedule]) -> None:
    """There is a column for titles if any schedule has one."""
    rows = [_row(schedule) for schedule in schedules]
    titles = [schedule.spec.title if schedule.spec else "" for schedule in schedules]
    heads: tuple[str, ...] = ("NAME", "STATUS", "NEXT DUE", "TRIGGER")
    if any(titles):
        heads = (*heads, "TITLE")
        rows = [(*row, title) for row, title in zip(rows, titles, strict=True)]
    print_table(heads, rows, shrinks=0, states=1)


def _row(schedule: Schedule) -> tuple[str, ...]:
    status = "problem" if schedule.problem else schedule.status
    trigger = schedule.spec.trigger_text if schedule.spec else "?"
    return schedule.name, status, _next_due(schedule), trigger


def _next_due(schedule: Schedule) -> str:
    """Nothing becomes due while a schedule is paused."""
    return when(schedule.next_due_at) if schedule.status == "active" else "-"


@command("show")
@name_argument
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show a schedule, with its latest runs and skipped due times.

    With the id of a run, or the first characters of one, shows that run and its
    attempts.
    """
    with open_book() as book:
        try:
            schedule = book.schedules.get(name)
        except NotFound:
            if looks_like_prefix(name):
                show_run(book, name, as_json)
                return
            if _is_flow(book, name):
                told = f'schedule "{name}" does not exist, but a flow does: '
                raise NotFound(f"{told}duebook flow show {name}") from None
            raise
        if as_json:
            print_json(encode(schedule))
            return
        _print_schedule(schedule)
        _print_exceptions(book.schedules.exceptions(schedule.id))
        if held := book.catchup.list(schedule.id):
            approve = f"duebook catchup approve {schedule.name} --all"
            click.echo(f"held: {held_words(held)}; to run them: {approve}")
        runs = book.runs.list(schedule.id, limit=5)
        if runs:
            click.echo("\nlatest runs")
            print_runs(book, runs)
        entries = book.schedules.ledger(schedule.id, limit=5)
        if entries:
            _print_entries(entries)


def _print_entries(entries: Sequence[LedgerEntry]) -> None:
    """Due times that did not become runs; for flows also stops and restarts."""
    rows = [(when(e.due_to), f"{e.count}{'' if e.exact else '+'}", e.reason) for e in entries]
    if all(entry.kind == "start" for entry in entries):
        click.echo("\nskipped due times")
        print_table(("DUE", "COUNT", "REASON"), rows)
        return
    click.echo("\nskipped due times, stops and restarts")
    kinds = [(row[0], entry.kind, *row[1:]) for row, entry in zip(rows, entries, strict=True)]
    print_table(("DUE", "KIND", "COUNT", "REASON"), kinds)


def _is_flow(book: Client, name: str) -> bool:
    try:
        return bool(book.flows.get(name))
    except NotFound:
        return False


def _print_exceptions(exceptions: list[DueException]) -> None:
    """Future due times that were skipped or moved."""
    for exception in exceptions:
        if exception.kind == "skip":
            click.echo(f"skipped: {when(exception.due_at)}")
        elif exception.moved_to is not None:
            click.echo(f"moved: {when(exception.due_at)} to {when(exception.moved_to)}")


def _print_schedule(schedule: Schedule) -> None:
    paused = f"{when(schedule.paused_at)} {schedule.pause_reason or ''}".strip()
    if schedule.paused_until:
        paused += f", until {when(schedule.paused_until)}"
    state = [
        ("name", schedule.name),
        ("title", schedule.spec.title if schedule.spec else ""),
        ("id", schedule.id),
        ("status", schedule.status),
        ("paused", paused if schedule.paused_at else ""),
        ("problem", schedule.problem or ""),
        ("next due", _next_due(schedule)),
        ("updated", when(schedule.updated_at)),
        ("owner", schedule.owner),
    ]
    print_pairs(state + (_definition(schedule.spec) if schedule.spec else []), state="status")


def _definition(spec: ScheduleSpec) -> list[tuple[str, str]]:
    policies = {"catchup": spec.catchup, "overlap": spec.overlap}  # shown even at their defaults
    return [
        ("description", spec.description),
        ("trigger", "; ".join(trigger.describe() for trigger in spec.triggers)),
        ("stops", "; ".join(trigger.describe() for trigger in spec.stop)),
        ("restarts", "; ".join(trigger.describe() for trigger in spec.restart)),
        ("runs", str(spec.target)),
        (
            "payload",
            json.dumps(show_payload(spec.payload), ensure_ascii=False) if spec.payload else "",
        ),
        ("labels", ", ".join(f"{name}={value}" for name, value in spec.labels)),
        ("policies", policy_words(policies | spec.to_shown())),
    ]


@command("rm")
@optional_name_argument
@bulk_options
@json_option
def rm_command(name: str | None, as_json: bool, **options: Any) -> None:
    """Delete a schedule, or all that match.

    Its runs stay readable, and its name can be used again.

    \b
    Examples:
      duebook rm backup
      duebook rm --label team=sales --dry-run
    """
    wanted = read_many(name, options)
    with open_book() as book:
        if name is None:
            act_on_many(book, "delete", wanted, options, as_json)
            return
        schedule = book.schedules.get(name)
        book.schedules.delete(name)
        _print(schedule, f"deleted {name}", as_json)


@command("pause")
@optional_name_argument
@click.option("--reason", metavar="TEXT", help="Why; shown wherever the schedule is.")
@click.option(
    "--until", metavar="TIME", help="Resume then: in 2h, a date, or a time (in your time zone)."
)
@bulk_options
@json_option
def pause_command(
    name: str | None, reason: str | None, until: str | None, as_json: bool, **options: Any
) -> None:
    """Pause a schedule, or all that match, until resumed.

    \b
    Examples:
      duebook pause backup --until 2h
      duebook pause --label team=sales --until 2026-12-27T08:00Z --dry-run
    """
    moment = None if until is None else read_future("--until", until)
    wanted = read_many(name, options)
    with open_book() as book:
        if name is None:
            act_on_many(book, "pause", wanted, options, as_json, reason=reason, until=moment)
            return
        schedule = book.schedules.pause(name, reason, moment)
        until_then = f" until {when(moment)}" if moment else ""
        _print(schedule, f"paused {name}{until_then}; to resume: duebook resume {name}", as_json)


@command("resume")
@optional_name_argument
@bulk_options
@json_option
def resume_command(name: str | None, as_json: bool, **options: Any) -> None:
    """Resume a paused schedule, or all that match.

    Due times missed during the pause follow the policy on-resume.
    """
    wanted = read_many(name, options)
    with open_book() as book:
        if name is None:
            act_on_many(book, "resume", wanted, options, as_json)
            return
        schedule = book.schedules.resume(name)
        _print(schedule, f"resumed {name}; next due {when(schedule.next_due_at)}", as_json)


@command("reschedule")
@name_argument
@click.argument("at", metavar="TIME")
@json_option
def reschedule_command(name: str, at: str, as_json: bool) -> None:
    """Move the next due time; all others stay.

    TIME is `now`, a length from now such as 10m, a date, or a time; without an
    offset it is in your time zone.

    \b
    Examples:
      duebook reschedule backup 10m
      duebook reschedule backup 2026-12-27T08:00Z
    """
    with open_book() as book:
        moment = read_future("TIME", at)
        schedule = book.schedules.reschedule(name, moment)
        text = f"moved to {when(moment)}; next due {when(schedule.next_due_at)}"
        _print(schedule, text, as_json)


@command("skip-next")
@optional_name_argument
@bulk_options
@json_option
def skip_next_command(name: str | None, as_json: bool, **options: Any) -> None:
    """Skip the next due time of a schedule, or of all that match."""
    wanted = read_many(name, options)
    with open_book() as book:
        if name is None:
            act_on_many(book, "skip_next", wanted, options, as_json)
            return
        schedule, skipped = book.schedules.skip_next(name)
        text = f"will skip {when(skipped)}; next due {when(schedule.next_due_at)}"
        _print(schedule, text, as_json)


@command("restore")
@name_argument
@click.argument("at", metavar="TIME")
@json_option
def restore_command(name: str, at: str, as_json: bool) -> None:
    """Undo a skip or a move of a future due time.

    TIME is the original due time; without an offset it is in your time zone, as
    duebook show prints it.

    \b
    Example:
      duebook restore backup 2026-12-27T02:30Z
    """
    with open_book() as book:
        schedule = book.schedules.restore(name, read_future("TIME", at))
        _print(schedule, f"restored; next due {when(schedule.next_due_at)}", as_json)


def _print(schedule: Schedule, text: str, as_json: bool) -> None:
    if as_json:
        print_json(encode(schedule))
    else:
        click.echo(text)
