"""The commands that define schedules: add and update."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from duebook.cli.alert_options import alert_options, read_alerts, save_alerts
from duebook.cli.arguments import complete_template, name_argument
from duebook.cli.commands import command
from duebook.cli.definition_options import (
    ONE_TARGET,
    POLICIES,
    definition_options,
    read_policies,
    read_retry,
    read_target,
)
from duebook.cli.notes import print_notes
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, when, wrapped
from duebook.cli.trigger_options import names_trigger, trigger_fields, trigger_options
from duebook.errors import Invalid, counted, printable, shorten
from duebook.model.codec import encode
from duebook.model.forms import definition_of, is_completed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.model.edited import Edited, Note
    from duebook.model.schedule import Schedule, ScheduleSpec

__all__ = ["add_command", "update_command"]

MOST_NOTED: Final = 5


@command("add")
@click.argument("name", required=False)
@trigger_options(cron_option=True)
@definition_options
@alert_options
@click.option(
    "--template",
    metavar="NAME",
    shell_complete=complete_template,
    help="Use the defaults of this template; see duebook template.",
)
@click.option(
    "--file",
    metavar="FILE",
    type=click.File("rb"),
    help="Add all schedules of a JSON list, such as ls --json prints; all or none.",
)
@click.option(
    "--active/--no-active", default=None, help="Start active or paused. [default: active]"
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@json_option
def add_command(
    name: str | None,
    command: tuple[str, ...],
    template: str | None,
    file: BinaryIO | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Add a schedule that runs a command, task or request.

    \b
    Examples:
      duebook add backup --cron "30 2 * * *" --tz Europe/Brussels -- pg_dump mydb
      duebook add ping --every 10s -- curl -fsS http://localhost/health
      duebook add report --weekly "MON 09:00" --shell 'make report | mail me'
      duebook add load --every 1h --depends-on extract:1h --retry 3 -- ./load
      duebook add digest --daily 07:00 --task email_digest
      duebook add hook --daily 07:00 --http https://example.com/hook --method POST
      duebook add sum --every 1h --celery proj.tasks.add --args "[1, 2]"
      duebook add orders --template nightly -- pg_dump orders
      duebook add dump --daily 03:00 --on-failure mailto:me@example.com -- ./dump
      duebook add --file schedules.json
    """
    if file is not None:
        if name is not None:
            raise click.UsageError("give either NAME or --file, not both")
        _add_all(file, as_json)
        return
    if name is None:
        raise click.UsageError("give a NAME, or --file with a list of schedules")
    alerts = read_alerts(options)
    definition = read_policies(options) | read_retry(options, None) | _active(options)
    target = read_target(command, options)
    if target is not None:
        definition["target"] = target
    elif template is None:
        raise click.UsageError(ONE_TARGET)
    if template is None or names_trigger(options):
        definition |= trigger_fields(options)
    with open_book(create=True) as book:
        schedule = book.schedules.create(name, template=template, **definition)
        save_alerts(book, schedule.name, alerts)
        if as_json:
            print_json(encode(schedule))
            return
        click.echo(_added(schedule))
        click.echo(f"next due {when(schedule.next_due_at)}")
        _print_notes(schedule.notes)
        print_notes(book, schedule)


def _added(schedule: Schedule) -> str:
    triggers, title = (schedule.spec.triggers, schedule.spec.title) if schedule.spec else ((), "")
    called = f"{schedule.name} ({printable(title)})" if title else schedule.name
    return f"added {called}: {'; '.join(trigger.describe() for trigger in triggers)}"


def _active(options: dict[str, Any]) -> dict[str, bool]:
    return {} if options["active"] is None else {"active": options["active"]}


def _add_all(file: BinaryIO, as_json: bool) -> None:
    forms = _read_file(file)
    definitions = [
        definition_of(form) if isinstance(form, dict) else form
        for form in forms
        if not is_completed(form)
    ]
    with open_book(create=True) as book:
        made = book.schedules.create_many(definitions)
    if as_json:
        print_json([encode(schedule) for schedule in made])
    else:
        click.echo(f"added {counted(len(made), 'schedule')}")
    for note in _left_out(forms):
        click.echo(wrapped(printable(f"note: {note}")), err=True)


