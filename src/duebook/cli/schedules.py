"""The commands about stored schedules: ls, show, rm, pause, resume, run, reschedule, skip-next."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import (
    name_argument,
    optional_name_argument,
    read_moment,
    read_object,
)
from duebook.cli.bulk import act_on_many, bulk_options, read_many
from duebook.cli.definition_options import policy_words
from duebook.cli.filters import (
    cursor_option,
    filter_options,
    gather,
    read_filter,
    sort_option,
    tell_more,
)
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_pairs, print_runs, print_table, when
from duebook.cli.runs import show_run
from duebook.clock import utc_now
from duebook.errors import NotFound
from duebook.ids import looks_like_prefix
from duebook.model.codec import encode
from duebook.model.hidden import load_shown
from duebook.model.secret import show_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.client import Client
    from duebook.model.filters import ScheduleSort
    from duebook.model.plan import DueException
    from duebook.model.run import Run
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.values import LedgerEntry

__all__ = [
    "ls_command",
    "pause_command",
    "reschedule_command",
    "restore_command",
    "resume_command",
    "rm_command",
    "run_command",
    "show_command",
    "skip_next_command",
]

POLL: Final = 0.1
HINT_AFTER: Final = 2.0
RUN_FAILED: Final = 5


@click.command("ls")
@filter_options
@sort_option
@cursor_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=1_000, show_default=True)
@json_option
def ls_command(
    sort: ScheduleSort, cursor: str | None, limit: int, as_json: bool, **options: Any
) -> None:
    """List the schedules, all of them or those that the options find.

    \b
    Examples:
      duebook ls --label team=sales --status paused
      duebook ls --text 'etl-*' --sort next_due_at --limit 50
    """
    wanted = read_filter(options)
    with open_book() as book:
        schedules = gather(
            lambda place, most: book.schedules.list(sort=sort, cursor=place, limit=most, **wanted),
            cursor,
            limit,
        )
        if as_json:
            print_json([encode(schedule) for schedule in schedules])
        elif not schedules and (wanted or cursor):
            click.echo("no schedule is like that")
        elif not schedules:
            click.echo("no schedules yet; add one: duebook add hello --every 1m -- echo hello")
        else:
            _print_list(schedules)
        tell_more(schedules)


def _print_list(schedules: Sequence[Schedule]) -> None:
    """Titles have a column where there are any."""
    rows = [_row(schedule) for schedule in schedules]
    titles = [schedule.spec.title if schedule.spec else "" for schedule in schedules]
    heads: tuple[str, ...] = ("NAME", "STATUS", "NEXT DUE", "TRIGGER")
    if any(titles):
        heads = (*heads, "TITLE")
        rows = [(*row, title) for row, title in zip(rows, titles, strict=True)]
    print_table(heads, rows, shrinks=0)


def _row(schedule: Schedule) -> tuple[str, ...]:
    status = "problem" if schedule.problem else schedule.status
    trigger = schedule.spec.trigger_text if schedule.spec else "?"
    return schedule.name, status, _next_due(schedule), trigger


def _next_due(schedule: Schedule) -> str:
    """Nothing is due while a schedule is paused."""
    return when(schedule.next_due_at) if schedule.status == "active" else "-"


@click.command("show")
@name_argument
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show a schedule: its state, its latest runs, the due times that did not run.

    With the id of a run, or the beginning of one: that run and its attempts.
    """
    with open_book() as book:
        try:
            schedule = book.schedules.get(name)
        except NotFound:
            if looks_like_prefix(name):
                show_run(book, name, as_json)
                return
            if _is_flow(book, name):
                told = f'schedule "{name}" does not exist; the flow is shown by: '
                raise NotFound(f"{told}duebook flow show {name}") from None
            raise
        if as_json:
            print_json(encode(schedule))
            return
        _print_schedule(schedule)
        _print_said(book.schedules.exceptions(schedule.id))
        runs = book.runs.list(schedule.id, limit=5)
        if runs:
            click.echo("\nlatest runs")
            print_runs(book, runs)
        entries = book.schedules.ledger(schedule.id, limit=5)
        if entries:
            _print_entries(entries)


def _print_entries(entries: Sequence[LedgerEntry]) -> None:
    """Due times that did not run; of flows also those at which they were stopped or restarted."""
    rows = [(when(e.due_to), f"{e.count}{'' if e.exact else '+'}", e.reason) for e in entries]
    if all(entry.kind == "start" for entry in entries):
        click.echo("\nnot run")
        print_table(("DUE", "COUNT", "WHY"), rows)
        return
    click.echo("\nnot run, stopped or restarted")
    kinds = [(row[0], entry.kind, *row[1:]) for row, entry in zip(rows, entries, strict=True)]
    print_table(("DUE", "KIND", "COUNT", "WHY"), kinds)


def _is_flow(book: Client, name: str) -> bool:
    try:
        return bool(book.flows.get(name))
    except NotFound:
        return False


def _print_said(exceptions: list[DueException]) -> None:
    """What people said about due times to come."""
    for exception in exceptions:
        if exception.kind == "skip":
            click.echo(f"will be skipped: {when(exception.due_at)}")
        elif exception.moved_to is not None:
            click.echo(f"was moved: {when(exception.due_at)} to {when(exception.moved_to)}")


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
    ]
    print_pairs(state + (_definition(schedule.spec) if schedule.spec else []))


