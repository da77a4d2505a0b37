"""Commands in the params and env of a flow: found when it is read, executed once in each run.

Templates name what they printed by its number. Whatever a command gets are variables; it never
gets a secret, for what it prints is stored. It may depend on any of them, so it never chooses what
runs.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.flows.bash_only import condition_for
from duebook.flows.flow_values import flow_params, flow_variables
from duebook.flows.param_values import text_of_value, typed
from duebook.flows.variables import fixed_shell_text
from duebook.model.flow import Computed
from duebook.targets.templates import TemplateFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from duebook.flows.flow_values import Values
    from duebook.flows.references import Scope
    from duebook.model.flow import Flow

    Ask = Callable[[str, str, dict[str, str]], str]

__all__ = [
    "computed_context",
    "computed_of",
    "execute_commands",
    "names_secret",
    "take_commands",
]

MOST_COMMANDS: Final = 100
"""Commands in the params and env of a flow, which run one after the other."""
_COMMAND: Final = re.compile(r"`(\s*[^`\s][^`]*)`")
_WORD: Final = re.compile(r"\w+")


def take_commands(
    text: str, name: str, scope: Scope, found: list[Computed], is_param: bool = False
) -> str:
    """The text with templates in place of its commands, which are added to `found`; raises
    Invalid."""

    def take(match: re.Match[str]) -> str:
        if len(found) > MOST_COMMANDS:  # which is already reported
            return ""
        command, values = fixed_shell_text(match[1], scope)
        if values:
            raise Invalid(
                f'"{shorten(match[0])}" contains a template or a part of a value; name a variable'
            )
        found.append(Computed(condition_for(command), name, is_param))
        if len(found) > MOST_COMMANDS:
            raise Invalid(
                f"a flow can have at most {MOST_COMMANDS} commands in params and env, and "
                f"{name} has one more; let a step print several values, with `outputs`"
            )
        return f'{{{{ computed["{len(found) - 1}"] }}}}'

    made = _COMMAND.sub(take, text)
    if "`" in _COMMAND.sub("", text):
        raise Invalid(f'"{shorten(text)}" has a backquote without a command, or without its pair')
    return made


def names_secret(computed: Iterable[Computed], secrets: Collection[str]) -> str | None:
    """A secret of the flow that a command names, which it would not find."""
    words = [word for each in computed for word in _WORD.findall(each.command)]
    return next((word for word in words if word in secrets), None)


def computed_context(flow: Flow, values: Values) -> dict[str, Any]:
    """What templates find; nothing where a command was not executed."""
    printed = {str(number): "" for number in range(len(flow.computed))} | dict(values.computed)
    return {"computed": printed}


def computed_of(output: Any) -> dict[str, str]:
    """What the commands printed, from the output of the step that executed them."""
    found = json.loads(output) if isinstance(output, str) else output
    return {str(key): str(text) for key, text in (found or {}).items()}


def execute_commands(
    flow: Flow, values: Values, shown: Values, inherited: Mapping[str, str], ask: Ask
) -> dict[str, str]:
    """What each command prints, by its number, but for those of params that are given.

    `ask(place, command, variables)` executes one; `shown` has other values for secrets. Raises
    TemplateFailed.
    """
    found: dict[str, str] = {}
    for number, each in enumerate(flow.computed):
        if each.is_param and each.name in values.params:
            continue
        variables = _before(flow, each, replace(values, computed=found), inherited)
        others = _before(flow, each, replace(shown, computed=found), inherited)
        secret = {name for name, text in variables.items() if others[name] != text}
        if named := secret.intersection(_WORD.findall(each.command)):
            told = f"the command of {each.place} names {min(named)}, which contains a secret"
            raise TemplateFailed(f"{told}; use it in a step")
        plain = {name: text for name, text in variables.items() if name not in secret}
        found[str(number)] = ask(each.place, each.command, plain).strip()
    _check_types(flow, replace(values, computed=found), inherited)
    return found


def _check_types(flow: Flow, values: Values, inherited: Mapping[str, str]) -> None:
    """Raises Invalid for what a param cannot be."""
    printed = {each.name for each in flow.computed if each.is_param} - set(values.params)
    made = flow_params(flow, _with_facts(flow, values), inherited) if printed else {}
    for param in flow.params:
        if param.name in printed:
            typed(param, made[param.name])


def _with_facts(flow: Flow, values: Values) -> Values:
    own = {"secret": dict(values.secrets), **computed_context(flow, values)}
    return replace(values, facts={**values.facts, **own})


def _before(
    flow: Flow, at: Computed, values: Values, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The params and variables that come before a command."""
    values = _with_facts(flow, values)
    if at.is_param:
        place = [param.name for param in flow.params].index(at.name)
        params = flow_params(replace(flow, params=flow.params[:place]), values, inherited)
        return {name: text_of_value(value) for name, value in params.items() if _is_name(name)}
    place = max(n for n, (name, _) in enumerate(flow.env) if name == at.name)
    params = flow_params(flow, values, inherited)
    found = flow_variables(replace(flow, env=flow.env[:place]), params, values, inherited)
    return {name: text for name, text in found.items() if _is_name(name)}


def _is_name(name: str) -> bool:
    return not name.isdigit()
