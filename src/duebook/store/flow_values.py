"""Parameters and results of transactions about flows."""

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
    """When runs of flows, and stop and restart schedules, are due for a look."""

    run_at: datetime | None
    control_at: datetime | None

    @property
    def earliest(self) -> datetime | None:
        return min((moment for moment in self if moment is not None), default=None)


class BrokenFile(NamedTuple):
    """The problems of a flow file, and its current text."""

    problems: list[dict[str, Any]]
    digest: str = ""
    source: str = ""
    """its text, without what people may not see"""


class BegunWith(NamedTuple):
    """What a run of a flow started with, and keeps."""

    digest: str | None
    """of its file; None: there was no such flow"""
    params: dict[str, Any]


class Begun(NamedTuple):
    """The result for runs of flows that waited to start."""

    ids: set[str]
    held: set[str]
    """those whose limits other transactions were just counting"""


class KeptFlow(NamedTuple):
    """A flow, by its last valid revision."""

    name: str
    place: str
    digest: str
    updated_at: datetime


class WaitingStep(NamedTuple):
    """A step that not every worker can run."""

    step: str
    task: str | None
    needs: dict[str, str]
    """the labels that its worker must have"""


class FlowControl(NamedTuple):
    """A flow with a restart to continue."""

    namespace: str
    name: str
    digest: str
    restarting: bool
    """whether a restart is in progress"""


class FlowCommand(NamedTuple):
    """A stop or restart to carry out."""

    id: int
    schedule_id: str
    namespace: str
    flow: str
    digest: str | None
    """None: the flow no longer exists"""
    kind: Control
    due_at: datetime
