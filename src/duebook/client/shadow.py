"""The use cases of shadow mode."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Protocol

from duebook.client.arguments import By, Given, labels_read
from duebook.client.use_cases import operation
from duebook.model.access import Role
from duebook.model.shadow import ShadowRun, ShadowSwitch
from duebook.timetext import parse_instant

__all__ = ["MOST_REPORTED", "ShadowClient"]

MOST_REPORTED: Final = 10_000
# inside the class below `list` is a method
SwitchList = list[ShadowSwitch]
RunList = list[ShadowRun]

_Schedule = Annotated[str, Given("Only this schedule; empty: any.")]
_Labels = Annotated[
    Mapping[str, str] | None, labels_read("The schedule must have all of these labels.")
]
_At = Annotated[
    str | datetime | None,
    Given(
        "From which due time on; by default from now on.",
        send=lambda at: None if at is None else parse_instant(at),
    ),
]


class ShadowClient(Protocol):
    @operation("list_shadow", "GET", "/shadow", Role.VIEWER, "shadow ls")
    def list(self) -> SwitchList:
        """List when shadow mode was turned on and off in a namespace, in the order in which that
        applies."""

    @operation("shadow_on", "POST", "/shadow/on", Role.OPERATOR, "shadow on")
    def on(
        self, schedule: _Schedule = "", labels: _Labels = None, at: _At = None, by: By = ""
    ) -> ShadowSwitch:
        """Record due times instead of running them, from `at` on.

        Without a schedule and labels, it applies to all schedules of the namespace, including those
        created later. Earlier due times and existing runs are not affected.
        """

    @operation("shadow_off", "POST", "/shadow/off", Role.OPERATOR, "shadow off")
    def off(
        self, schedule: _Schedule = "", labels: _Labels = None, at: _At = None, by: By = ""
    ) -> ShadowSwitch:
        """Run due times from `at` on; earlier ones stay recorded and never run automatically."""

    @operation("report_shadow", "GET", "/shadow/report", Role.VIEWER, "shadow report")
    def report(
        self,
        start: Annotated[
            str | datetime | None, Given("Due at this time or later; by default a day ago.")
        ] = None,
        end: Annotated[
            str | datetime | None, Given("Due at this time or earlier; by default now.")
        ] = None,
        limit: Annotated[int, Given("The most to return.", ge=1, le=MOST_REPORTED)] = 1_000,
    ) -> RunList:
        """List the due times that shadow mode recorded, in order."""
