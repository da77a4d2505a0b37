"""Checks the values that a flow is started with against the types that it declares; pure."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

from duebook.errors import Invalid, shorten
from duebook.flows.problems import did_you_mean
from duebook.model.secret import show_payload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.model.flow import Flow, Param

__all__ = ["check_params", "check_start", "text_of_value", "typed"]


def check_start(flow: Flow, given: Mapping[str, Any]) -> dict[str, Any]:
    """As `check_params`, for a start by anything but a flow; raises Invalid when its file lets
    nobody change its params."""
    if given and flow.fixed_params:
        raise Invalid(
            f'flow "{flow.name}" has fixed params: its file says disable_param_edit in run_config'
        )
    return check_params(flow, given)


def check_params(flow: Flow, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given at a start or a call, by the types that the flow says; raises Invalid.

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
    return {name: typed(params[name], value) for name, value in given.items()}


def typed(param: Param, value: Any) -> Any:
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
        known = ", ".join(text_of_value(_told(param, choice)) for choice in param.choices)
        raise Invalid(f'param "{param.name}" {shorten(_told(param, value))} is not one of {known}')
    return found


def _told(param: Param, value: Any) -> Any:
    """The value of a param, safe to repeat in a message."""
    return show_payload({param.name: value})[param.name]


def _is_number(value: Any) -> bool:
    """JSON has no infinite numbers, although Python reads them."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def text_of_value(value: Any) -> str:
    """A value as a variable has it: JSON for anything but a string."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
