"""What goes into transactions about flows and comes out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Control

__all__ = [
    "Begun",
    "BegunWith",
    "BrokenFile",
    "FlowCommand",
    "FlowControl",
    "FlowWake",
    "KeptFlow",
    "WaitingStep",
]


class FlowWake(NamedTuple):
    """When runs of flows want to be looked at, and stop and restart schedules."""

    run_at: datetime | None
    control_at: datetime | None

    @property
    def earliest(self) -> datetime | None:
        return min((moment for moment in self if moment is not None), default=None)


class BrokenFile(NamedTuple):
    """What is wrong with a file of flows, and the file as it is."""

    problems: list[dict[str, Any]]
    digest: str = ""
    source: str = ""
    """its text, as far as people may see it"""


class BegunWith(NamedTuple):
    """What a run of a flow began with, and keeps to."""

    digest: str | None
    """of its file; none: there was no such flow"""
    params: dict[str, Any]


class Begun(NamedTuple):
    """What became of runs of flows that waited to begin."""

    ids: set[str]
    held: set[str]
    """others counted what they may not exceed just now"""


class KeptFlow(NamedTuple):
    """A flow, by its last valid revision."""

    name: str
    place: str
    digest: str
    updated_at: datetime


class WaitingStep(NamedTuple):
    """A step that not every worker can perform."""

    step: str
    task: str | None
    needs: dict[str, str]
    """the labels that its worker must have"""


class FlowControl(NamedTuple):
    """A flow whose restart wants to be gone on with."""

    namespace: str
    name: str
    digest: str
    restarting: bool
    """whether one is under way"""


class FlowCommand(NamedTuple):
    """A stop or restart to carry out."""

    id: int
    schedule_id: str
    namespace: str
    flow: str
    digest: str | None
    """None: there is no such flow any more"""
    kind: Control
    due_at: datetime
