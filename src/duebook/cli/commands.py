"""The base of all commands: global options in any place, options in sections, summaries that are
never cut, and hints for commands that have another name here."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from duebook.cli.hints import missing_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "FILTERS",
    "GLOBAL",
    "LIMITS",
    "SECTION_STARTS",
    "WHAT",
    "WHEN",
    "Command",
    "Group",
    "command",
    "group",
    "in_section",
    "option",
    "summary_of",
]

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

WHEN: Final = "When it is due"
WHAT: Final = "What it runs"
MISSED: Final = "Missed and overlapping due times"
LIMITS: Final = "Retries and limits"
ABOUT: Final = "About it"
FILTERS: Final = "Filters"
OPTIONS: Final = "Options"
SECTIONS: Final = (WHEN, WHAT, MISSED, LIMITS, ABOUT, FILTERS, OPTIONS)
"""Headings for the options of a command, in this order."""
SECTION_STARTS: Final = {
    "payload": WHAT,
    "title": ABOUT,
    "start_at": WHEN,
    "grace": MISSED,
    "max_concurrent": LIMITS,
}
"""The policies that start each section, in the order in which policies are declared."""
GLOBAL_NOTE: Final = "Also accepts --database, --url, --token, --namespace and --color."
_SENTENCE: Final = re.compile(r"(?<=[^.])\.(?: |$)|:$|$")


class Option(click.Option):
    """An option that may be listed in its own section of the help text."""

    section = OPTIONS


def option(*names: str, **extra: Any) -> Callable[[Decorated], Decorated]:
    return click.option(*names, cls=Option, **extra)


def in_section(
    title: str, *decorators: Callable[[Decorated], Decorated]
) -> tuple[Callable[[Decorated], Decorated], ...]:
    """The same options, listed under a heading."""

    def tagged(decorate: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
        def apply(function: Decorated) -> Decorated:
            decorated = decorate(function)
            added = decorated.__click_params__[-1]  # type: ignore[attr-defined]
            added.section = title
            return decorated

        return apply

    return tuple(map(tagged, decorators))


class _GlobalOption(click.Option):
    """An option of the whole command line; only `duebook --help` lists it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.parent is None else None


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """The last occurrence wins."""
    root = ctx.find_root()
    if root.obj is None:
        root.obj = {}
    if value is not None and parameter.name is not None:
        root.obj[parameter.name] = value


def _choose_color(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is None and ctx.parent is None and (os.environ.get("NO_COLOR") or _is_dumb()):
        value = "never"
    if value is not None:
        ctx.color = ctx.find_root().color = {"always": True, "never": False}.get(value)
    _remember(ctx, parameter, value)


def _is_dumb() -> bool:
    return os.environ.get("TERM") == "dumb"


def _global(*names: str, **extra: Any) -> _GlobalOption:
    return _GlobalOption(names, expose_value=False, **({"callback": _remember} | extra))


GLOBAL: Final = (
    _global(
        "--database",
        "database_url",
        metavar="URL",
        help="The database: a file, sqlite:///FILE or postgresql://… "
        "[env: DUEBOOK_DATABASE_URL; default: .duebook/duebook.db]",
    ),
    _global(
        "--url",
        metavar="URL",
        help="Use a Duebook server instead of a database. [env: DUEBOOK_URL]",
    ),
    _global("--token", metavar="TEXT", help="The token for that server. [env: DUEBOOK_TOKEN]"),
    _global(
        "--namespace",
        metavar="NAME",
        help="The namespace to work in. [env: DUEBOOK_NAMESPACE; default: default]",
    ),
    _global(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        callback=_choose_color,
        help="Colour in the output. [default: auto, which heeds NO_COLOR]",
    ),
)


def _with_global(params: list[click.Parameter]) -> list[click.Parameter]:
    """A command's own option with the same name takes precedence."""
    taken = {name for param in params for name in param.opts}
    return [*params, *(one for one in GLOBAL if taken.isdisjoint(one.opts))]


def _write_sections(
    params: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    found: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None and not isinstance(param, click.Argument):
            found.setdefault(getattr(param, "section", OPTIONS), []).append(record)
    for title in SECTIONS:
        if title in found:
            with formatter.section(title):
                formatter.write_dl(found[title])


def _write_note(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    if ctx.parent is not None:
        formatter.write_paragraph()
        formatter.write_text(GLOBAL_NOTE)


class Command(click.Command):
    """One command; the global options may follow its name."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return _with_global(super().get_params(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_sections(self.get_params(ctx), ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _write_note(ctx, formatter)

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 - click's signature
        return summary_of(self)

    def invoke(self, ctx: click.Context) -> Any:
        if (ctx.find_root().obj or {}).get("as_json"):
            if "as_json" not in ctx.params:
                raise click.UsageError(f"{ctx.command_path} does not print JSON", ctx)
            ctx.params["as_json"] = True
        return super().invoke(ctx)


class Group(click.Group):
    """Several commands; an unknown one gets a hint."""

    command_class = Command
    group_class = type

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return _with_global(super().get_params(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_sections(self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 - click's signature
        return summary_of(self)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.write_commands(ctx, formatter, "Commands", self.list_commands(ctx))

    def write_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: Iterable[str]
    ) -> None:
        found = ((name, self.get_command(ctx, name)) for name in names)
        rows = [(name, summary_of(one)) for name, one in found if one and not one.hidden]
        widest = max(map(len, self.list_commands(ctx)))
        with formatter.section(title):
            formatter.write_dl([(name.ljust(widest), text) for name, text in rows])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        _write_note(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, *rest = args
        known = self.list_commands(ctx)
        if word not in known and not word.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(missing_command(ctx.command_path, word, rest, known), ctx)
        return super().resolve_command(ctx, args)


def command(name: str) -> Callable[[Callable[..., Any]], Command]:
    return click.command(name, cls=Command)


def group(name: str) -> Callable[[Callable[..., Any]], Group]:
    return click.group(name, cls=Group)


def summary_of(found: click.Command) -> str:
    """The first sentence of its help text, whole."""
    text = " ".join((found.help or "").partition("\n\n")[0].split())
    end = _SENTENCE.search(text)
    return text[: end.start()] if end else text
