"""The commands about flow files: check, graph, dry. Commands about runs are in flow_runs."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from duebook.cli.arguments import read_params, user
from duebook.cli.commands import group
from duebook.cli.flow_run_file import run_file_command
from duebook.cli.flow_runs import COMMANDS
from duebook.cli.opening import settings_of
from duebook.cli.output import cut, json_option, print_json, print_problem, wrapped
from duebook.cli.terminal import table_width
from duebook.clock import utc_now
from duebook.errors import Invalid, counted, printable
from duebook.flows.check import Checked, check_files, unknown_calls
from duebook.flows.drawing import draw_lines, draw_svg
from duebook.flows.dry_run import DryStep, dry_run
from duebook.flows.problems import did_you_mean
from duebook.flows.render import flow_secrets
from duebook.ids import new_id
from duebook.model.flow import FlowTarget
from duebook.model.target import CommandTarget, HttpTarget
from duebook.secret_sources import read_sources
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.flow import Flow

__all__ = ["flow_group"]

_file_argument = click.argument("file", type=click.Path(path_type=Path))
_name_option = click.option(
    "--flow", "name", metavar="NAME", help="Which flow, if the file has several."
)


@group("flow")
def flow_group() -> None:
    """Check, start and stop flows: graphs of steps in YAML files."""


for _command in (run_file_command, *COMMANDS):
    flow_group.add_command(_command)


@flow_group.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def check_command(files: tuple[Path, ...], as_json: bool) -> None:
    """Check flow files, or all of a directory.

    \b
    Examples:
      duebook flow check etl.yaml
      duebook flow check flows/ --json
    """
    checked = [_with_secrets(each) for each in check_files(files)]
    if as_json:
        print_json([_form(each) for each in checked])
    else:
        _print_checked(checked)
    if any(each.problems for each in checked):
        raise SystemExit(2)


def _with_secrets(checked: Checked) -> Checked:
    """Add a note for each secret that a node with this machine's settings would not have."""
    named = {name for flow in checked.flows for name in flow_secrets(flow)}
    if not named:
        return checked
    settings = settings_of()
    known = read_sources(settings.secrets).get(settings.namespace, {})
    told = tuple(
        f'secret "{name}" is not in [secrets.{settings.namespace}] of the settings here; '
        "a node that executes the flow must have it there"
        for name in sorted(named - set(known))
    )
    return replace(checked, notes=(*checked.notes, *told))


def _form(checked: Checked) -> dict[str, Any]:
    return {
        "file": checked.file,
        "flows": [
            {
                "name": flow.name,
                "steps": [step.name for step in flow.steps],
                "schedule": flow.schedule_form(),
                "stop": [trigger.to_json() for trigger in flow.stop],
                "restart": [trigger.to_json() for trigger in flow.restart],
            }
            for flow in checked.flows
        ],
        "problems": [problem.to_json() for problem in checked.problems],
        "notes": list(checked.notes),
    }


def _print_checked(checked: Sequence[Checked]) -> None:
    for each in checked:
        for problem in each.problems:
            print_problem(problem)
        if not each.problems:
            click.echo(wrapped(printable(f"{each.file}: {'; '.join(map(_words, each.flows))}")))
    for note in (note for each in checked for note in each.notes):
        click.echo(wrapped(printable(f"note: {note}")), err=True)
    known = [flow.name for each in checked for flow in each.flows]
    for flow, name in unknown_calls(checked):
        hint = did_you_mean(name, known)
        told = f"note: {flow} runs {name}, which is not in these files"
        click.echo(f"{told}; {hint}" if hint else told, err=True)
    if not checked:
        click.echo("no flow files found; their names end with .yaml or .yml", err=True)
    broken = [each for each in checked if each.problems]
    if broken:
        count = sum(len(each.problems) for each in broken)
        click.echo(f"{counted(count, 'problem')} in {counted(len(broken), 'file')}", err=True)


def _words(flow: Flow) -> str:
    when = ", ".join(trigger.describe() for trigger in flow.start) or "started manually"
    ways = [("stopped", flow.stop), ("restarted", flow.restart)]
    more = [f", {how}: {trigger.describe()}" for how, found in ways for trigger in found]
    if flow.policies.calendar is not None:
        when += f" ({flow.policies.calendar})"
    return f"{flow.name}, {counted(len(flow.steps), 'step')}, {when}{''.join(more)}"


