"""The state of a database and its nodes, as results of transactions."""

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
    """The contents of the database."""

    now: datetime
    schedules: dict[str, int]
    """by status"""
    active_runs: dict[str, int]
    """by status"""
    runs: int
    entries: int
    """number of entries in the ledger"""
    log_lines: int
    nodes: tuple[tuple[str, str, str], ...]
    """name, roles and version of the live ones"""
    waits_since: datetime | None
    """since when the oldest ready run has waited"""
    wake_at: datetime | None
    """when the first schedule is due for a look; in the past: planning lags"""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A schedule that should have been planned by now."""

    namespace: str
    name: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Load:
    """How much there is to do, at a cost that does not grow with the database."""

    now: datetime
    queued: dict[str, int]
    """by queue, as far as counted"""
    running: dict[str, int]
    """by queue"""
    nodes: tuple[LiveNode, ...]
    overdue: Overdue | None
    """the schedule that is due for a look the longest"""
    broken: int = 0
    """schedules that cannot be planned, as far as counted"""
    held: dict[str, int] = field(default_factory=dict)
    """due times that wait for an operator, by namespace, as far as counted"""


@dataclass(frozen=True, slots=True)
class Health:
    """Whether nodes work on the database, at a cost that does not grow with it."""

    now: datetime
    unfit: str | None
    """why this version of Duebook should not use the schema"""
    nodes: tuple[LiveNode, ...]
    queues: tuple[str, ...]
    """those with queued runs"""
    waiting: tuple[WaitingPlace, ...]
    """queues and namespaces with queued runs, as far as searched"""
    unserved: tuple[str, ...]
    """namespaces with active schedules that no live worker serves"""
    overdue: Overdue | None
    broken: tuple[Broken, ...] = ()
    """schedules that cannot be planned, up to a limit"""
    directories: tuple[FlowDirectory, ...] = ()
    held: tuple[HeldSchedule, ...] = ()
    """schedules with due times that wait for an operator, up to a limit"""
    windows: tuple[OpenWindow, ...] = ()
    switches: tuple[ShadowSwitch, ...] = ()
    """of shadow mode, in the order in which they apply"""
    channels: tuple[ChannelHealth, ...] = ()
    """of alerts, up to a limit"""
    files: tuple[WrongFile, ...] = ()
    """of flows, up to a limit"""


class WrongFile(NamedTuple):
    """A flow file with problems."""

    namespace: str
    place: str
    problem: Mapping[str, Any]
    """the first problem"""
    in_use: bool
    """whether an earlier version of it is used"""


class ChannelHealth(NamedTuple):
    """A channel, and the alerts that it did not accept."""

    namespace: str
    name: str
    address: str
    """without secrets"""
    dead: int = 0
    """how many it refused for good"""
    error: str | None = None
    """why delivery is retried; None: it is not"""


class OpenWindow(NamedTuple):
    """A maintenance window that is open now."""

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
    """A queue and namespace with runs that wait for workers."""

    queue: str
    namespace: str
    tasks: tuple[str, ...]
    """the tasks of the first runs there"""
