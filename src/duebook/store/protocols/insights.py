"""The books at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from duebook.model.insight import HourLoad, Planned, RunMark
    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec

__all__ = ["Insights"]


class Insights(Protocol):
    """A part of a Tx."""

    def list_marks(self, schedule_ids: Sequence[str], each: int) -> dict[str, list[RunMark]]:
        """The newest runs of each of these schedules that has any, the oldest of them first."""

    def list_specs(self, runs: Sequence[Run]) -> dict[str, ScheduleSpec]:
        """The definition that each of these runs was made of, by the run's id; without those of no
        schedule."""

    def list_running(self, namespace: str, limit: int) -> list[Run]:
        """What is under way, the oldest first."""

    def list_late(self, namespace: str, since: datetime, late: timedelta, limit: int) -> list[Run]:
        """Runs whose `lateness`, jitter included, is more than `late`, from `since` on, the newest
        first; among the newest few thousand."""

    def count_failed(self, namespace: str, since: datetime, most: int) -> int:
        """How many runs made from `since` on failed; no more are counted than `most`."""

    def count_hours(self, namespace: str, since: datetime, until: datetime) -> list[HourLoad]:
        """The hours in which runs ended, in any order."""

    def list_durations(self, namespace: str) -> dict[str, timedelta]:
        """How long runs of each schedule take, in the mean of the newest few thousand runs."""

    def list_planned(
        self, namespace: str, after: str, limit: int
    ) -> tuple[list[Planned], str | None]:
        """Active schedules by name, and the name to go on after; None: these are all."""

    def list_inhabited(self) -> list[str]:
        """The namespaces that have schedules, by name."""

    def signal(self, namespace: str) -> tuple[object, ...]:
        """Something cheap that differs when what a page shows may have changed."""