def _definition(spec: ScheduleSpec) -> list[tuple[str, str]]:
    policies = {"catchup": spec.catchup, "overlap": spec.overlap}  # also at their defaults
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
        ("policies", policy_words(policies | spec.to_json())),
    ]


@click.command("rm")
@optional_name_argument
@bulk_options
@json_option
def rm_command(name: str | None, as_json: bool, **options: Any) -> None:
    """Delete a schedule, or all that the options find; runs stay readable, names are free again."""
    wanted = read_many(name, options)
    with open_book() as book:
        if name is None:
            act_on_many(book, "delete", wanted, options, as_json)
            return
        schedule = book.schedules.get(name)
        book.schedules.delete(name)
        _say(schedule, f"deleted {name}", as_json)


@click.command("pause")
@optional_name_argument
@click.option("--reason", metavar="TEXT", help="Shown to everybody who asks why it does not run.")
@click.option("--until", metavar="TIME|LENGTH", help="Resume by itself: an instant, or in 2h.")
@bulk_options
@json_option
def pause_command(
    name: str | None, reason: str | None, until: str | None, as_json: bool, **options: Any
) -> None:
    """Pause a schedule, or all that the options find; nothing is due until they are resumed.

    \b
    Examples:
      duebook pause backup --until 2h
      duebook pause --label team=sales --until 2026-12-27T08:00Z --dry-run
    """
    moment = None if until is None else read_moment(until)
    wanted = read_many(name, options)
    with open_book() as book:
        if name is None:
            act_on_many(book, "pause", wanted, options, as_json, reason=reason, until=moment)
            return
        schedule = book.schedules.pause(name, reason, moment)
        how = f"until {when(moment)}, or until" if moment else "resume it with"
        _say(schedule, f"paused {name}; {how}: duebook resume {name}", as_json)


@click.command("resume")
@optional_name_argument
@bulk_options
@json_option
def resume_command(name: str | None, as_json: bool, **options: Any) -> None:
    """Resume a paused schedule, or all that the options find.

    What fell meanwhile follows their policy on-resume.
    """
    wanted = read_many(name, options)
    with open_book() as book:
        if name is None:
            act_on_many(book, "resume", wanted, options, as_json)
            return
        schedule = book.schedules.resume(name)
        _say(schedule, f"resumed {name}; next due {when(schedule.next_due_at)}", as_json)


@click.command("run")
@name_argument
@click.option("--payload", metavar="JSON", help="Other values than the schedule's.")
@click.option("--wait", is_flag=True, help="Wait for its end; exit code 5 unless it succeeded.")
@click.option("--dry-run", is_flag=True, help="Only show what would run, templates rendered.")
@json_option
def run_command(name: str, payload: str | None, wait: bool, dry_run: bool, as_json: bool) -> None:
    """Run a schedule now; this uses up no due time."""
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
        run = _await(book, run, quiet=as_json)
        why = f": {run.error or run.reason}; see duebook logs {run.id}" if run.reason else ""
        print_json(encode(run)) if as_json else click.echo(f"run {run.id} {run.status}{why}")
        if run.status != "succeeded":
            click.get_current_context().exit(RUN_FAILED)


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
    """Follow a run until it has ended, and tell of each change."""
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
    return run


def _why_not(book: Client, run: Run) -> str:
    problem = book.schedules.get(run.schedule_id).problem if run.schedule_id else None
    return f": {problem}" if problem else "; is a node running? start one with: duebook up"


def _progress(run: Run, waits: bool) -> str:
    if run.status == "queued" and run.attempt and waits:
        return f"waits for attempt {run.attempt + 1}, {when(run.ready_at)}"
    tries = run.attempt + 1 if run.status == "queued" else run.attempt
    return f"{run.status}, attempt {tries}" if tries > 1 else run.status


@click.command("reschedule")
@name_argument
@click.argument("at", metavar="INSTANT")
@json_option
def reschedule_command(name: str, at: str, as_json: bool) -> None:
    """Move the next due time to INSTANT, which may be `now` or a length such as 10m.

    All other due times stay.
    """
    with open_book() as book:
        moment = read_moment(at)
        schedule = book.schedules.reschedule(name, moment)
        text = f"moved to {when(moment)}; next due {when(schedule.next_due_at)}"
        _say(schedule, text, as_json)


@click.command("skip-next")
@optional_name_argument
@bulk_options
@json_option
def skip_next_command(name: str | None, as_json: bool, **options: Any) -> None:
    """Leave out the next due time of a schedule, or of all that the options find."""
    wanted = read_many(name, options)
    with open_book() as book:
        if name is None:
            act_on_many(book, "skip_next", wanted, options, as_json)
            return
        schedule, skipped = book.schedules.skip_next(name)
        text = f"skipping {when(skipped)}; next due {when(schedule.next_due_at)}"
        _say(schedule, text, as_json)


@click.command("restore")
@name_argument
@click.argument("at", metavar="INSTANT")
@json_option
def restore_command(name: str, at: str, as_json: bool) -> None:
    """Undo a skip or a move of a due time to come; INSTANT is when it was due."""
    with open_book() as book:
        schedule = book.schedules.restore(name, at)
        _say(schedule, f"due again as it was; next due {when(schedule.next_due_at)}", as_json)


def _say(schedule: Schedule, text: str, as_json: bool) -> None:
    if as_json:
        print_json(encode(schedule))
    else:
        click.echo(text)
