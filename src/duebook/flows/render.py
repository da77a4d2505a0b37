"""Puts the values of a run into a step: templates, variables and arguments; starts nothing.

Values reach a command as its environment or as whole arguments. No value is read again, by a
shell or as a template.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.flows.problems import did_you_mean
from duebook.flows.variables import (
    exit_code_variable,
    identifier,
    named_files,
    named_variables,
)
from duebook.model.flow import FlowTarget, Script, is_shell
from duebook.model.flow_run import Apart
from duebook.model.secret import show_payload
from duebook.model.target import CommandTarget
from duebook.targets.command import LONGEST_VARIABLE, size_of
from duebook.targets.templates import TemplateFailed, render_target, render_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from duebook.model.flow import Condition, Flow, Param, Step
    from duebook.model.flow_run import StepEnd
    from duebook.model.target import Target

__all__ = [
    "Rendered",
    "Values",
    "check_params",
    "names_output",
    "render_step",
    "templates_of",
    "texts_of",
    "wanted_files",
]

MOST_VARIABLES: Final = 1_000_000
"""Bytes of all that a flow gives to a program: the kernel takes two million with the node's own."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a run of a flow knows when a step begins."""

    params: Mapping[str, Any] = field(default_factory=dict)
    """as given: data, and never a template"""
    ends: Mapping[str, StepEnd] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """schedule, run, due_at, now, namespace and user, as templates of schedules have them"""
    status: str = ""
    """how the flow ended, for a handler"""
    files: Mapping[str, str] = field(default_factory=dict)
    """by output: a file that has it, of those that `wanted_files` names"""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A step as it is executed; its target has no templates any more."""

    target: Target | FlowTarget
    payload: dict[str, Any]
    conditions: tuple[Condition, ...]
    variables: tuple[tuple[str, str], ...]
    """all that the flow gives the command and its conditions, beside what the node has"""


def check_params(flow: Flow, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given at a start, by the types that the flow says; raises Invalid.

    Only params that the flow has may be given.
    """
    params = {param.name: param for param in flow.params}
    for name in given:
        if name not in params:
            hint = did_you_mean(str(name), params) or f"it has {', '.join(params) or 'none'}"
            raise Invalid(f'flow "{flow.name}" has no param "{shorten(name)}"; {hint}')
    for param in flow.params:
        if param.default is None and param.name not in given:
            raise Invalid(f'param "{param.name}" is required')
    return {name: _typed(params[name], value) for name, value in given.items()}


def _typed(param: Param, value: Any) -> Any:
    if isinstance(value, str) and "\0" in value:
        raise Invalid(f'param "{param.name}" contains NUL')
    kinds: dict[str, Callable[[Any], bool]] = {
        "text": lambda v: isinstance(v, str),
        "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
        "number": _is_number,
        "boolean": lambda v: isinstance(v, bool),
        "any": lambda _: True,
    }
    found = value
    if isinstance(value, str) and param.kind not in ("text", "any"):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = value
    if not kinds[param.kind](found):
        kind = "boolean: true or false" if param.kind == "boolean" else param.kind
        raise Invalid(f'param "{param.name}" {shorten(_told(param, value))} is not a valid {kind}')
    if param.choices and found not in param.choices:
        known = ", ".join(_text(_told(param, choice)) for choice in param.choices)
        raise Invalid(f'param "{param.name}" {shorten(_told(param, value))} is not one of {known}')
    return found


def _told(param: Param, value: Any) -> Any:
    """A value of a param as a message may repeat it."""
    return show_payload({param.name: value})[param.name]


def _is_number(value: Any) -> bool:
    """JSON has no infinite ones, although Python reads them."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def render_step(flow: Flow, step: Step, values: Values, inherited: Mapping[str, str]) -> Rendered:
    """The step with its values; `inherited` are the variables of the node that performs it.

    Raises TemplateFailed that names the part.
    """
    params = _params(flow, values, inherited)
    own = _flow_variables(flow, params, values, inherited)
    own |= _endings(flow, step, values)
    context = _context(flow, step, values, params, {**inherited, **own})
    for name, template in step.env:
        own[name] = _rendered(f"env {name}", template, context)
        context["vars"][name] = own[name]
    target, own = _target(flow, step, params, own, context)
    conditions = tuple(_condition(condition, context) for condition in step.preconditions)
    payload = render_value("payload", step.payload, _filled(context, texts_of(step.payload)))
    variables = tuple((name, value) for name, value in own.items() if not name.isdigit())
    return Rendered(target, payload, conditions, variables)


def _params(flow: Flow, values: Values, inherited: Mapping[str, str]) -> dict[str, Any]:
    context = {**values.facts, "vars": dict(inherited), "env": dict(inherited)}
    found: dict[str, Any] = {}
    for param in flow.params:
        if param.name in values.params:
            found[param.name] = _typed(param, values.params[param.name])
        else:
            at = f"param {param.name}"
            default = param.default
            found[param.name] = render_value(at, default, _filled(context, texts_of(default)))
    return found


def _flow_variables(
    flow: Flow, params: Mapping[str, Any], values: Values, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Those of `env` in their order; params win over them."""
    given = {name: _text(value) for name, value in params.items()}
    own: dict[str, str] = {}
    for name, template in flow.env:
        context = {
            **values.facts,
            "params": params,
            "vars": {**inherited, **own, **given},
            "env": {**inherited, **own},
            "data": {key: _parsed(value) for key, value in params.items()},
        }
        own[name] = _rendered(f"env {name}", template, context)
    return {**own, **given}


