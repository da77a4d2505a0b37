"""Puts the values of a run into a step: templates, variables and arguments; starts nothing.

Values reach a command as its environment or as whole arguments. No value is read again, by a
shell or as a template.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import shorten
from duebook.flows.each import each_target, with_item
from duebook.flows.param_values import text_of_value, typed
from duebook.flows.references import exit_code_variable, identifier
from duebook.flows.variables import (
    named_files,
    named_variables,
)
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import CHECK, FlowTarget, HumanTask, Script, is_shell
from duebook.model.flow_run import Apart
from duebook.model.http_target import HttpTarget, origin_of
from duebook.model.secret_values import names_in
from duebook.model.target import CommandTarget, EventTarget
from duebook.targets.command import LONGEST_VARIABLE, size_of
from duebook.targets.programs import steers
from duebook.targets.templates import (
    TemplateFailed,
    refuse_in_arguments,
    render_target,
    render_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duebook.model.flow import Condition, Container, Flow, Parallel, Step
    from duebook.model.flow_run import StepEnd
    from duebook.model.target import Target

__all__ = [
    "Rendered",
    "Values",
    "flow_secrets",
    "keeps_secrets",
    "names_output",
    "render_step",
    "step_secrets",
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
    secrets: Mapping[str, str] = field(default_factory=dict)
    """by name, of those that `step_secrets` names: the value, or a reference where that stays"""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A step as it is executed; its target has no templates any more."""

    target: Target | FlowTarget | HumanTask
    payload: dict[str, Any]
    conditions: tuple[Condition, ...]
    variables: tuple[tuple[str, str], ...]
    """all that the flow gives the command and its conditions, beside what the node has"""
    container: Container | None = None
    stdout: str | None = None
    stderr: str | None = None


def render_step(flow: Flow, step: Step, values: Values, inherited: Mapping[str, str]) -> Rendered:
    """The step with its values; `inherited` are the variables of the node that performs it.

    Raises TemplateFailed that names the part.
    """
    made = _render_step(flow, step, values, inherited)
    if values.secrets:
        others = {name: f"<{name}>" for name in values.secrets}
        shown = _render_step(flow, step, replace(values, secrets=others), inherited)
        _refuse_exposed(made, shown)
    return made


def _refuse_exposed(made: Rendered, shown: Rendered) -> None:
    """Raises TemplateFailed when a secret has got, through a variable or a param, into what others
    can read or what chooses what runs: `shown` is the same step with other values for secrets."""
    if not isinstance(made.target, HumanTask) and not isinstance(shown.target, HumanTask):
        refuse_in_arguments(made.target, shown.target)
    exposed = {
        "working_dir": _cwd_of(made) != _cwd_of(shown),
        "http url, before its path,": _origin_of(made) != _origin_of(shown),
        "env of a variable that decides which programs run": _steering(made) != _steering(shown),
        "a condition": made.conditions != shown.conditions,
        "event": isinstance(made.target, EventTarget) and made.target != shown.target,
        "prompt": isinstance(made.target, HumanTask) and made.target != shown.target,
        "params of a called flow": isinstance(made.target, FlowTarget)
        and made.target != shown.target,
    }
    for place, is_exposed in exposed.items():
        if is_exposed:
            raise TemplateFailed(
                f"{place} would contain a secret, and is stored or logged; name secrets in env, "
                "in a payload, or in the headers and body of a request"
            )


def _steering(rendered: Rendered) -> list[tuple[str, str]]:
    return [(name, text) for name, text in rendered.variables if steers(name)]


def _cwd_of(rendered: Rendered) -> str | None:
    return rendered.target.cwd if isinstance(rendered.target, CommandTarget) else None


def _origin_of(rendered: Rendered) -> str | None:
    return origin_of(rendered.target.url) if isinstance(rendered.target, HttpTarget) else None


def keeps_secrets(step: Step) -> bool:
    """Whether what a step becomes is only executed, and never stored."""
    return step.name != CHECK and not isinstance(step.target, EventTarget | FlowTarget | HumanTask)


def step_secrets(flow: Flow, step: Step, given: Mapping[str, Any]) -> set[str]:
    """The secrets that a step gets: those of its flow, unless a param is given, and its own."""
    defaults = [param.default for param in flow.params if param.name not in given]
    target = None if isinstance(step.target, Script) else step.target.to_json()
    inside = {} if step.container is None else dict(step.container.env)
    parts = [defaults, dict(flow.env), dict(step.env), inside, step.payload, target]
    return names_in([part for part in parts if part])


def flow_secrets(flow: Flow) -> set[str]:
    """The secrets that any step of a flow may get."""
    return {name for step in flow.all_steps() for name in step_secrets(flow, step, {})}


