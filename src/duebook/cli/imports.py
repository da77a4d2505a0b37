"""The commands that convert the schedules of other schedulers to files."""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from duebook.cli.arguments import read_pair
from duebook.cli.bulk import agreed
from duebook.cli.commands import group
from duebook.cli.loading import imported
from duebook.cli.output import json_option, print_json, print_problem, print_table, when, wrapped
from duebook.clock import utc_now
from duebook.errors import Conflict, Invalid, NotFound, counted, printable, shorten
from duebook.flows.check import check_files
from duebook.flows.problems import Refused
from duebook.imports.apscheduler import has_pickles, read_jobs
from duebook.imports.celery_app import read_app
from duebook.imports.celery_tables import read_tables
from duebook.imports.crontab import read_crontab
from duebook.imports.databases import open_foreign
from duebook.imports.files import import_form, import_yaml, leave_past, next_due
from duebook.imports.found import Import, finish
from duebook.imports.kubernetes import read_manifests
from duebook.imports.machine_zone import machine_zone
from duebook.imports.sources import is_directory, read_sources
from duebook.imports.systemd import read_timers
from duebook.triggers.zones import zone_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.flows.check import Checked
    from duebook.imports.found import Found

__all__ = ["import_group"]

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")
_CRON_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_APP: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
LONGEST_APP: Final = 250
_MODULE: Final = re.compile(r"[A-Za-z_][\w.]*")
_UNIT: Final = re.compile(
    r"[^/]+\.(?:timer|service)(?:\.d/[^/]+\.conf)?|timers\.target\.wants/[^/@]+@[^/]+\.timer"
)
"""Links in timers.target.wants name instances of templates; other links there duplicate units."""
HELM: Final = "; if it is a template of Helm, render it first: helm template"
PICKLES: Final = (
    "the store has pickles, which anyone who can write to it may have chosen. Duebook reads them "
    "without loading the classes that they name, and only small ones."
)


def _output_options(command: Decorated) -> Decorated:
    for decorate in (
        json_option,
        click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Add a label."),
        click.option(
            "--owner", metavar="NAME", help="The owner of the file. [default: the source]"
        ),
        click.option("--force", is_flag=True, help="Replace the output file."),
        click.option(
            "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write here."
        ),
        click.option(
            "--dry-run", is_flag=True, help="Only show the schedules and when they are due."
        ),
    ):
        command = decorate(command)
    return command


_zone_option = click.option(
    "--tz", metavar="ZONE", help="The zone of that machine. [default: that of this one]"
)
_yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


@group("import")
def import_group() -> None:
    """Import schedules from cron, systemd, Celery and others.

    Prints a YAML file for diff and apply, or writes it with -o. What cannot be
    carried over is listed on stderr and in comments. Nothing is executed.
    """


@import_group.command("crontab")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--system", is_flag=True, help="Lines name a user, as in /etc/crontab.")
@_zone_option
@_output_options
def crontab_command(files: tuple[str, ...], system: bool, tz: str | None, **options: Any) -> None:
    """Import crontabs.

    FILE may be - for stdin, or a directory such as /etc/cron.d. In /etc/crontab and
    in files of cron.d each line names a user; for other such files, use --system.

    \b
    Examples:
      crontab -l | duebook import crontab - -o schedules.yaml
      duebook import crontab /etc/crontab /etc/cron.d --dry-run
    """
    done, zone = Import(), _zone(tz)
    sources = read_sources(files, lambda path: bool(_CRON_NAME.fullmatch(str(path))), done)
    _name_skipped(files, done)
    for title, text in sources.items():
        place = Path(title).absolute()
        named = system or place == Path("/etc/crontab") or place.parent.name == "cron.d"
        _add(done, read_crontab(text, title, zone, named))
    _finish(done, "crontab", options, zone=None if tz else zone)


@import_group.command("systemd")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_zone_option
@_output_options
def systemd_command(files: tuple[str, ...], tz: str | None, **options: Any) -> None:
    """Import systemd timers with their services.

    FILE is a unit file, or a directory of them.

    \b
    Examples:
      duebook import systemd /etc/systemd/system -o timers.yaml
      duebook import systemd backup.timer backup.service --dry-run
    """
    done, zone = Import(), _zone(tz)
    units = read_sources(files, lambda path: bool(_UNIT.fullmatch(str(path))), done)
    _add(done, read_timers(units, zone))
    _finish(done, "systemd", options, zone=None if tz else zone)


