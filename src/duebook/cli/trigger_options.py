"""The options that define a trigger; builds it, and rejects options that contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from duebook.cli.commands import WHEN, in_section, option
from duebook.model.frequency import FREQUENCY
from duebook.triggers import Trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["build_trigger", "names_trigger", "trigger_fields", "trigger_options"]

Command = TypeVar("Command", bound="Callable[..., Any]")

_KINDS: Final = ("every", "daily", "weekly", "at", "rrule")
_OPTIONS: Final = ("tz", "gap", "fold", "key", "anchor", "dtstart")

_DECORATORS: Final = in_section(
    WHEN,
    option("--every", metavar="LENGTH", help="At a fixed interval: 15m, 1h30m, 1d, 2w."),
    option("--daily", metavar="TIMES", help="Every day at these times: 07:00,17:30."),
    option("--weekly", metavar="TEXT", help='On weekdays: "MON,WED,FRI 09:00".'),
    option("--at", metavar="INSTANT", help="Once: 2026-03-29T02:10:00+01:00."),
    option("--rrule", metavar="RULE", help='By a recurrence rule: "FREQ=MONTHLY;BYDAY=-1FR".'),
    option("--tz", metavar="ZONE", help="Time zone, such as Europe/Brussels. [default: UTC]"),
    option(
        "--gap",
        type=click.Choice(["run_after", "skip"]),
        help="When clocks jump over a due time: run when the gap ends, or skip it. "
        "[default: run_after]",
    ),
    option(
        "--fold",
        type=click.Choice(["first", "both"]),
        help="When clocks repeat a due time: run the first time, or both. [default: first]",
    ),
    option("--key", metavar="TEXT", help="The text that H in a cron expression hashes."),
    option("--anchor", metavar="INSTANT", help="The instant from which --every counts."),
    option("--dtstart", metavar="TIME", help="The start of --rrule: a date or an instant."),
)


_FREQUENCY: Final = in_section(
    WHEN,
    option("--frequency-unit", metavar="UNIT", help="With --frequency-time: MINUTES, HOURS, DAYS…"),
    option("--frequency-time", type=int, metavar="N", help="Due every N units."),
    option("--start-ts", metavar="INSTANT", help="The first due time of --frequency-time."),
)
_CRON: Final = in_section(
    WHEN, option("--cron", "expression", metavar="EXPR", help='A cron expression: "30 2 * * *".')
)


def trigger_options(cron_option: bool = False) -> Callable[[Command], Command]:
    """Add the options that define a trigger to a command, with EXPR as argument or as --cron."""
    expression = (
        _CRON[0] if cron_option else click.argument("expression", metavar="[EXPR]", required=False)
    )

    def decorate(command: Command) -> Command:
        frequency = _FREQUENCY if cron_option else ()
        for add in (*reversed((*_DECORATORS, *frequency)), expression):
            command = add(command)
        return command

    return decorate


def names_trigger(options: dict[str, Any]) -> bool:
    """Whether any trigger option is given."""
    names = ("expression", *_KINDS, *_OPTIONS, *FREQUENCY)
    return any(options.get(name) is not None for name in names)


def trigger_fields(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of a definition from the options: `trigger`, or those of a frequency.

    Raises UsageError.
    """
    given = {name: options[name] for name in FREQUENCY if options[name] is not None}
    others = [name for name in ("expression", *_KINDS, *_OPTIONS) if options[name] is not None]
    if given and others:
        flags = (f"--{'cron' if o == 'expression' else o}" for o in others)
        first = next(iter(given)).replace("_", "-")
        raise click.UsageError(f"--{first} cannot be combined with {', '.join(flags)}")
    return given or {"trigger": trigger_form(options)}


def build_trigger(options: dict[str, Any], key: str | None = None) -> Trigger:
    """The one trigger from the options; raises UsageError or InvalidTrigger.

    `key` is what H hashes, unless --key is given.
    """
    return load_trigger(trigger_form(options), key=key)


def trigger_form(options: dict[str, Any]) -> dict[str, Any]:
    """The form of the one trigger from the options; raises UsageError."""
    forms = {kind: options[kind] for kind in _KINDS if options[kind] is not None}
    if options["expression"] is not None:
        forms["cron"] = options["expression"]
    if len(forms) != 1:
        context = click.get_current_context()
        is_option = any("--cron" in parameter.opts for parameter in context.command.params)
        cron = "--cron" if is_option else "EXPR"
        given = " and ".join(cron if kind == "cron" else f"--{kind}" for kind in forms)
        raise click.UsageError(
            f"give exactly one of {cron}, --{', --'.join(_KINDS)}; found {given or 'none'}", context
        )
    if "daily" in forms:
        forms["daily"] = [time.strip() for time in forms["daily"].split(",")]
    extra = {name: options[name] for name in _OPTIONS if options[name] is not None}
    if "at" in forms:
        extra.pop("tz", None)  # an instant does not depend on the zone, which is only for display
    return {**forms, **extra}
