"""A flow as people see it: what it does, where it comes from and how it went last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.flow import Flow
    from duebook.model.run import Run

__all__ = ["FlowView", "flow_view"]


@dataclass(frozen=True, slots=True)
class FlowView:
    """A flow by its newest good revision."""

    name: str
    place: str
    """the directory's name and the path in it"""
    digest: str
    updated_at: datetime
    description: str = ""
    labels: dict[str, str] | None = None
    starts: str | None = None
    """when it starts by itself, in words"""
    params: tuple[dict[str, Any], ...] = ()
    steps: tuple[dict[str, Any], ...] = ()
    problem: str | None = None
    """what is wrong with its file now; it stays as it was"""
    last_run: Run | None = None


def flow_view(
    flow: Flow,
    place: str,
    digest: str,
    updated_at: datetime,
    problem: str | None = None,
    last_run: Run | None = None,
) -> FlowView:
    return FlowView(
        flow.name,
        place,
        digest,
        updated_at,
        flow.description,
        dict(flow.labels),
        ", ".join(trigger.describe() for trigger in flow.start) or None,
        tuple(
            {
                "name": param.name,
                "default": param.default,
                "kind": param.kind,
                "choices": list(param.choices),
                "description": param.description,
            }
            for param in flow.params
        ),
        tuple(
            {
                "name": step.name,
                "depends": list(step.depends),
                "description": step.description,
                "runs": str(step.target),
            }
            for step in flow.all_steps()
        ),
        problem,
        last_run,
    )
