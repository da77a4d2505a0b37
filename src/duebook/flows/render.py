"""Fills the values of a run into a step: templates, variables and arguments; starts nothing.

Values reach a command as its environment or as whole arguments. No value is parsed again, by a
shell or as a template.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import shorten
from duebook.flows.computed import computed_context
from duebook.flows.each import each_target, with_item
from duebook.flows.flow_values import (
    Values,
    flow_params,
    flow_variables,
    parse_json,
    render_text,
    texts_of,
    with_missing,
)
from duebook.flows.param_values import text_of_value
from duebook.flows.references import exit_code_variable, identifier
from duebook.flows.variables import (
    named_files,
)
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow import CHECK, COMPUTE, FlowTarget, HumanTask, Script, is_shell
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
"""Bytes that a flow may pass to a program; the kernel allows two million with the node's own."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A step as it is executed; its target has no templates left."""

    target: Target | FlowTarget | HumanTask
    payload: dict[str, Any]
    conditions: tuple[Condition, ...]
    variables: tuple[tuple[str, str], ...]
    """all that the flow gives the command and its conditions, in addition to what the node has"""
    container: Container | None = None
    stdout: str | None = None
    stderr: str | None = None


def render_step(flow: Flow, step: Step, values: Values, inherited: Mapping[str, str]) -> Rendered:
    """The step with its values; `inherited` are the variables of the node that runs it.

    Raises TemplateFailed, which names the part.
    """
    made = _render_step(flow, step, values, inherited)
    if values.secrets:
        others = {name: f"<{name}>" for name in values.secrets}
        shown = _render_step(flow, step, replace(values, secrets=others), inherited)
        _refuse_exposed(made, shown)
    return made


def _refuse_exposed(made: Rendered, shown: Rendered) -> None:
    """Raises TemplateFailed when a secret has got, through a variable or a param, into a part that
    others can read or that chooses what runs. `shown` is the same step with other values for
    secrets."""
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
    """Whether the rendered step is only executed, and never stored."""
    stored = (CHECK, COMPUTE)
    return step.name not in stored and not isinstance(
        step.target, EventTarget | FlowTarget | HumanTask
    )


def step_secrets(flow: Flow, step: Step, given: Mapping[str, Any]) -> set[str]:
    """The secrets that a step gets: its own, and those of its flow unless a param is given
    instead."""
    defaults = [param.default for param in flow.params if param.name not in given]
    target = None if isinstance(step.target, Script) else step.target.to_json()
    inside = {} if step.container is None else dict(step.container.env)
    parts = [defaults, dict(flow.env), dict(step.env), inside, step.payload, target]
    return names_in([part for part in parts if part])


def flow_secrets(flow: Flow) -> set[str]:
    """The secrets that any step of a flow may get."""
    return {name for step in flow.all_steps() for name in step_secrets(flow, step, {})}


def _render_step(flow: Flow, step: Step, values: Values, inherited: Mapping[str, str]) -> Rendered:
    facts = {**values.facts, "secret": dict(values.secrets)}
    if flow.computed:
        facts |= computed_context(flow, values)
    values = replace(values, facts=facts)
    params = flow_params(flow, values, inherited)
    own = flow_variables(flow, params, values, inherited)
    own |= _endings(flow, step, values)
    context = _context(flow, step, values, params, {**inherited, **own})
    for name, template in step.env:
        own[name] = render_text(f"env {name}", template, context)
        context["vars"][name] = own[name]
    if step.container is not None:
        for name, template in step.container.env:
            own[name] = render_text(f"container.env {name}", template, context)
    target, own = _target(flow, step, params, own, context)
    says = step.stop_signal is not None or flow.stop_grace is not None
    if says and isinstance(target, CommandTarget):
        target = replace(target, stop_signal=step.stop_signal, stop_grace=flow.stop_grace)
    conditions = tuple(_condition(condition, context) for condition in step.preconditions)
    payload = render_value("payload", step.payload, with_missing(context, texts_of(step.payload)))
    variables = tuple((name, value) for name, value in own.items() if not name.isdigit())
    return Rendered(
        target,
        payload,
        conditions,
        variables,
        None if step.container is None else _container(step.container, context),
        None if step.stdout is None else render_text("stdout", step.stdout, context),
        None if step.stderr is None else render_text("stderr", step.stderr, context),
    )


