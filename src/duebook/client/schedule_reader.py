"""What is asked about schedules and their due times, here or through a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Protocol

from duebook.book.schedule_reader import MOST_PREVIEWED
from duebook.client.arguments import (
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
from duebook.model.schedule import Revision, Schedule
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

_DUE_FROM = Annotated[str | datetime | None, Given("Due from then on.")]
_DUE_UNTIL = Annotated[str | datetime | None, Given("Due up to then.")]


class ScheduleReaderClient(Protocol):
    """Every method takes a name or an id; raises NotFound for schedules that do not exist."""

    @operation("list_schedules", "GET", "/schedules", Role.VIEWER, "ls")
    def list(
        self,
        *,
        status: Status | None = None,
        label: Annotated[
            str | Sequence[str] | Mapping[str, str] | None,
            Given("`team:sales`; several must all be there.", send=labels_in_query),
        ] = None,
        text: Annotated[
            str | None,
            Given("A part of the name or title, or the beginning of the name: `etl-*`."),
        ] = None,
        due_before: Annotated[str | datetime | None, Given("Active, and due before this.")] = None,
        target: Annotated[
            str | None,
            Given(
                "What they run: `task`, `task:digest`, `flow`, `flow:etl`, `command`, `http`, "
                "`event`."
            ),
        ] = None,
        problem: Annotated[bool | None, Given("Whether something is wrong.")] = None,
        sort: ScheduleSort = "name",
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> Listed:
        """The schedules of a namespace, each with its latest run."""

    @operation("get_schedule", "GET", "/schedules/{name}", Role.VIEWER, "show")
    def get(self, name: ScheduleName) -> Schedule:
        """One schedule by its name or id, with its latest run."""

    @operation(
        *("render_schedule", "POST", "/schedules/{name}/render", Role.OPERATOR, "run"), reads=True
    )
    def render(self, name: ScheduleName, payload: Payload = None) -> dict[str, Any]:
        """What `trigger` would execute now, its templates rendered; nothing is queued."""

    @operation(
        *("preview_update", "POST", "/schedules/{name}/preview-update", Role.OPERATOR, "update"),
        errors=(409, 429),
        reads=True,
        computes=True,
    )
    def preview_update(
        self, name: ScheduleName, count: Annotated[int, NOT_SENT] = 10, **changes: Any
    ) -> Edited:
        """What a PATCH would do to the definition and the next ten due times; nothing is
        changed."""

    @operation(
        *("preview_schedule", "GET", "/schedules/{name}/preview", Role.VIEWER, "preview"),
        errors=(429,),
        computes=True,
    )
    def preview(
        self,
        name: ScheduleName,
        count: Annotated[int, Given("How many.", ge=1, le=MOST_PREVIEWED)] = 10,
    ) -> DueTimeList:
        """The next due times, with what was said about single ones; of a flow, also those at which
        it is stopped or restarted."""

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
            Given("A due time; without an offset it is read in the schedule's zone."),
        ] = None,
        start: Annotated[str | datetime | None, Given("Every due time from here …")] = None,
        end: Annotated[str | datetime | None, Given("… up to here.")] = None,
        tz: Annotated[
            str | None, Given("The zone of the times in the sentences; the schedule's.")
        ] = None,
    ) -> Explanation | Explanations:
        """What became of a due time and why, in a sentence; or of each from `start` to `end`.

        Deleted schedules answer as well.
        """

    @operation("list_ledger", "GET", "/schedules/{name}/ledger", Role.VIEWER, "show")
    def ledger(
        self,
        name: ScheduleName,
        limit: Limit = 20,
        *,
        reason: Annotated[str | None, Given("Such as `overlap` or `missed`.")] = None,
        since: _DUE_FROM = None,
        until: _DUE_UNTIL = None,
        cursor: Cursor = None,
    ) -> Entries:
        """The due times that did not become runs, and why; the newest first."""

    @operation(
        *("list_revisions", "GET", "/schedules/{name}/revisions", Role.VIEWER),
        no_cli="the dashboard compares them",
    )
    def revisions(self, name: ScheduleName) -> Revisions:
        """Every definition that was in force, the first one first."""

    @operation(
        "list_exceptions", "GET", "/schedules/{name}/exceptions", Role.VIEWER, "preview", "show"
    )
    def exceptions(self, name: ScheduleName) -> Said:
        """What was said about due times to come: skipped ones and moved ones."""
