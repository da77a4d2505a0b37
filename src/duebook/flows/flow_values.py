"""The values of a flow's params and variables in a run, from templates; starts nothing."""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING, Any

from duebook.flows.param_values import text_of_value, typed
from duebook.flows.variables import named_variables
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow_run import Apart
from duebook.targets.templates import TemplateFailed, render_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duebook.model.flow import Flow
    from duebook.model.flow_run import StepEnd

__all__ = [
    "Values",
    "flow_params",
    "flow_variables",
    "parse_json",
    "render_text",
    "texts_of",
    "with_missing",
]


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
    computed: Mapping[str, str] = field(default_factory=dict)
    """what the commands in params and env of the flow printed, by their number"""


def flow_params(flow: Flow, values: Values, inherited: Mapping[str, str]) -> dict[str, Any]:
    context = {**values.facts, "vars": dict(inherited), "env": dict(inherited)}
    found: dict[str, Any] = {}
    for param in flow.params:
        if param.name in values.params:
            found[param.name] = typed(param, values.params[param.name])
        else:
            at = f"param {param.name}"
            default = param.default
            found[param.name] = render_value(at, default, with_missing(context, texts_of(default)))
    return found


def flow_variables(
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
            "data": {key: parse_json(value) for key, value in params.items()},
        }
        own[name] = render_text(f"env {name}", template, context)
    return {**own, **given}


def render_text(place: str, template: str, context: dict[str, Any]) -> str:
    made = render_value(place, template, with_missing(context, [template]))
    text = text_of_value(made)
    if "\0" in text:
        raise TemplateFailed(f"{place}: the result contains NUL")
    return text


def with_missing(context: Mapping[str, Any], templates: Iterable[str]) -> dict[str, Any]:
    """A variable that nobody set is empty, as in a shell."""
    names = {name for template in templates for name in named_variables(template)}
    variables = context.get("vars", {})
    missing = {name: "" for name in names if name not in variables}
    return {**context, "vars": {**variables, **missing}} if missing else dict(context)


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


def parse_json(value: Any) -> Any:
    """A text that is a JSON object or list, as such; nothing for an output that was not read."""
    if isinstance(value, Apart):
        return None
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