@import_group.command("kubernetes")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_output_options
def kubernetes_command(files: tuple[str, ...], **options: Any) -> None:
    """Import CronJob manifests of Kubernetes.

    FILE is YAML or JSON, or a directory of such files; - is stdin.

    \b
    Examples:
      kubectl get cronjobs -A -o yaml | duebook import kubernetes - -o jobs.yaml
      duebook import kubernetes manifests/ --dry-run
    """
    done = Import()
    found = read_sources(files, lambda path: path.suffix in (".yaml", ".yml", ".json"), done)
    for title, text in found.items():
        try:
            _add(done, read_manifests(text, title))
        except Refused as error:
            told = str(error) + (HELM if "{{" in text else "")
            if len(found) == 1:
                raise Invalid(told) from None
            place, _, why = told.partition(": ")
            done.leave(place, "", why)
    _finish(done, "kubernetes", options)


@import_group.command("apscheduler")
@click.argument("database", metavar="URL")
@click.option(
    "--table",
    default="apscheduler_jobs",
    show_default=True,
    metavar="NAME",
    help="The table of APScheduler 3.",
)
@_yes_option
@_output_options
def apscheduler_command(database: str, table: str, yes: bool, **options: Any) -> None:
    """Import the jobs of an APScheduler store.

    Reads SQLAlchemy stores of versions 3 and 4. URL is a SQLite file,
    sqlite:///FILE or postgresql://…; the database is only read. Asks before it
    reads pickles. Run it in the directory of your program, so that the names of
    positional arguments are found in its source.

    \b
    Examples:
      duebook import apscheduler sqlite:///jobs.sqlite --dry-run
      duebook import apscheduler postgresql://app@db/jobs -o jobs.yaml
    """
    with closing(open_foreign(database)) as store:
        if has_pickles(store, table):
            _ask(PICKLES, yes, options)
        done = read_jobs(store, table, utc_now(), Path.cwd())
    _finish(done, "apscheduler", options)


@import_group.command("celery")
@click.argument("source", metavar="APP|URL")
@_yes_option
@_output_options
def celery_command(source: str, yes: bool, **options: Any) -> None:
    """Import a beat_schedule, or the tables of django-celery-beat.

    APP is MODULE:APP, which is imported, after asking. URL is a SQLite file,
    sqlite:///FILE or postgresql://…, which is only read.

    \b
    Examples:
      duebook import celery proj.celery:app -o beat.yaml
      duebook import celery sqlite:///db.sqlite3 --dry-run
    """
    is_missing = len(source) < LONGEST_APP and not Path(source).exists()
    if is_missing and _APP.fullmatch(source):
        module, _, name = source.partition(":")
        _ask(f"this imports {module}, which runs its code.", yes, options)
        _finish(read_app(_attribute(imported(module), name)), "celery", options)
        return
    if is_missing and _MODULE.fullmatch(source):
        raise NotFound(f"there is no file {source}; an app is MODULE:APP, such as proj:app")
    with closing(open_foreign(source)) as database:
        done = read_tables(database, utc_now())
    _finish(done, "celery", options)


@import_group.command("dagu")
@click.argument("directory", type=click.Path(path_type=Path))
@json_option
def dagu_command(directory: Path, as_json: bool) -> None:
    """Check which files of Dagu a node can use as they are.

    Duebook reads these files itself, so nothing is written. Exits with 2 if a file
    needs changes.

    \b
    Examples:
      duebook import dagu ~/.config/dagu/dags
    """
    if not is_directory(str(directory)):
        if directory.exists():
            raise Invalid(f"{directory} is not a directory; name its directory")
        raise NotFound(f"there is no directory {directory}")
    checked = check_files([directory])
    if not checked:
        raise Invalid(f"{directory} has no .yaml or .yml files")
    if as_json:
        print_json([_dagu_form(each) for each in checked])
    else:
        _print_dagu(checked, directory)
    if any(each.problems for each in checked):
        click.get_current_context().exit(2)


# -- shared by the commands


def _name_skipped(folders: tuple[str, ...], done: Import) -> None:
    """The files in them that cron does not read either; hidden ones are no surprise."""
    for folder in filter(is_directory, folders):
        for path in sorted(Path(folder).iterdir()):
            if path.is_file() and not _CRON_NAME.fullmatch(path.name) and path.name[0] != ".":
                done.leave(str(path), "", "cron skips it, too, because of its name")