def _endings(flow: Flow, step: Step, values: Values) -> dict[str, str]:
    """The outputs and exit codes of other steps, and what Dagu's scripts look for."""
    found: dict[str, str] = {}
    for other in flow.all_steps():
        end = values.ends.get(other.name)
        if end is None:
            continue
        if other.output is not None and not isinstance(end.output, Apart):
            found[other.output] = "" if end.output is None else _text(end.output)
        if end.exit_code is not None:
            found[exit_code_variable(other.name)] = str(end.exit_code)
    run = values.facts.get("run", {})
    found |= {"DAG_NAME": flow.name, "DAG_RUN_STEP_NAME": step.name}
    found |= {"DAG_RUN_ID": run["id"]} if "id" in run else {}
    found |= {"DAG_RUN_STATUS": values.status} if values.status else {}
    return found


def _context(
    flow: Flow,
    step: Step,
    values: Values,
    params: Mapping[str, Any],
    variables: dict[str, str],
) -> dict[str, Any]:
    outputs = {
        other.output: _parsed(values.ends[other.name].output)
        for other in flow.all_steps()
        if other.output is not None and other.name in values.ends
    }
    parsed = {key: _parsed(value) for key, value in params.items()}
    return {
        **values.facts,
        "flow": {"name": flow.name, "status": values.status},
        "step": {"name": step.name},
        "params": params,
        "vars": variables,
        "env": variables,
        "data": {**parsed, **outputs},
        "files": {name: _file(name, value, values.files) for name, value in outputs.items()},
        "steps": _steps(flow, values),
    }


def _file(name: str, output: Any, files: Mapping[str, str]) -> Any:
    """What ${NAME.file} is: that part of an output which has one, else a file with the output."""
    if isinstance(output, dict) and "file" in output:
        return output["file"]
    return files.get(name, "")


def _steps(flow: Flow, values: Values) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for step in flow.all_steps():
        end = values.ends.get(step.name)
        if end is None:
            continue
        parts = {"status": end.status, "exit_code": end.exit_code, "output": _parsed(end.output)}
        known = {name: value for name, value in parts.items() if value is not None}
        for name in (step.name, step.id or step.name):
            found[identifier(name)] = found[name] = known
    return found


def _target(
    flow: Flow,
    step: Step,
    params: Mapping[str, Any],
    own: dict[str, str],
    context: dict[str, Any],
) -> tuple[Target | FlowTarget, dict[str, str]]:
    target = step.target
    if isinstance(target, FlowTarget):
        given = dict(target.params)
        rendered = render_value("params", given, _filled(context, texts_of(given)))
        return FlowTarget(target.name, tuple(rendered.items())), own
    if isinstance(target, Script):
        for name, template in target.values:
            own[name] = _rendered(f"${{{name}}}", template, context)
        argv = (*target.interpreter, target.text, *_arguments(flow, target, params))
        _check_arguments(argv, own, flow)
        own = _that_fit(own, target.text, flow, step)
        return CommandTarget(argv, env=tuple(own.items()), cwd=_cwd(target.cwd, context)), own
    filled = _filled(context, texts_of(target.to_json()))
    found = render_target(target, filled)
    if isinstance(found, CommandTarget):
        _check_arguments(found.argv, own, flow)
        own = _that_fit(own, "", flow, step)
        found = replace(found, env=tuple(own.items()), cwd=_cwd(found.cwd, context))
    return found, own


