"""A step that calls a flow for each of several items: the flow that makes the calls, and its
output; pure.

The step becomes a run of a generated flow with one step for each item. So items are limited,
stopped, retried and explained in the same way as all steps. The items are params of that flow:
data, and never part of its text.
"""

from __future__ import annotations

import json
import re
import shlex
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from duebook.model.flow import MOST_STEPS
from duebook.model.flow_target import FlowTarget
from duebook.model.run import DONE
from duebook.targets.filters import TemplateFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duebook.model.flow import Flow
    from duebook.model.flow_run import StepRow

__all__ = ["ITEM", "each_target", "is_each", "is_made_up", "results_of", "with_item"]

ITEM: Final = "ITEM"
"""The variable that holds the item."""
_MARK: Final = "made by Duebook: a step for each item of `parallel`"
_PREFIX: Final = "each."
_NAME: Final = re.compile(r"each\..+-[0-9a-f]{8}")


def each_target(
    target: FlowTarget, items: Any, limit: int, params_of: Callable[[Any], dict[str, Any]]
) -> FlowTarget:
    """The generated flow for these items, with the params of each call; raises TemplateFailed."""
    given = [params_of(item) or _as_params(item) for item in _listed(items)]
    if not given:
        raise TemplateFailed("parallel has no items")
    if len(given) > MOST_STEPS:
        raise TemplateFailed(f"parallel has {len(given):,} items; at most {MOST_STEPS:,} can run")
    name, source = _made_up(target.name, [list(each) for each in given], limit)
    params = {f"{ITEM}_{number}": each for number, each in enumerate(given, 1)}
    return FlowTarget(name, tuple(params.items()), source)


def with_item(context: Mapping[str, Any], item: Any, text: str, parsed: Any) -> dict[str, Any]:
    """The names that templates of a step can use, including an item."""
    own = {"params": item, "vars": text, "data": parsed}
    return {**context, **{part: {**context[part], ITEM: value} for part, value in own.items()}}


def _listed(items: Any) -> list[Any]:
    """Items from a list, or from text: a JSON list, or words."""
    if isinstance(items, list):
        return items
    if not isinstance(items, str):
        return [items]
    try:
        found = json.loads(items)
    except (ValueError, RecursionError):
        return items.split()
    return found if isinstance(found, list) else [found]


def _as_params(item: Any) -> dict[str, Any]:
    """The item itself becomes the params of the flow, if the step declares none."""
    if isinstance(item, dict):
        return item
    if not isinstance(item, str):
        return {"1": item}
    try:
        words = shlex.split(item)
    except ValueError:
        words = [item]
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        else:
            found[str(1 + len(found))] = word
    return found


def _made_up(called: str, names: Sequence[Sequence[str]], limit: int) -> tuple[str, str]:
    """Its name and text, which are the same for all items given in the same way."""
    flow = {
        "description": _MARK,
        "type": "graph",
        "max_active_steps": limit,
        "params": [
            {"name": f"{ITEM}_{number}", "required": True} for number in range(1, len(names) + 1)
        ],
        "steps": [
            {
                "name": f"item-{number}",
                "call": called,
                "params": {
                    name: f"{{{{ params.{ITEM}_{number}[{json.dumps(name)}] }}}}" for name in own
                },
            }
            for number, own in enumerate(names, 1)
        ],
    }
    digest = sha256(json.dumps([called, flow]).encode()).hexdigest()[:8]
    name = f"{_PREFIX}{called[:110]}-{digest}"
    return name, json.dumps({"name": name, **flow})


def is_each(flow: Flow) -> bool:
    """Whether a flow was generated for items."""
    return flow.name.startswith(_PREFIX) and flow.policies.description == _MARK


def is_made_up(name: str) -> bool:
    """Whether a name is that of a generated flow, which has no file and no page."""
    return _NAME.fullmatch(name) is not None


def results_of(
    flow: Flow, rows: Sequence[StepRow], params: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, Any]:
    """What such a flow returns, in Dagu's format: a summary, and the result of each item."""
    ended = {row.step: row for row in rows}
    results = [
        {
            "name": step.target.name,
            "params": params.get(f"{ITEM}_{number}"),
            "dagRunId": ended[step.name].run_id,
            "status": ended[step.name].status,
            "outputs": outputs.get(step.name) or {},
        }
        for number, step in enumerate(flow.steps, 1)
        if isinstance(step.target, FlowTarget) and step.name in ended
    ]
    good = [result for result in results if result["status"] in DONE]
    summary = {"total": len(flow.steps), "succeeded": len(good), "failed": len(results) - len(good)}
    return {
        "summary": summary,
        "results": results,
        "outputs": [result["outputs"] for result in good if result["outputs"]],
    }