def _render_step(flow: Flow, step: Step, values: Values, inherited: Mapping[str, str]) -> Rendered:
    values = replace(values, facts={**values.facts, "secret": dict(values.secrets)})
    params = _params(flow, values, inherited)
    own = _flow_variables(flow, params, values, inherited)
    own |= _endings(flow, step, values)
    context = _context(flow, step, values, params, {**inherited, **own})
    for name, template in step.env:
        own[name] = _rendered(f"env {name}", template, context)
        context["vars"][name] = own[name]
    if step.container is not None:
        for name, template in step.container.env:
            own[name] = _rendered(f"container.env {name}", template, context)
    target, own = _target(flow, step, params, own, context)
    if isinstance(target, CommandTarget):
        target = replace(target, stop_signal=step.stop_signal, stop_grace=flow.stop_grace)
    conditions = tuple(_condition(condition, context) for condition in step.preconditions)
    payload = render_value("payload", step.payload, _filled(context, texts_of(step.payload)))
    variables = tuple((name, value) for name, value in own.items() if not name.isdigit())
    return Rendered(
        target,
        payload,
        conditions,
        variables,
        None if step.container is None else _container(step.container, context),
        None if step.stdout is None else _rendered("stdout", step.stdout, context),
        None if step.stderr is None else _rendered("stderr", step.stderr, context),
    )


def _container(container: Container, context: dict[str, Any]) -> Container:
    def filled(text: str | None) -> str | None:
        return None if text is None else _rendered("container", text, context)

    return replace(
        container,
        image=filled(container.image),
        name=filled(container.name),
        options=tuple(_rendered("container", text, context) for text in container.options),
        user=filled(container.user),
        cwd=filled(container.cwd),
        volumes=tuple(_rendered("volumes", text, context) for text in container.volumes),
    )


def _params(flow: Flow, values: Values, inherited: Mapping[str, str]) -> dict[str, Any]:
    context = {**values.facts, "vars": dict(inherited), "env": dict(inherited)}
    found: dict[str, Any] = {}
    for param in flow.params:
        if param.name in values.params:
            found[param.name] = typed(param, values.params[param.name])
        else:
            at = f"param {param.name}"
            default = param.default
            found[param.name] = render_value(at, default, _filled(context, texts_of(default)))
    return found


def _flow_variables(
    flow: Flow, params: Mapping[str, Any], values: Values, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Those of `env` in their order; params win over them."""
    given = {name: text_of_value(value) for name, value in params.items()}
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
            is_later = other.output in found and end.output is None  # it did not run
            if not is_later:
                found[other.output] = "" if end.output is None else text_of_value(end.output)
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
        for other in sorted(flow.all_steps(), key=lambda step: _has_output(step, values))
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


def _has_output(step: Step, values: Values) -> bool:
    """Of steps that share a variable, those that were skipped come first, and do not count."""
    end = values.ends.get(step.name)
    return end is not None and end.output is not None


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
) -> tuple[Target | FlowTarget | HumanTask, dict[str, str]]:
    target = step.target
    if isinstance(target, FlowTarget):
        given = dict(target.params)
        if step.parallel is not None:
            return _for_each(target, step.parallel, given, context), own
        rendered = render_value("params", given, _filled(context, texts_of(given)))
        return FlowTarget(target.name, tuple(rendered.items())), own
    if isinstance(target, HumanTask):
        return HumanTask(_rendered("prompt", target.prompt, context)), own
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


def _for_each(
    target: FlowTarget,
    parallel: Parallel,
    given: Mapping[str, Any],
    context: dict[str, Any],
) -> FlowTarget:
    def params_of(item: Any) -> dict[str, Any]:
        own = with_item(context, item, text_of_value(item), _parsed(item))
        return dict(render_value("params", given, _filled(own, texts_of(given))))

    items = render_value("parallel", parallel.items, _filled(context, texts_of(parallel.items)))
    return each_target(target, items, parallel.limit, params_of)


def _arguments(flow: Flow, script: Script, params: Mapping[str, Any]) -> list[str]:
    """The params that are given by their place; a shell takes its own name first, and others read
    options behind a text, too: `perl -e TEXT -e MORE`."""
    places = {int(param.name): param.name for param in flow.params if param.name.isdigit()}
    if not places:
        return []
    first = ["duebook"] if is_shell(script.interpreter) else []
    if script.interpreter[-1] in ("-e", "-r"):
        first = ["--"]
    numbers = range(1, max(places) + 1)  # one that has a name leaves its place empty
    return [*first, *(text_of_value(params.get(str(number))) for number in numbers)]


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
    text = text_of_value(made)
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
    files = [text for text in (step.stdout, step.stderr) if text is not None]
    inside = [] if step.container is None else asdict(step.container)
    items = [] if step.parallel is None else step.parallel.items
    return texts_of([form, step.payload, dict(step.env), conditions, files, inside, items])


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