@flow_group.command("graph")
@_file_argument
@_name_option
@click.option("--svg", is_flag=True, help="Print SVG.")
def graph_command(file: Path, name: str | None, svg: bool) -> None:
    """Draw the graph of a flow, as text or SVG.

    \b
    Examples:
      duebook flow graph etl.yaml
      duebook flow graph etl.yaml --svg > etl.svg
    """
    flow = _find(file, name)
    if svg:
        click.echo(draw_svg(flow), nl=False)
        return
    width = table_width()
    for line in draw_lines(flow):
        click.echo(line if width is None else cut(line, width))


@flow_group.command("dry")
@_file_argument
@click.argument("words", metavar="[-- VALUE...]", nargs=-1)
@_name_option
@click.option(
    "--param", "params", metavar="NAME=VALUE", multiple=True, help="A parameter; repeatable."
)
@json_option
def dry_command(
    file: Path, words: tuple[str, ...], name: str | None, params: tuple[str, ...], as_json: bool
) -> None:
    """Show what would run, with its values, without running it.

    What only a run knows is shown by its name: the output of a step, and the
    environment variables of a worker.

    \b
    Example:
      duebook flow dry etl.yaml --param DAY=2026-02-07
      duebook flow dry copy.yaml -- in.csv out.csv
    """
    flow = _find(file, name)
    given = read_params(params, words)
    steps = dry_run(flow, given, utc_now(), new_id(), user())
    if as_json:
        print_json([step.to_json() for step in steps])
        return
    for number, step in enumerate(steps):
        _print_step(step, first=number == 0)


def _print_step(step: DryStep, first: bool) -> None:
    after = f"after {', '.join(step.depends)}" if step.depends else ""
    if not first:
        click.echo()
    click.echo(printable(f"{step.name}  {after}".rstrip()))
    for label, text in _lines(step):
        head, *rest = text.rstrip("\n").split("\n")
        click.echo(f"  {label:<8} {printable(head)}".rstrip())
        for line in rest:
            click.echo(f"  {'':<8} {printable(line)}".rstrip())


def _lines(step: DryStep) -> list[tuple[str, str]]:
    lines = [("if", str(condition)) for condition in step.conditions]
    target = step.target
    match target:
        case CommandTarget():
            lines.append(("runs", step.script or shlex.join(target.argv)))
            lines += [("that is", step.filled)] if step.filled else []
            lines += [("in", target.cwd)] if target.cwd else []
            lines += [("on stop", stopping)] if (stopping := _on_stop(target)) else []
        case HttpTarget():
            lines.append(("runs", f"{target.method} {target.url}"))
            lines += [("json", _json(target.json))] if target.json is not None else []
            lines += [("body", target.body)] if target.body is not None else []
        case FlowTarget():
            lines.append(("runs", str(target)))
            lines += [("param", f"{key}={value}") for key, value in target.params]
        case _:
            lines.append(("runs", str(target)))
    lines += [("payload", _json(step.payload))] if step.payload else []
    return lines + [("env", f"{key}={value}") for key, value in step.variables]


def _on_stop(target: CommandTarget) -> str:
    """What its file says about how it is stopped."""
    parts = [target.stop_signal or ""]
    if target.stop_grace is not None:
        parts.append(f"SIGKILL after {format_duration(target.stop_grace)}")
    return ", ".join(filter(None, parts))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _find(path: Path, name: str | None) -> Flow:
    """The flow in a file; raises Invalid if the file has problems."""
    [checked] = check_files([path]) if not path.is_dir() else [_no_directory(path)]
    if checked.problems:
        rest = len(checked.problems) - 1
        more = f" (and {rest} more: duebook flow check {path})" if rest else ""
        raise Invalid(f"{checked.problems[0]}{more}")
    if name is None:
        return checked.flows[0]
    for flow in checked.flows:
        if name in (flow.name, flow.name.removeprefix(f"{checked.flows[0].name}.")):
            return flow
    known = ", ".join(flow.name for flow in checked.flows)
    raise Invalid(f'{path} has no flow "{name}"; it has {known}')


def _no_directory(path: Path) -> NoReturn:
    raise Invalid(f"{path} is a directory; name one of its files")
