"""Prepares simulated steps of flows: inserts their values, but runs no commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.engine.steps import StepPreparer
from duebook.flows.conditions import unmet
from duebook.model.secret_values import as_reference
from duebook.targets.command_setup import CommandSetup
from duebook.targets.spawner import Spawner

if TYPE_CHECKING:
    from duebook.flows.flow_cache import FlowCache
    from duebook.flows.render import Rendered
    from duebook.model.flow import Step
    from duebook.model.run import Claim
    from duebook.store.base import Store
    from duebook.targets.processes import Stop

__all__ = ["SimulatedPreparer"]


class SimulatedPreparer(StepPreparer):
    """Conditions on values are evaluated; conditions that are commands always hold."""

    def __init__(self, store: Store, flow_cache: FlowCache) -> None:
        super().__init__(store, Spawner(CommandSetup({})), flow_cache)  # never started

    def _secret(self, namespace: str, name: str) -> str:
        """Nothing is executed that would need the value."""
        del namespace
        return as_reference(name)

    def _unmet(self, claim: Claim, step: Step, rendered: Rendered, stop: Stop | None) -> str | None:
        del claim, stop
        pairs = zip(step.preconditions, rendered.conditions, strict=True)
        asked = [pair for pair in pairs if not pair[1].is_command]
        return unmet([one for one, _ in asked], [one for _, one in asked], lambda _: (0, ""))
