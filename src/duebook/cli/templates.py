"""The commands about schedule templates: save, ls, show, rm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from duebook.cli.arguments import complete_template
from duebook.cli.commands import group
from duebook.cli.definition_options import (
    definition_options,
    policy_words,
    read_policies,
    read_retry,
    read_target,
)
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_pairs, print_table, when, wrapped
from duebook.cli.trigger_options import names_trigger, trigger_fields, trigger_options
from duebook.errors import Invalid
from duebook.model.codec import encode
from duebook.model.hidden import load_shown
from duebook.model.secret import show_payload
from duebook.triggers import load_trigger

if TYPE_CHECKING:
    from duebook.model.template import ScheduleTemplate

__all__ = ["template_group"]

_name_argument = click.argument("name", shell_complete=complete_template)


@group("template")
def template_group() -> None:
    """Save named defaults for new schedules.

    A schedule copies them when it is added; later changes to the template do not
    affect it.
    """


@template_group.command("save")
@_name_argument
@trigger_options(cron_option=True)
@definition_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@json_option
def save_command(name: str, command: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Save a template; replaces one of the same name.

    It may hold any part of a definition. H in a cron expression hashes the name of
    the schedule, not of the template.

    \b
    Examples:
      duebook template save nightly --cron "H 2 * * *" --retry 3 --timeout 1h
      duebook template save hook --http https://example.com/hook --method POST
      duebook add orders --template nightly -- pg_dump orders
    """
    defaults: dict[str, Any] = trigger_fields(options) if names_trigger(options) else {}
    if (target := read_target(command, options)) is not None:
        defaults["target"] = target
    defaults |= read_policies(options) | read_retry(options, None)
    with open_book(create=True) as book:
        template = book.templates.save(name, **defaults)
    if as_json:
        print_json(encode(template))
    else:
        click.echo(wrapped(f"saved {name}: {', '.join(template.defaults)}"))


@template_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List the templates."""
    with open_book() as book:
        templates = book.templates.list()
    if as_json:
        print_json([encode(template) for template in templates])
    elif templates:
        rows = [
            (template.name, _trigger_words(template) or "-", _about(template))
            for template in templates
        ]
        print_table(("TEMPLATE", "TRIGGER", "DEFAULTS"), rows, shrinks=1)
    else:
        click.echo("no templates yet; save one: duebook template save nightly --cron @daily")


@template_group.command("show")
@_name_argument
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show a template and its defaults."""
    with open_book() as book:
        template = book.templates.get(name)
    if as_json:
        print_json(encode(template))
        return
    defaults = template.defaults
    payload, labels = defaults.get("payload"), defaults.get("labels", {})
    print_pairs(
        [
            ("name", template.name),
            ("saved", f"{when(template.updated_at)} {_by(template.updated_by)}".rstrip()),
            ("title", defaults.get("title", "")),
            ("description", defaults.get("description", "")),
            ("trigger", _trigger_words(template)),
            ("runs", _target_words(template)),
            ("payload", json.dumps(show_payload(payload), ensure_ascii=False) if payload else ""),
            ("labels", ", ".join(f"{label}={value}" for label, value in labels.items())),
            ("policies", policy_words(defaults)),
        ]
    )


@template_group.command("rm")
@_name_argument
@json_option
def rm_command(name: str, as_json: bool) -> None:
    """Delete a template; schedules that used it stay."""
    with open_book() as book:
        template = book.templates.get(name)
        book.templates.remove(name)
    if as_json:
        print_json(encode(template))
    else:
        click.echo(f"deleted {name}")


def _by(name: str) -> str:
    return f"by {name}" if name else ""


def _about(template: ScheduleTemplate) -> str:
    """Its description, or otherwise its defaults without the trigger."""
    parts = (_target_words(template), policy_words(template.defaults))
    return template.defaults.get("description") or ", ".join(part for part in parts if part)


def _trigger_words(template: ScheduleTemplate) -> str:
    form = template.defaults.get("trigger", [])
    return "; ".join(map(_described, form if isinstance(form, list) else [form]))


def _described(form: dict[str, Any]) -> str:
    try:
        return load_trigger(form).describe()
    except Invalid:  # H needs the name of a schedule
        return ", ".join(f"{name} {value}" for name, value in form.items())


def _target_words(template: ScheduleTemplate) -> str:
    if "target" not in template.defaults:
        return ""
    try:
        return str(load_shown(template.defaults["target"]))
    except Invalid:  # written by a newer node
        return "?"
