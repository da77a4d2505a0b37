"""The commands that look ahead: what schedules would do, and which minutes suit them better."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.book import Book
from duebook.book.foresight import FIRST_YEAR, LAST_YEAR
from duebook.book.schedule_files import proposed_files
from duebook.cli.commands import command
from duebook.cli.declaration_files import read_files
from duebook.cli.instants import read_future
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_pairs, print_table, wrapped
from duebook.clock import utc_now
from duebook.errors import Invalid, counted, printable, shorten
from duebook.model.codec import encode
from duebook.timetext import format_duration, format_instant, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime, timedelta

    from duebook.client import Client
    from duebook.model.simulation import Outlook, SimulationReport, SpreadProposal

__all__ = ["simulate_command", "spread_command"]

SHOWN: Final = 15
"""Schedules shown in a table."""
OTHERS: Final = "*"


def _common(default_days: int) -> Callable[[Any], Any]:
    """The options of both commands."""

    def apply(function: Any) -> Any:
        for decorate in reversed(
            (
                click.argument("files", nargs=-1, metavar="[FILE]..."),
                click.option(
                    "--days", type=int, default=default_days, show_default=True, help="How long."
                ),
                click.option(
                    "--from", "start", metavar="TIME", help="When to start; the default is now."
                ),
                click.option(
                    "--workers",
                    type=int,
                    help="How many runs can run at the same time; by default, any number.",
                ),
                click.option(
                    "--takes",
                    multiple=True,
                    metavar="NAME=LENGTH",
                    help="How long runs of a schedule take; a LENGTH alone is for schedules "
                    "without past runs (default 1m). Repeatable.",
                ),
                click.option(
                    "--percentile",
                    type=int,
                    default=50,
                    show_default=True,
                    help="Runs take this percentile of their past durations.",
                ),
            )
        ):
            function = decorate(function)
        return function

    return apply


@command("simulate")
@_common(30)
@click.option("--alone", is_flag=True, help="Only the schedules of the files; needs no database.")
@click.option("--max-late", metavar="LENGTH", help="Fail if a run starts later than this.")
@click.option(
    "--max-skips",
    type=click.IntRange(min=0),
    help="Fail if more due times than this are skipped.",
)
@click.option(
    "--max-concurrency",
    type=click.IntRange(min=0),
    help="Fail if more runs than this run at once.",
)
@click.option("--html", "page", metavar="FILE", help="Write the report as one HTML page.")
@json_option
def simulate_command(
    files: tuple[str, ...],
    alone: bool,
    max_late: str | None,
    max_skips: int | None,
    max_concurrency: int | None,
    page: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate the coming weeks: skips, lateness and peaks.

    The planner decides about every due time of the stored schedules on a virtual
    clock; nothing is changed. Runs take as long as past runs did. A FILE (YAML,
    TOML or JSON, as for apply) adds schedules and calendars, or replaces those of
    the same name. With --alone it must define the calendars that it uses. The
    exit code is 1 if a limit (--max-...) is exceeded.

    \b
    Examples:
      duebook simulate --days 7
      duebook simulate --workers 4 --takes nightly=90m --html week.html
      duebook simulate schedules.yaml --alone --max-late 5m --max-skips 0
    """
    limits = (_length("--max-late", max_late), max_skips, max_concurrency)
    if alone and not files:
        raise click.UsageError("--alone needs a FILE")
    asked = _asked(files, options)
    with _book(alone) as book:
        if alone:
            asked |= {"only": True, "start": asked["start"] or _this_minute()}
        with _progress(int(options["days"])) as progress:
            report = book.simulate(**asked, progress=progress)
    breaches = report.breaches(*limits)
    if page is not None:
        from duebook.web.simulation import simulation_page

        _write("--html", page, simulation_page(report, breaches))
    if as_json:
        print_json(encode(report) | {"breaches": breaches})
    else:
        _print_report(report)
        for breach in breaches:
            click.echo(wrapped(printable(f"failed {breach}")))
    if breaches:
        click.get_current_context().exit(1)


