"""The settings of a node when it starts, and work besides runs for its threads."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from duebook.errors import Invalid
from duebook.lazy_dataclasses import dataclass
from duebook.model.celery_target import CELERY, KNOWN_ONLY
from duebook.model.node_times import LEASE, STOP_WITHIN
from duebook.model.serving import ALL
from duebook.settings import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    from duebook.engine.tracing import Tracing
    from duebook.model.serving import Serving
    from duebook.model.smtp_server import SmtpServer
    from duebook.secret_sources import Sources
    from duebook.store.values import Labels
    from duebook.targets.addresses import Network
    from duebook.targets.celery_link import AnyCelery
    from duebook.targets.task import Tasks

__all__ = ["Chore", "NodeOptions", "load_tracing"]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    slots: int = 10
    queues: tuple[str, ...] = ("default",)
    namespaces: Serving = ALL
    """the namespaces whose runs its worker executes"""
    labels: Labels = ()
    """labels of its worker, for steps that ask for them"""
    lease: timedelta = LEASE
    stop_within: timedelta = STOP_WITHIN
    """how long a stop waits for active runs before they are handed back"""
    roles: tuple[str, ...] = ROLES
    coordination: str = "all"
    """`leader`: only one scheduler at a time plans"""
    http_allow: tuple[Network, ...] = ()
    """networks that are not public but that requests may reach"""
    secrets: Sources = field(default_factory=dict, repr=False)
    """where it finds the secrets of each namespace"""
    smtp: SmtpServer | None = None
    """the mail server for channels that name none"""
    public_url: str | None = None
    """the address of the dashboard for users"""
    celery: AnyCelery | None = None
    """the Celery app whose workers get its tasks; None: it takes no runs with a Celery target"""
    tracing: Tracing | None = None
    """writes spans of its work; None: it does not trace"""
    known_only: bool = False
    """whether its worker takes only runs of tasks that it knows, and no commands or requests"""
    flow_directories: Mapping[str, str] = field(default_factory=dict)
    """the paths of the directories of flow files, by name"""

    def known(self, tasks: Tasks) -> tuple[str, ...]:
        """The tasks that its worker knows, and other abilities that not every worker has."""
        celery = () if self.celery is None else (CELERY,)
        return (*tasks.names, *celery, *((KNOWN_ONLY,) if self.known_only else ()))

    def with_flows(self, roots: Sequence[Path]) -> NodeOptions:
        where = {root.resolve().name: str(root.resolve()) for root in roots}
        return replace(self, flow_directories={**self.flow_directories, **where})


class Chore(Protocol):
    """Work of a node other than runs, in its own thread."""

    @property
    def name(self) -> str: ...

    def owned_by(self, session_id: str) -> None:
        """Its node now has this session; also called before the start."""

    def start(
        self, ring: Callable[[], None], serve: Callable[[Collection[str], str], None]
    ) -> None:
        """Called when the node starts; `ring` calls for an early step, `serve` makes the node serve
        more queues, and logs why."""

    def step(self) -> float:
        """Returns in how many seconds it wants the next call."""

    def close(self) -> None: ...


def load_tracing(setting: str) -> Tracing | None:
    """The writer of spans when tracing is on; raises Invalid where OpenTelemetry is missing."""
    if setting != "on":
        return None
    try:
        from duebook.engine.tracing import open_tracing
    except ImportError as error:
        raise Invalid(
            f"tracing is on, but OpenTelemetry cannot be imported ({error}); "
            "run pip install '.[otel]' in a copy of the repository"
        ) from error
    return open_tracing()