def _zone(tz: str | None) -> str:
    return zone_name(tz) if tz is not None else machine_zone() or "UTC"


def _uses(one: Found, zone: str) -> bool:
    return any(getattr(trigger, "tz", "") == zone for trigger in one.triggers)


def _add(done: Import, more: Import) -> None:
    done.found += more.found
    done.left += more.left
    done.notes += more.notes


def _ask(told: str, yes: bool, options: dict[str, Any]) -> None:
    """Raises UsageError, or exits if the answer is no."""
    if yes:
        return
    if options["as_json"]:
        raise click.UsageError("--json does not ask for confirmation; add --yes")
    click.echo(wrapped(told), err=True)
    if not agreed():
        click.echo("cancelled; nothing was read", err=True)
        click.get_current_context().exit(1)


def _attribute(module: Any, path: str) -> Any:
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise Invalid(f"module {module.__name__} has no {shorten(path)}")
        found = getattr(found, part)
    return found


def _finish(found: Import, source: str, options: dict[str, Any], zone: str | None = None) -> None:
    """`zone` is this machine's, if the command line names none."""
    labels = dict(read_pair(text, "--label") for text in options["labels"])
    done, owner, now = finish(found, labels), options["owner"] or source, utc_now()
    leave_past(done, now)
    if not (done.found or done.left):
        raise Invalid("there are no schedules in it")
    if zone is not None and any(_uses(one, zone) for one in done.found):
        told = f"times without a zone are taken as {zone}, the zone of this machine"
        done.notes.insert(0, f"{told}; --tz names another")
    output = options["output"]
    if output is not None and not options["dry_run"]:
        _write(output, import_yaml(done, owner, source), options["force"])
    if options["as_json"]:
        print_json(import_form(done, owner, now))
    elif options["dry_run"]:
        rows = [(one.name, *_due_words(one, now)) for one in done.found]
        print_table(("NAME", "NEXT DUE", "WHEN"), rows, shrinks=0)
    elif output is None:
        click.echo(import_yaml(done, owner, source), nl=False)
    if not options["as_json"]:
        _print_notes(done, output)
    if not done.found:
        raise Invalid("nothing could be imported")


def _due_words(one: Found, now: datetime) -> tuple[str, str]:
    due = next_due(one, now, 1)
    return when(due[0], now) if due else "-", "; ".join(each.describe() for each in one.triggers)


def _write(path: Path, text: str, force: bool) -> None:
    """Readable only by the user, because variables may be secrets."""
    if path.exists() and not force:
        raise Conflict(f"{path} exists; --force replaces it")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Invalid(f"{path}: {error.strerror or error}") from None


def _print_notes(done: Import, output: Path | None) -> None:
    for note in done.notes:
        _tell(f"note: {note}")
    for one in done.found:
        for note in one.notes:
            _tell(f"note: {one.name}: {note}")
    for left in done.left:
        _tell(f"left out: {left}")
    counts = f"{counted(len(done.found), 'schedule')}, {len(done.left):,} left out"
    if output is not None:
        counts += f"; next: duebook diff {output}"
    click.echo(counts, err=True)


def _tell(text: str) -> None:
    click.echo(wrapped(printable(text)), err=True)


def _dagu_form(each: Checked) -> dict[str, Any]:
    return {
        "file": each.file,
        "flows": [{"name": flow.name, "schedule": flow.schedule_form()} for flow in each.flows],
        "problems": [problem.to_json() for problem in each.problems],
        "notes": list(each.notes),
    }


def _print_dagu(checked: list[Checked], directory: Path) -> None:
    good = [each for each in checked if not each.problems]
    for each in checked:
        for flow in each.flows if not each.problems else ():
            times = "; ".join(trigger.describe() for trigger in flow.policies.triggers)
            told = f"{each.file}: {flow.name}: {times or 'no schedule'}"
            click.echo(wrapped(printable(told)))
        for problem in each.problems:
            print_problem(problem)
        for note in each.notes:
            _tell(f"note: {note}")
    told = f"{counted(len(good), 'file')} can be used unchanged"
    click.echo(f"{told}, {len(checked) - len(good)} must be changed", err=True)
    if good:
        click.echo(f"to start them: duebook up --flows {directory}", err=True)