def _container(container: Container, context: dict[str, Any]) -> Container:
    def filled(text: str | None) -> str | None:
        return None if text is None else render_text("container", text, context)

    return replace(
        container,
        image=filled(container.image),
        name=filled(container.name),
        options=tuple(render_text("container", text, context) for text in container.options),
        user=filled(container.user),
        cwd=filled(container.cwd),
        volumes=tuple(render_text("volumes", text, context) for text in container.volumes),
    )


def _endings(flow: Flow, step: Step, values: Values) -> dict[str, str]:
    """The outputs and exit codes of other steps, and the variables that Dagu's scripts expect."""
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
        other.output: parse_json(values.ends[other.name].output)
        for other in sorted(flow.all_steps(), key=lambda step: _has_output(step, values))
        if other.output is not None and other.name in values.ends
    }
    parsed = {key: parse_json(value) for key, value in params.items()}
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
    """Sorts steps that share a variable: those that were skipped come first, and do not count."""
    end = values.ends.get(step.name)
    return end is not None and end.output is not None


def _file(name: str, output: Any, files: Mapping[str, str]) -> Any:
    """The value of ${NAME.file}: the `file` part of an output, or else a file with the output."""
    if isinstance(output, dict) and "file" in output:
        return output["file"]
    return files.get(name, "")


def _steps(flow: Flow, values: Values) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for step in flow.all_steps():
        end = values.ends.get(step.name)
        if end is None:
            continue
        parts = {"status": end.status, "exit_code": end.exit_code, "output": parse_json(end.output)}
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
        rendered = render_value("params", given, with_missing(context, texts_of(given)))
        return FlowTarget(target.name, tuple(rendered.items())), own
    if isinstance(target, HumanTask):
        return HumanTask(render_text("prompt", target.prompt, context)), own
    if isinstance(target, Script):
        for name, template in target.values:
            own[name] = render_text(f"${{{name}}}", template, context)
        argv = (*target.interpreter, target.text, *_arguments(flow, target, params))
        _check_arguments(argv, own, flow)
        own = _that_fit(own, target.text, flow, step)
        return CommandTarget(argv, env=tuple(own.items()), cwd=_cwd(target.cwd, context)), own
    filled = with_missing(context, texts_of(target.to_json()))
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
        own = with_item(context, item, text_of_value(item), parse_json(item))
        return dict(render_value("params", given, with_missing(own, texts_of(given))))

    items = render_value(
        "parallel", parallel.items, with_missing(context, texts_of(parallel.items))
    )
    return each_target(target, items, parallel.limit, params_of)


def _arguments(flow: Flow, script: Script, params: Mapping[str, Any]) -> list[str]:
    """The params that are given by position. A shell takes its own name first; other interpreters
    read options even after the text: `perl -e TEXT -e MORE`."""
    places = {int(param.name): param.name for param in flow.params if param.name.isdigit()}
    if not places:
        return []
    first = ["duebook"] if is_shell(script.interpreter) else []
    if script.interpreter[-1] in ("-e", "-r"):
        first = ["--"]
    numbers = range(1, max(places) + 1)  # a param with a name leaves its position empty
    return [*first, *(text_of_value(params.get(str(number))) for number in numbers)]


def _that_fit(own: dict[str, str], text: str, flow: Flow, step: Step) -> dict[str, str]:
    """As many variables as can be passed to a program: those that the step names, then short ones.

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
    """How to get a value that is too large: an output as the file that contains it."""
    outputs = {step.output for step in flow.all_steps() if step.output is not None}
    if name in outputs:
        return f"use ${{{name}.file}}, the name of a file that contains it"
    for output in sorted(outputs & own.keys()):
        if size_of(own[output]) > LONGEST_VARIABLE and own[output] in value:
            return f"use ${{{output}.file}}, the name of a file that contains {output}"
    return "put it in a file, and pass the file name"


def _cwd(template: str | None, context: dict[str, Any]) -> str | None:
    return None if template is None else render_text("working_dir", template, context)


def _condition(condition: Condition, context: dict[str, Any]) -> Condition:
    expected, is_data = condition.expected, False
    if expected is not None and not expected.startswith("re:"):
        expected, is_data = render_text("expected", expected, context), True
    text = condition.text
    if not condition.is_command:
        text = render_text("condition", text, context)
    return replace(condition, text=text, expected=expected, is_data=is_data)


def templates_of(step: Step) -> list[str]:
    """All strings of a step that may contain templates."""
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
    """Whether a step may use the output of another; a mention of it anywhere counts."""
    texts = templates_of(step)
    if isinstance(step.target, Script):
        texts.append(step.target.text)
    names = {other.name, other.id, other.output, identifier(other.name)} - {None}
    return any(name in text for text in texts for name in names if name is not None)
