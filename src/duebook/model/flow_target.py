"""A flow as what a run executes: its name and its params; knows the JSON form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from duebook.errors import Invalid, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import check_payload
from duebook.model.secret import show_payload

__all__ = ["FLOW_QUEUE", "HUMAN_QUEUE", "FlowTarget", "load_flow"]

FLOW_QUEUE: Final = "@flow"
"""The queue of runs of flows: no user queue can have this name, and no worker serves it."""
HUMAN_QUEUE: Final = "@human"
"""The queue of steps that wait for a person."""


@dataclass(frozen=True, slots=True)
class FlowTarget:
    """Another flow, with its params."""

    name: str
    params: tuple[tuple[str, Any], ...] = ()
    source: str | None = None
    """the text of a flow that exists only for this call"""

    def masked(self) -> FlowTarget:
        """As it may be shown: without the values of params with secret names."""
        return replace(self, params=tuple(show_payload(dict(self.params)).items()))

    def to_json(self) -> dict[str, Any]:
        return {"flow": self.name} | ({"params": dict(self.params)} if self.params else {})

    def __str__(self) -> str:
        return f"flow {self.name}"


def load_flow(form: dict[str, Any]) -> FlowTarget:
    """From `{"flow": "name", "params": {…}}`; raises Invalid that names the part."""
    if unknown := sorted(str(key) for key in form if key not in ("flow", "params")):
        raise Invalid(f'target key "{shorten(unknown[0])}" is unknown; use flow or params')
    name = form["flow"]
    if not isinstance(name, str):
        raise Invalid(f"target flow {shorten(name)} is not a flow name")
    params = check_payload("target params", form.get("params") or {})
    return FlowTarget(check_name(name, "target flow"), tuple(params.items()))