@command("spread")
@_common(7)
@click.option(
    "--label",
    default="may-move=true",
    show_default=True,
    metavar="NAME=VALUE",
    help="Schedules with this label may move.",
)
@click.option("--name", "names", multiple=True, help="A schedule that may move. Repeatable.")
@click.option(
    "--out",
    metavar="FILE",
    help="Write the moved schedules to a YAML file, for apply; one for each owner.",
)
@click.option("--html", "page", metavar="FILE", help="Write before and after as one HTML page.")
@json_option
def spread_command(
    files: tuple[str, ...],
    label: str,
    names: tuple[str, ...],
    out: str | None,
    page: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Propose minutes so that fewer runs start together.

    A schedule may move if it has the label, is named, or has H as its minute. Only
    its minute changes: cadence, hours and days stay. Nothing is changed; --out
    writes a file for duebook diff and duebook apply.

    \b
    Examples:
      duebook spread
      duebook spread --name nightly --name report --out spread.yaml
      duebook spread --label team=data --html spread.html
    """
    name, equals, value = label.partition("=")
    if not (name and equals):
        raise Invalid(f'--label "{label}" is not in the form NAME=VALUE, such as may-move=true')
    with open_book() as book:
        proposal = book.spread(names=names, label=f"{name}:{value}", **_asked(files, options))
    if page is not None:
        from duebook.web.simulation import spread_page

        _write("--html", page, spread_page(proposal))
    files_out = _write_proposed(proposal, out) if out is not None else {}
    if as_json:
        print_json(encode(proposal))
        return
    _print_proposal(proposal)
    for owner, path in files_out.items():
        told = f"duebook diff {path}; to apply: duebook apply {path}{'' if owner else ' --adopt'}"
        click.echo(wrapped(printable(f"nothing is changed; to see what moves: {told}")))
    if proposal.moves and out is None:
        click.echo("nothing is changed; --out FILE writes a file for duebook apply")


# -- arguments


def _asked(files: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    start: str | None = options["start"]
    declared = read_files(files)
    return {
        "days": options["days"],
        "start": None if start is None else _start(start),
        "workers": options["workers"],
        "takes": dict(map(_takes, options["takes"])),
        "percentile": options["percentile"],
        "schedules": declared.definitions,
        "calendars": declared.calendars,
    }


def _takes(text: str) -> tuple[str, str]:
    name, equals, length = text.rpartition("=")
    if equals and not name:
        raise Invalid(
            f'--takes "{shorten(text)}" has no name before "="; use NAME=LENGTH, or a LENGTH alone'
        )
    return (name if equals else OTHERS), length


def _this_minute() -> datetime:
    """The default start of a simulation, the same as with a database."""
    return utc_now().replace(second=0, microsecond=0)


def _start(text: str) -> datetime:
    start = read_future("--from", text)
    if not FIRST_YEAR <= start.year <= LAST_YEAR:
        raise Invalid(f'--from "{text}" is not in the years {FIRST_YEAR} to {LAST_YEAR}')
    return start


def _length(flag: str, text: str | None) -> timedelta | None:
    try:
        return None if text is None else parse_duration(text)
    except Invalid as error:
        raise Invalid(f"{flag}: {error}") from None


@contextmanager
def _book(alone: bool) -> Iterator[Client]:
    """The database or server; for files alone, nothing is opened."""
    if alone:
        yield Book(None)
    else:
        with open_book() as book:
            yield book


@contextmanager
def _progress(days: int) -> Iterator[Callable[[float, int], None]]:
    """Show on a terminal how far a simulation has come."""
    shown = sys.stderr.isatty()

    def tell(part: float, due_times: int) -> None:
        if shown:
            told = f"simulated {part * days:.0f} of {days:,} days, {due_times:,} due times"
            click.echo(f"\r{told}\x1b[K", err=True, nl=False)

    yield tell
    if shown:
        click.echo("\r\x1b[K", err=True, nl=False)


def _write(flag: str, path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        told = f'{flag} "{shorten(path)}" cannot be written: {error.strerror or error}'
        raise Invalid(f"{told}; choose a file in a directory that you may write to") from None
    click.echo(f"wrote {printable(path)}", err=True)


def _write_proposed(proposal: SpreadProposal, out: str) -> dict[str, str]:
    """The paths of the files, by owner: the given path; if there are several owners, with the name
    of each."""
    texts, paths = proposed_files(proposal), dict[str, str]()
    for owner, text in texts.items():
        path = Path(out)
        if owner and len(texts) > 1:
            path = path.with_stem(f"{path.stem}-{owner}")
        paths[owner] = str(path)
        _write("--out", paths[owner], text)
    return paths


# -- printing


def _print_report(report: SimulationReport) -> None:
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in report.skips.items())
    peak = f"{counted(report.peak, 'run')} at the same time"
    if report.peak_at is not None:
        peak += f", first at {format_instant(report.peak_at)}"
    print_pairs(
        (
            ("period", f"{format_instant(report.start)} to {format_instant(report.until)}"),
            ("workers", "no limit" if report.workers is None else f"{report.workers:,}"),
            ("schedules", f"{report.schedules:,}"),
            ("runs", f"{report.runs:,} of {counted(report.due_times, 'due time')}"),
            ("skipped", f"{report.skipped:,}" + (f" ({reasons})" if reasons else "")),
            ("lateness", _lateness(report)),
            ("peak", peak),
        )
    )
    _print_minutes(report)
    _print_outlooks(report)
    for one in report.holdups[:5]:
        others = ", ".join(one.others[:3])
        click.echo(
            wrapped(printable(f'"{one.schedule}" holds up {others}: {_told(one.waited)} in all'))
        )
    for change in report.clock_changes[:5]:
        moved = "is not due" if change.moved_to is None else "is due when the gap ends"
        click.echo(
            wrapped(printable(f'"{change.schedule}": {change.wall} does not exist, and {moved}'))
        )
    if report.assumed:
        told = f"{counted(report.assumed_count, 'schedule')} without past runs"
        length = format_duration(report.assumed_takes)
        click.echo(wrapped(f"note: {told}: each run is assumed to take {length}; use --takes"))


def _lateness(report: SimulationReport | Outlook) -> str:
    late = (report.late_median, report.late_p95, report.late_most)
    return "median {}, p95 {}, most {}".format(*map(_told, late))


def _told(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds:.1f}s" if 0 < seconds < 1 else format_duration(length)


def _print_minutes(report: SimulationReport) -> None:
    rows = [
        (
            format_instant(minute.at),
            f"{minute.running:,}",
            f"{minute.started:,}",
            ", ".join(minute.schedules),
        )
        for minute in report.busiest[:5]
    ]
    if rows:
        click.echo()
        print_table(("BUSIEST MINUTE", "AT ONCE", "STARTED", "DUE"), rows)


def _print_outlooks(report: SimulationReport) -> None:
    troubled = [one for one in report.outlooks if one.skipped or one.late_most or one.overlaps]
    rows = [
        (
            one.name,
            format_duration(one.takes),
            f"{one.runs:,}",
            f"{one.skipped:,}",
            f"{one.overlaps:,}",
            _told(one.late_p95),
            _told(one.late_most),
        )
        for one in troubled[:SHOWN]
    ]
    if rows:
        click.echo()
        head = ("SCHEDULE", "TAKES", "RUNS", "SKIPPED", "OVERLAPS", "P95 LATE", "MOST LATE")
        print_table(head, rows, shrinks=0)
        if len(troubled) > SHOWN:
            click.echo(f"and {counted(len(troubled) - SHOWN, 'more schedule')}; use --json")


def _print_proposal(proposal: SpreadProposal) -> None:
    before, after = proposal.before, proposal.after
    rows = [
        ("most runs at the same time", f"{before.peak:,}", f"{after.peak:,}"),
        ("p95 lateness", _told(before.late_p95), _told(after.late_p95)),
        ("highest lateness", _told(before.late_most), _told(after.late_most)),
        ("skipped due times", f"{before.skipped:,}", f"{after.skipped:,}"),
    ]
    print_table(("", "BEFORE", "AFTER"), rows)
    for name, why in list(proposal.fixed.items())[:5]:
        click.echo(wrapped(printable(f'note: "{name}" cannot move: {why}')))
    if not proposal.movable:
        click.echo(wrapped("no schedule may move: none has the label, or is named by --name"))
    elif not proposal.moves:
        click.echo("no move would lower the peak")
    else:
        click.echo()
        moves = [(move.name, move.before, move.after) for move in proposal.moves]
        print_table(("SCHEDULE", "BEFORE", "AFTER"), moves, shrinks=0)
