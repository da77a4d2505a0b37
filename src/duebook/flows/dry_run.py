"""What a flow would run, with made-up values where only a run has them; runs nothing."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.flows.param_values import check_start
from duebook.flows.references import identifier
from duebook.flows.render import (
    Values,
    render_step,
    step_secrets,
    templates_of,
    texts_of,
)
from duebook.flows.variables import (
    named_variables,
    part_variable,
    readable,
    reference_name,
    shell_references,
)
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import FlowTarget, HumanTask, Script, is_shell
from duebook.model.flow_run import StepEnd
from duebook.model.secret import hide_in_lines, show_payload
from duebook.model.secret_values import references_to
from duebook.model.target import CommandTarget
from duebook.targets.hiding import hide_in, hiding, variable_secrets
from duebook.targets.templates import interval_texts
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from duebook.model.flow import Condition, Flow, Step
    from duebook.model.target import Target

__all__ = ["DryStep", "dry_run"]

_STEP: Final = r"""(?:\.|\["|\[')([^"'\].]+)(?:"\]|'\])?"""
_PATHS: Final = re.compile(
    rf"""\b(data|steps){_STEP}(?:\.output)?((?:\.\w+|\[[0-9]+\]|\["[^"]*"\])*)"""
)
_UNKNOWN: Final = re.compile(r"<(?:output|file|exit code|status) of ")
"""How stand-ins start."""
_MORE: Final = re.compile(r"`|\$\(|<<")
_KEY: Final = re.compile(r"""\.(\w+)|\[([0-9]+)\]|\["([^"]*)"\]""")


@dataclass(frozen=True, slots=True)
class DryStep:
    """A step as it would be executed."""

    name: str
    depends: tuple[str, ...]
    target: Target | FlowTarget | HumanTask
    script: str | None
    """the text of the file that an interpreter gets, if there is one"""
    filled: str | None
    """that text with its values inserted; None if it has none, or if a shell does more with it"""
    payload: dict[str, Any]
    conditions: tuple[Condition, ...]
    variables: tuple[tuple[str, str], ...]
    """the variables of the file; a worker has more"""

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {
            "name": self.name,
            "depends": list(self.depends),
            "script": self.script,
            "filled": self.filled,
            "target": self.target.to_json(),
            "conditions": [str(condition) for condition in self.conditions],
            "env": dict(self.variables),
        }
        return form | ({"payload": self.payload} if self.payload else {})


def dry_run(
    flow: Flow, given: Mapping[str, Any], now: datetime, run_id: str, user: str
) -> list[DryStep]:
    """All steps, then the handlers; raises Invalid for params, and TemplateFailed."""
    params = check_start(flow, given)
    moment = format_instant(now.replace(microsecond=0))
    facts = {
        "schedule": {"id": "", "name": flow.name, "due_at": moment, "tz": "UTC"},
        "run": {"id": run_id, "origin": "manual", "trigger": "manual"},
        **dict.fromkeys(("due_at", "now"), moment),
        "namespace": "default",
        "user": user,
        "requested_by": user,
        "interval": interval_texts(None),
    }
    templates = [text for part in _parts(flow) for text in texts_of(part)]
    worker = {name: f"${{{name}}}" for text in templates for name in named_variables(text)}
    ends = {step.name: _end(step, templates) for step in flow.steps}
    files = {step.output: f"<file of {step.output}>" for step in flow.steps if step.output}
    printed = {str(n): f"<output of {each.command}>" for n, each in enumerate(flow.computed)}
    values = Values(params, ends, facts, "<status of the flow>", files, computed=printed)
    return [_dry(flow, step, values, worker) for step in flow.all_steps()]


def _end(step: Step, templates: Iterable[str]) -> StepEnd:
    """A stand-in for how a step will end."""
    status: Any = f"<status of {step.name}>"
    code: Any = f"<exit code of {step.name}>"
    return StepEnd(status, code, _output(step, templates))


def _parts(flow: Flow) -> Iterator[Any]:
    """Everything that may contain templates."""
    yield [param.default for param in flow.params]
    yield dict(flow.env)
    for step in flow.all_steps():
        yield templates_of(step)


def _output(step: Step, templates: Iterable[str]) -> Any:
    """A stand-in for the output of a step, with the parts that other steps refer to."""
    whole = f"<output of {step.name}>"
    names = {step.name, step.id or step.name, identifier(step.name)}
    found: Any = whole
    for text in templates:
        for head, name, path in _PATHS.findall(text):
            is_it = name == step.output if head == "data" else name in names
            if is_it and (keys := _KEY.findall(path)):
                found = _with_part(found, [a or b or c for a, b, c in keys], whole)
    return found


def _with_part(value: Any, path: list[str], whole: str) -> Any:
    """The value with a stand-in at a path; a list or mapping already there is kept."""
    if not path:
        return value if isinstance(value, dict | list) else whole
    first, *rest = path
    if first.isdigit():
        items = value if isinstance(value, list) else []
        items += [whole] * (int(first) + 1 - len(items))
        items[int(first)] = _with_part(items[int(first)], rest, f"{whole}[{first}]")
        return items
    parts = value if isinstance(value, dict) else {}
    return {**parts, first: _with_part(parts.get(first), rest, f"{whole}.{first}")}


def _dry(flow: Flow, step: Step, values: Values, worker: Mapping[str, str]) -> DryStep:
    secrets = references_to(step_secrets(flow, step, values.params))
    parallel = step.parallel
    if parallel is not None and isinstance(parallel.items, str):  # only a run has their number
        parallel = replace(parallel, items=[f"<each of {readable(parallel.items)}>"])
    rendered = render_step(
        flow, replace(step, parallel=parallel), replace(values, secrets=secrets), worker
    )
    target = rendered.target
    if parallel is not None and isinstance(target, FlowTarget):
        target = replace(target, name=str(step.target).removeprefix("flow "))
    shown = {name for name, _ in (*flow.env, *step.env)} | {param.name for param in flow.params}
    if isinstance(step.target, Script):
        shown |= {name for name, _ in step.target.values}
    if not isinstance(target, CommandTarget):
        shown = set()
    written = {part_variable(name): name for name in _references(step.written)}
    variables = tuple(
        (written.get(name, name), text) for name, text in rendered.variables if name in shown
    )
    script, filled = None, None
    if isinstance(step.target, Script) and isinstance(target, CommandTarget):
        script = step.written
        if is_shell(step.target.interpreter):
            places = target.argv[len(step.target.interpreter) + 2 :]
            numbered = {str(place): text for place, text in enumerate(places, 1)}
            filled = _filled(script, dict(rendered.variables) | numbered, worker.values())
    hide = hiding(variable_secrets(rendered.variables))
    return DryStep(
        step.name,
        step.depends,
        _shown(target, hide),
        None if script is None else "\n".join(hide_in_lines(script.split("\n"))),
        None if filled is None else hide(filled),
        hide_in(show_payload(rendered.payload), hide),
        tuple(replace(one, text=hide(one.text)) for one in rendered.conditions),
        tuple((name, hide(text)) for name, text in show_payload(dict(variables)).items()),
    )


def _shown(
    target: Target | FlowTarget | HumanTask, hide: Callable[[str], str]
) -> Target | FlowTarget | HumanTask:
    """The target without secrets; variables are listed separately."""
    if not isinstance(target, CommandTarget):
        return target.masked()
    env = show_payload(dict(target.env))
    argv = tuple(hide(text) for text in target.argv)
    return replace(target, argv=argv, env=tuple((name, hide(env[name])) for name in env))


def _filled(text: str, values: Mapping[str, str], worker: Iterable[str]) -> str | None:
    """A line for a shell as it acts with these values, each one word or the words that the shell
    splits it into; None where nothing would change, or where a shell does more than that."""
    line = text.strip()
    if "\n" in line or _MORE.search(line):
        return None
    own, pieces, place = tuple(worker), list[str](), 0
    for match, quote in shell_references(line):
        name = reference_name(match)
        value = values.get(name if name.isdigit() else part_variable(name))
        if value is None or quote == "'":
            continue
        pieces += [line[place : match.start()], _inserted(value, quote, own)]
        place = match.end()
    return "".join(pieces) + line[place:] if pieces else None


def _references(text: str) -> list[str]:
    return [reference_name(match) for match, _ in shell_references(text)]


def _inserted(value: str, quote: str, worker: tuple[str, ...]) -> str:
    if _UNKNOWN.search(value) or any(text in value for text in worker):
        return value  # only a run has it
    if quote:
        return re.sub(r'(["\\$`])', r"\\\1", value)
    return " ".join(map(shlex.quote, value.split()))
