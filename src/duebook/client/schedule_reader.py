"""The use cases that read schedules and their due times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Protocol

from duebook.book.schedule_reader import MOST_PREVIEWED
from duebook.client.arguments import (
    DUE_FROM,
    DUE_UNTIL,
    NOT_SENT,
    Cursor,
    Given,
    Limit,
    Payload,
    ScheduleName,
    labels_in_query,
)
from duebook.client.use_cases import operation
from duebook.explain import Explanation
from duebook.model.access import Role
from duebook.model.due_time import DueTime
from duebook.model.edited import Edited
from duebook.model.filters import ScheduleSort, Status
from duebook.model.listing import Listing
from duebook.model.plan import DueException
from duebook.model.revision import Revision
from duebook.model.schedule import Schedule
from duebook.model.statistics import Statistics
from duebook.store.values import LedgerEntry

__all__ = ["ScheduleReaderClient"]

# inside the class below `list` is a method
Entries = Listing[LedgerEntry]
Explanations = list[Explanation]
Listed = Listing[Schedule]
DueTimeList = list[DueTime]
Moments = list[datetime]
Revisions = list[Revision]
Said = list[DueException]

_DueFrom = Annotated[str | datetime | None, DUE_FROM]
_DueUntil = Annotated[str | datetime | None, DUE_UNTIL]


class ScheduleReaderClient(Protocol):
    """Every method takes a name or an id; raises NotFound for schedules that do not exist."""

    @operation("list_schedules", "GET", "/schedules", Role.VIEWER, "ls", "export")
    def list(
        self,
        *,
        status: Status | None = None,
        label: Annotated[
            str | Sequence[str] | Mapping[str, str] | None,
            Given("Such as `team:sales`; a schedule must have all of them.", send=labels_in_query),
        ] = None,
        text: Annotated[
            str | None,
            Given("Part of the name or title, or the start of the name: `etl-*`."),
        ] = None,
        due_before: Annotated[
            str | datetime | None, Given("Active, and due before this time.")
        ] = None,
        target: Annotated[
            str | None,
            Given(
                "What they run: `task`, `task:digest`, `flow`, `flow:etl`, `command`, `http`, "
                "`event`."
            ),
        ] = None,
        problem: Annotated[
            bool | None, Given("Only those with a problem; false: only those without.")
        ] = None,
        sort: ScheduleSort = "name",
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> Listed:
        """List the schedules of a namespace, each with its latest run."""

    @operation("get_schedule", "GET", "/schedules/{name}", Role.VIEWER, "show")
    def get(self, name: ScheduleName) -> Schedule:
        """Get a schedule by its name or id, with its latest run."""

    @operation(
        *("render_schedule", "POST", "/schedules/{name}/render", Role.OPERATOR, "run"), reads=True
    )
    def render(self, name: ScheduleName, payload: Payload = None) -> dict[str, Any]:
        """Show what `trigger` would run now, with its templates rendered, without running it."""

    @operation(
        *("preview_update", "POST", "/schedules/{name}/preview-update", Role.OPERATOR, "update"),
        errors=(409, 429),
        reads=True,
        computes=True,
    )
    def preview_update(
        self, name: ScheduleName, count: Annotated[int, NOT_SENT] = 10, **changes: Any
    ) -> Edited:
        """Show what a PATCH would do to the definition and the next ten due times, without doing
        it."""

    @operation(
        *("preview_schedule", "GET", "/schedules/{name}/preview", Role.VIEWER, "preview"),
        errors=(429,),
        computes=True,
    )
    def preview(
        self,
        name: ScheduleName,
        count: Annotated[int, Given("How many to list.", ge=1, le=MOST_PREVIEWED)] = 10,
    ) -> DueTimeList:
        """List the next due times, with skips and moves applied; for a flow, also the times at
        which it is stopped or restarted."""

    @operation(
        *("explain_schedule", "GET", "/schedules/{name}/explain", Role.VIEWER, "explain"),
        errors=(429,),
        computes=True,
    )
    def explain(
        self,
        name: ScheduleName,
        at: Annotated[
            str | datetime | None,
            Given("A due time; without an offset, in the time zone of the schedule."),
        ] = None,
        start: Annotated[str | datetime | None, Given("Every due time from this time …")] = None,
        end: Annotated[str | datetime | None, Given("… to this one.")] = None,
        tz: Annotated[
            str | None, Given("The time zone of the sentences; by default the schedule's.")
        ] = None,
    ) -> Explanation | Explanations:
        """Explain in a sentence what happened to a due time and why; or to each from `start` to
        `end`.

        Deleted schedules can be explained too.
        """

    @operation("list_ledger", "GET", "/schedules/{name}/ledger", Role.VIEWER, "show")
    def ledger(
        self,
        name: ScheduleName,
        limit: Limit = 20,
        *,
        reason: Annotated[str | None, Given("Such as `overlap` or `missed`.")] = None,
        since: _DueFrom = None,
        until: _DueUntil = None,
        cursor: Cursor = None,
    ) -> Entries:
        """List the due times that did not become runs, and why; newest first."""

    @operation("get_statistics", "GET", "/schedules/{name}/statistics", Role.VIEWER, "stats")
    def statistics(
        self,
        name: ScheduleName,
        tz: Annotated[
            str | None, Given("The time zone of the days; by default the schedule's.")
        ] = None,
    ) -> Statistics:
        """Get success rate, durations and lateness of the newest 1,000 runs, in total and by day.

        Deleted schedules have statistics too, until their runs are deleted.
        """

    @operation(
        *("list_revisions", "GET", "/schedules/{name}/revisions", Role.VIEWER),
        no_cli="the dashboard compares them",
    )
    def revisions(self, name: ScheduleName) -> Revisions:
        """List every version of the definition, oldest first."""

    @operation(
        "list_exceptions", "GET", "/schedules/{name}/exceptions", Role.VIEWER, "preview", "show"
    )
    def exceptions(self, name: ScheduleName) -> Said:
        """List the future due times that were skipped or moved."""
