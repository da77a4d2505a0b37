"""Runs of flows, and the flows of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from duebook.model.flow import Revision as FlowRevision
    from duebook.model.flow_directory import FlowDirectory
    from duebook.model.flow_run import FlowMove, FlowParent
    from duebook.model.flow_target import FlowTarget
    from duebook.model.listing import Found, PagePosition
    from duebook.model.run import Run, Token
    from duebook.store.values import (
        Begun,
        BegunWith,
        BrokenFile,
        FlowCommand,
        FlowControl,
        FlowWake,
        KeptFlow,
    )

__all__ = ["Flows"]


class Flows(Protocol):
    """A part of a Tx."""

    # -- runs of flows
    def take_flows(self, limit: int) -> list[FlowParent]:
        """Runs of flows that want to be looked at, with those of their steps.

        They stay locked until the transaction ends. A step that ends meanwhile wakes its flow
        again.
        """

    def begin_flows(self, run_ids: Sequence[str], limits: Mapping[str, int]) -> Begun:
        """Queued runs of flows that may begin do: by the limits of their schedules, and by those
        of their flows, which `limits` has by run. The first in order of priority and time begin
        first."""

    def commit_flows(self, moves: Sequence[FlowMove]) -> None:
        """Write the runs of steps, ask others to end, end runs of flows; wake who waits for it."""

    def earliest_flow(self) -> FlowWake:
        """When somebody has to look at runs of flows again."""

    def flow_outputs(self, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What the steps of runs of flows returned, of those that have ended; Apart where that is
        large."""

    def get_output(self, run_id: str) -> Any:
        """A large output; None when the run has none any more."""

    def flow_revisions(
        self, namespace: str, wanted: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], FlowRevision]:
        """The files of flows as they once were, by name and digest; those that are still there."""

    def call_flow(self, token: Token, target: FlowTarget) -> bool:
        """A step becomes a run of a flow that waits to begin; False when the token is no longer
        current."""

    def list_callers(self, run_ids: Sequence[str]) -> dict[str, set[str]]:
        """The flows by which each of these was called, however far away; those that were."""

    def take_commands(self, limit: int) -> list[FlowCommand]:
        """Stops and restarts to carry out, the oldest first; locked."""

    def end_command(self, command: FlowCommand, facts: Mapping[str, Any]) -> None:
        """It was carried out; the ledger keeps what it found."""

    def take_controls(self, limit: int) -> list[FlowControl]:
        """Flows whose restart wants to be gone on with; locked."""

    def control_flow(
        self, namespace: str, name: str, control_at: datetime | None, restarting: bool
    ) -> None:
        """Whether a restart is under way, and when to go on with it."""

    def forget_restart(self, namespace: str, name: str) -> bool:
        """Whether it was to be started again; it is not any more."""

    def active_flow_runs(self, namespace: str, flow: str) -> list[tuple[str, str]]:
        """Id and status of the runs of a flow that have not ended; not those that steps called."""

    def stop_flows(self, run_ids: Sequence[str], reason: str) -> None:
        """Cancel runs of flows, as far as they have not ended; those under way are asked to end."""

    def count_flow_runs(self, namespace: str, flow: str) -> int:
        """How many runs of a flow are under way, those that steps called too."""

    def last_flow_end(self, namespace: str, flow: str) -> datetime | None:
        """When its latest run ended that did."""

    def start_flow(
        self,
        run_id: str,
        namespace: str,
        target: FlowTarget,
        priority: int,
        trigger: str,
    ) -> None:
        """A run of a flow, by the limits of the schedule of its name if that starts it."""

    def flow_run(self, run_id: str) -> BegunWith | None:
        """What a run of a flow began with; None for any other run."""

    def list_steps_of(self, run_id: str) -> list[Run]:
        """The runs of its steps in order, also those that a retry began again."""

    def list_flow_runs(self, namespace: str, flow: str, limit: int) -> list[Run]:
        """The newest first."""

    def lock_flow_run(self, run_id: str) -> None:
        """Nobody advances this run of a flow before the transaction ends."""

    def reopen_flow(self, run_id: str, forgotten: Iterable[str]) -> None:
        """Go on with a run of a flow that has ended, as if these steps had not begun."""

    # -- flows of files
    def get_flow(self, namespace: str, name: str) -> KeptFlow | None: ...

    def list_flows(self, namespace: str) -> list[tuple[KeptFlow, str | None]]:
        """All of them, by name, each with who made the schedule of that name; None without one."""

    def page_flows(self, namespace: str, after: PagePosition | None, limit: int) -> Found[KeptFlow]:
        """By name; a name is a place."""

    def latest_flow_runs(self, namespace: str, names: Sequence[str]) -> dict[str, Run]:
        """The newest run of each of these flows that has any."""

    def get_flows(self, namespace: str, names: Sequence[str]) -> dict[str, KeptFlow]:
        """Those that exist, by name."""

    def save_flows(self, namespace: str, revisions: Sequence[FlowRevision]) -> None:
        """Put revisions of flows in force."""

    def move_flow(self, namespace: str, name: str, place: str) -> None: ...

    def remove_flows(self, namespace: str, names: Sequence[str]) -> None: ...

    def save_problems(
        self, namespace: str, roots: Collection[str], files: Mapping[str, BrokenFile]
    ) -> None:
        """What is wrong with the files of some directories, by place, in place of what was."""

    def list_flow_problems(self, namespace: str) -> dict[str, BrokenFile]:
        """By place, without their texts."""

    def list_broken_files(self, namespace: str, limit: int) -> list[str]:
        """Places of files with which something is wrong, in their order."""

    def get_broken_source(self, namespace: str, place: str) -> str | None:
        """The text of a file with which something is wrong; None when nothing is."""

    # -- directories of flows
    def take_directory(
        self, namespace: str, name: str, session_id: str, lease: timedelta
    ) -> int | None:
        """Attend a directory for a while; the term, which is a new one unless this session did so
        all the time. None while another node that lives does."""

    def keep_directory(
        self, namespace: str, name: str, session_id: str, term: int, lease: timedelta
    ) -> None:
        """Attend a directory for longer; raises Conflict when that term is over."""

    def mark_scanned(
        self, namespace: str, name: str, session_id: str, term: int, wake_until: datetime | None
    ) -> None:
        """Its files were read under a term, and its flows are equal to them.

        With `wake_until`, schedules that want to be looked at up to then are looked at now. Raises
        Conflict when that term is over.
        """

    def save_returned(self, namespace: str, name: str, flows: Iterable[str]) -> None:
        """The flows of which a takeover brought back an earlier revision, in place of others."""

    def list_returned(self, namespace: str, name: str) -> list[str]: ...

    def leases_of_others(
        self, namespace: str, roots: Iterable[str], session_id: str
    ) -> dict[str, datetime]:
        """The directories that others attend, and until when, unless they prolong it."""

    def release_directories(self, session_id: str) -> None:
        """Let others attend them."""

    def delete_directory(self, namespace: str, name: str) -> None:
        """Forget when it was read, and by whom."""

    def list_directories(self, namespaces: Collection[str] | None = None) -> list[FlowDirectory]:
        """Those of some namespaces, or of all, by name."""
