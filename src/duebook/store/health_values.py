"""What transactions tell about the state of a database and its nodes."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.model.flow_directory import FlowDirectory
    from duebook.model.node import LiveNode
    from duebook.model.shadow import ShadowSwitch
    from duebook.store.values import Broken

__all__ = [
    "ChannelHealth",
    "Health",
    "HeldSchedule",
    "Inventory",
    "Load",
    "OpenWindow",
    "Overdue",
    "WaitingPlace",
    "WrongFile",
]


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is in the books."""

    now: datetime
    schedules: dict[str, int]
    """by status"""
    active_runs: dict[str, int]
    """by status"""
    runs: int
    entries: int
    """of the ledger"""
    log_lines: int
    nodes: tuple[tuple[str, str, str], ...]
    """name, roles and version of those that live"""
    waits_since: datetime | None
    """from when on the oldest run that may begin has waited"""
    wake_at: datetime | None
    """when the first schedule wants to be looked at; in the past: planning lags"""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A schedule that should have been looked at."""

    namespace: str
    name: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Load:
    """How much there is to do, at a price that does not grow with the books."""

    now: datetime
    queued: dict[str, int]
    """by queue, as far as it was counted"""
    running: dict[str, int]
    """by queue"""
    nodes: tuple[LiveNode, ...]
    overdue: Overdue | None
    """the schedule that should have been looked at first"""
    broken: int = 0
    """schedules that cannot be planned, as far as they were counted"""
    held: dict[str, int] = field(default_factory=dict)
    """due times that wait for an operator, by namespace, as far as they were counted"""


@dataclass(frozen=True, slots=True)
class Health:
    """What tells whether the books are worked on, at a price that does not grow with them."""

    now: datetime
    unfit: str | None
    """why this Duebook should not use the schema"""
    nodes: tuple[LiveNode, ...]
    queues: tuple[str, ...]
    """those with queued runs"""
    waiting: tuple[WaitingPlace, ...]
    """queues and namespaces with queued runs, as far as they were looked at"""
    unserved: tuple[str, ...]
    """namespaces with active schedules that none of the live workers serves"""
    overdue: Overdue | None
    broken: tuple[Broken, ...] = ()
    """schedules that cannot be planned, up to a number of them"""
    directories: tuple[FlowDirectory, ...] = ()
    held: tuple[HeldSchedule, ...] = ()
    """schedules with due times that wait for an operator, up to a number of them"""
    windows: tuple[OpenWindow, ...] = ()
    switches: tuple[ShadowSwitch, ...] = ()
    """of shadow mode, in the order in which they count"""
    channels: tuple[ChannelHealth, ...] = ()
    """of alerts, up to a number of them"""
    files: tuple[WrongFile, ...] = ()
    """of flows, up to a number of them"""


class WrongFile(NamedTuple):
    """A file of flows with which something is wrong."""

    namespace: str
    place: str
    problem: Mapping[str, Any]
    """the first"""
    in_use: bool
    """whether an earlier version of it is"""


class ChannelHealth(NamedTuple):
    """A channel, and which alerts it did not accept."""

    namespace: str
    name: str
    address: str
    """without secrets"""
    dead: int = 0
    """how many it refused for good"""
    error: str | None = None
    """why it is tried again; None: it is not"""


class OpenWindow(NamedTuple):
    """A maintenance window in which it is now."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    end_at: datetime


class HeldSchedule(NamedTuple):
    """A schedule with missed due times that wait for an operator."""

    namespace: str
    name: str
    due_times: int
    since: datetime


class WaitingPlace(NamedTuple):
    """Where runs are queued for workers."""

    queue: str
    namespace: str
    tasks: tuple[str, ...]
    """those of the first runs there"""