def _read_file(file: BinaryIO) -> list[Any]:
    """A list of definitions, or of whole schedules as `ls --json` and the API return them."""
    try:
        forms = json.load(file)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"--file is not valid JSON: {shorten(str(error))}") from None
    if isinstance(forms, dict):
        forms = next((forms[key] for key in ("schedules", "items") if key in forms), [forms])
    if not isinstance(forms, list):
        raise Invalid(f"--file: {shorten(forms)} is not a list of schedules")
    return forms


def _left_out(forms: list[Any]) -> Iterator[str]:
    """What was not added with the schedules and matters."""
    completed = [str(form.get("name")) for form in forms if is_completed(form)]
    if completed:
        names = shorten(", ".join(completed))
        yield f"{counted(len(completed), 'completed schedule')} not added: {names}"
    until = [form for form in forms if isinstance(form, dict) and form.get("paused_until")]
    for name in [form.get("name") for form in until][:MOST_NOTED]:
        yield f'"{name}" stays paused until you resume it: duebook resume {name}'


@command("update")
@name_argument
@trigger_options(cron_option=True)
@definition_options
@alert_options
@click.option(
    "--reset",
    metavar="POLICY",
    multiple=True,
    help="Reset a policy to its default, such as catchup-window; repeatable.",
)
@click.option("--active/--no-active", default=None, help="Resume or pause it.")
@click.option("--dry-run", is_flag=True, help="Only show which due times would change.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@json_option
def update_command(
    name: str,
    command: tuple[str, ...],
    reset: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Change a schedule; only the options you pass change.

    Pending due times follow the new definition. Due times that only the old
    definition had are recorded as `edited`.

    \b
    Examples:
      duebook update backup --cron "0 3 * * *" --tz Europe/Brussels --dry-run
      duebook update backup --overlap queue --retry 3 --reset timeout
      duebook update backup -- pg_dump --format=custom mydb
    """
    alerts = read_alerts(options)
    with open_book() as book:
        former = book.schedules.get(name)
        retry = former.spec.retry.to_json() if former.spec and former.spec.retry else None
        changes = _reset(reset, former.spec) | read_policies(options) | read_retry(options, retry)
        changes |= _active(options)
        target = read_target(command, options, former.spec.target if former.spec else None)
        if target is not None:
            changes["target"] = target
        if names_trigger(options):
            changes |= trigger_fields(options)
        if not changes and not alerts:
            raise click.UsageError("give at least one option to change")
        if dry_run:
            edit = book.schedules.preview_update(former.id, **changes)
            print_json(encode(edit)) if as_json else _print_edit(edit)
            return
        schedule = former
        if changes:
            schedule = book.schedules.update(former.id, version=former.version, **changes)
        save_alerts(book, schedule.name, alerts, saved=bool(changes))
        if as_json:
            print_json(encode(schedule))
            return
        fields = ", ".join([*changes, *(f"on_{kind}" for kind in alerts)])
        click.echo(wrapped(f"updated {schedule.name} to version {schedule.version}: {fields}"))
        if schedule.status == "active":
            click.echo(f"next due {when(schedule.next_due_at)}")
        _print_notes(schedule.notes)
        if target is not None or changes.keys() & {"queue", "depends_on"}:
            print_notes(book, schedule)


def _print_notes(notes: Sequence[Note]) -> None:
    for note in notes:
        click.echo(f"note: {printable(note.message)}", err=True)


def _print_edit(edit: Edited) -> None:
    """The next due times in order: - is removed, + is added."""
    was, will = set(edit.was_due), set(edit.will_be_due)
    last = min((due[-1] for due in (edit.was_due, edit.will_be_due) if due), default=None)
    for at in sorted(was | will):
        if last is not None and at <= last:
            click.echo(f"{' ' if at in was & will else '-' if at in was else '+'} {when(at)}")
    if was == will:
        click.echo("no due times would change")
    _print_notes(edit.notes)


def _reset(names: tuple[str, ...], current: ScheduleSpec | None) -> dict[str, None]:
    """The policies to reset; unknown names are accepted if `current` cannot be read (None)."""
    known = {name.replace("_", "-"): name for name in (*POLICIES, "payload")}
    for name in names:
        if name not in known and current is not None:
            raise Invalid(f'--reset "{name}" is not a policy; use one of {", ".join(known)}')
    return {known.get(name, name.replace("-", "_")): None for name in names}