def _arguments(flow: Flow, script: Script, params: Mapping[str, Any]) -> list[str]:
    """The params that are given by their place; a shell takes its own name first, and others read
    options behind a text, too: `perl -e TEXT -e MORE`."""
    places = [param.name for param in flow.params if param.name.isdigit()]
    if not places:
        return []
    first = ["duebook"] if is_shell(script.interpreter) else []
    if script.interpreter[-1] in ("-e", "-r"):
        first = ["--"]
    return [*first, *(_text(params[place]) for place in places)]


def _that_fit(own: dict[str, str], text: str, flow: Flow, step: Step) -> dict[str, str]:
    """As many variables as a program can be given: those that the step names, then short ones.

    Raises TemplateFailed when those that it names are too large.
    """
    named = {*re.findall(r"\w+", text), *(name for name, _ in step.env)}
    kept, room = set[str](), MOST_VARIABLES
    for name in sorted(own, key=lambda name: (name not in named, size_of(own[name]))):
        size = size_of(own[name])
        if name.isdigit():
            continue
        if size <= min(LONGEST_VARIABLE, room):
            kept.add(name)
            room -= size + len(name)
        elif name in named:
            told = f"{name} has {size:,} bytes, too many for a variable of a program"
            raise TemplateFailed(f"{told}; {_instead(name, own[name], own, flow)}")
    return {name: value for name, value in own.items() if name in kept}


def _check_arguments(argv: Iterable[str], own: Mapping[str, str], flow: Flow) -> None:
    for argument in argv:
        if (size := size_of(argument)) > LONGEST_VARIABLE:
            told = f'"{shorten(argument)}" has {size:,} bytes, too many for an argument'
            raise TemplateFailed(f"{told}; {_instead(None, argument, own, flow)}")


def _instead(name: str | None, value: str, own: Mapping[str, str], flow: Flow) -> str:
    """How a value that is too large can be had: an output as the file that has it."""
    outputs = {step.output for step in flow.all_steps() if step.output is not None}
    if name in outputs:
        return f"use ${{{name}.file}}, the name of a file that contains it"
    for output in sorted(outputs & own.keys()):
        if size_of(own[output]) > LONGEST_VARIABLE and own[output] in value:
            return f"use ${{{output}.file}}, the name of a file that contains {output}"
    return "put it in a file, and pass the file name"


def _cwd(template: str | None, context: dict[str, Any]) -> str | None:
    return None if template is None else _rendered("working_dir", template, context)


def _condition(condition: Condition, context: dict[str, Any]) -> Condition:
    expected, is_data = condition.expected, False
    if expected is not None and not expected.startswith("re:"):
        expected, is_data = _rendered("expected", expected, context), True
    text = condition.text
    if not condition.is_command:
        text = _rendered("condition", text, context)
    return replace(condition, text=text, expected=expected, is_data=is_data)


def _rendered(place: str, template: str, context: dict[str, Any]) -> str:
    made = render_value(place, template, _filled(context, [template]))
    text = _text(made)
    if "\0" in text:
        raise TemplateFailed(f"{place}: the result contains NUL")
    return text


def _filled(context: Mapping[str, Any], templates: Iterable[str]) -> dict[str, Any]:
    """A variable that nobody set is empty, as in a shell."""
    names = {name for template in templates for name in named_variables(template)}
    variables = context.get("vars", {})
    missing = {name: "" for name in names if name not in variables}
    return {**context, "vars": {**variables, **missing}} if missing else dict(context)


def templates_of(step: Step) -> list[str]:
    """All texts of a step that may have templates in them."""
    target = step.target
    if isinstance(target, Script):
        form: Any = [target.cwd, dict(target.values)]
    else:
        form = target.to_json()
    conditions = [[condition.text, condition.expected] for condition in step.preconditions]
    return texts_of([form, step.payload, dict(step.env), conditions])


def wanted_files(step: Step) -> set[str]:
    """The outputs that a step wants as files."""
    return {name for text in templates_of(step) for name in named_files(text)}


def names_output(step: Step, other: Step) -> bool:
    """Whether a step may name what another returned; a mention of it anywhere counts."""
    texts = templates_of(step)
    if isinstance(step.target, Script):
        texts.append(step.target.text)
    names = {other.name, other.id, other.output, identifier(other.name)} - {None}
    return any(name in text for text in texts for name in names if name is not None)


def texts_of(value: Any) -> list[str]:
    """All texts of a JSON value."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in texts_of(item)]
        case list() | tuple():
            return [text for item in value for text in texts_of(item)]
    return []


def _parsed(value: Any) -> Any:
    """A text that is a JSON object or list, as such; nothing for an output that was not read."""
    if isinstance(value, Apart):
        return None
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
