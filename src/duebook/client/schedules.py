"""The use cases that change schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Protocol, Unpack, overload

from duebook.book.backfill import MOST_BACKFILLED
from duebook.book.declaration_plan import DAYS
from duebook.book.declaring import MOST_DAYS
from duebook.book.defining import Declared
from duebook.client.arguments import (
    AT_ONCE,
    By,
    Given,
    Payload,
    ScheduleName,
)
from duebook.client.schedule_reader import Listed, Moments, ScheduleReaderClient
from duebook.client.use_cases import needs_database, operation
from duebook.errors import Invalid, shorten
from duebook.ids import check_name
from duebook.model.access import Role
from duebook.model.acted import Acted, Action, BackfillProgress, Withdrawn
from duebook.model.declaration import DEFAULT_OWNER, Declaration
from duebook.model.edited import Drafted
from duebook.model.fields import whole
from duebook.model.policies import Definition
from duebook.model.run import Run
from duebook.model.schedule import Schedule

__all__ = ["SchedulesClient"]

# inside the class below `list` is a method
NameList = list[str]
RunList = list[Run]


def _read_list(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return value
    raise Invalid(f"{key} {shorten(value)} is not a list")


def _read_filter(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise Invalid(f'{key} {shorten(value)} is not an object such as {{"label": "team:sales"}}')


class SchedulesClient(ScheduleReaderClient, Protocol):
    """Every method takes a name or an id; raises NotFound for schedules that do not exist."""

    @overload
    def create(
        self, name: str, by: str = "", *, replace: bool = False, **definition: Unpack[Definition]
    ) -> Schedule: ...

    @overload
    def create(
        self,
        name: str,
        by: str = "",
        *,
        template: str | None,
        replace: bool = False,
        **definition: Any,
    ) -> Schedule: ...

    @operation(
        *("create_schedule", "POST", "/schedules", Role.OPERATOR, "add"), status=201, errors=(409,)
    )
    def create(
        self,
        name: str,
        by: By = "",
        template: str | None = None,
        replace: Annotated[
            bool, Given("Replace the definition of a schedule of that name, if there is one.")
        ] = False,
        **definition: Any,
    ) -> Schedule:
        """Create a schedule from a trigger, a target and policies.

        Instead of the trigger you can give `cron`, with `tz`, or `frequency_unit`, `frequency_time`
        and `start_ts`; instead of the target `event_topic`, `event_type` and `event_data`.
        Commands, requests and events need an admin; operators can use tasks that workers know.
        `enabled: false`, or `active: false`, creates it paused. With `replace: true`, a schedule
        of that name gets this definition instead of a 409.
        """

    @operation(
        *("replace_schedule", "PUT", "/schedules/{name}", Role.OPERATOR),
        no_cli="`update` changes only the options that are given",
        errors=(409, 428),
    )
    def replace(
        self, name: ScheduleName, by: By = "", version: int | None = None, **definition: Any
    ) -> Schedule:
        """Replace the whole definition of a schedule.

        Give the version that you replace, in `If-Match` or `version`; the response is 409 if it
        is not the latest.
        """

    @operation(
        *("change_schedule", "PATCH", "/schedules/{name}", Role.OPERATOR, "update"), errors=(409,)
    )
    def update(
        self, name: ScheduleName, by: By = "", version: int | None = None, **changes: Any
    ) -> Schedule:
        """Change some fields of a definition; null resets a policy to its default.

        `If-Match` or `version` is optional; with it, the response is 409 if it is not the latest.
        """

    @operation(
        *("delete_schedule", "DELETE", "/schedules/{name}", Role.OPERATOR, "rm"),
        status=204,
        errors=(409,),
    )
    def delete(self, name: ScheduleName, version: int | None = None) -> None:
        """Delete a schedule: queued runs are cancelled, running ones finish, its name is free
        again.

        Its runs and its ledger can still be read.
        """

    @operation(
        *("pause_schedule", "POST", "/schedules/{name}/pause", Role.OPERATOR, "pause"),
        errors=(409,),
    )
    def pause(
        self, name: ScheduleName, reason: str | None = None, until: str | datetime | None = None
    ) -> Schedule:
        """Pause a schedule: its due times wait until it is resumed, or until `until`."""

    @operation(
        *("resume_schedule", "POST", "/schedules/{name}/resume", Role.OPERATOR, "resume"),
        errors=(409,),
    )
    def resume(self, name: ScheduleName) -> Schedule:
        """Resume a schedule; `on_resume` decides about the due times during the pause."""

    @operation(
        *("trigger_schedule", "POST", "/schedules/{name}/trigger", Role.OPERATOR, "run"),
        status=201,
        errors=(409,),
    )
    def trigger(self, name: ScheduleName, payload: Payload = None) -> Run:
        """Queue a run now, in addition to the due times; also while the schedule is paused."""

    @operation(
        *("reschedule", "POST", "/schedules/{name}/reschedule", Role.OPERATOR, "reschedule"),
        errors=(409,),
    )
    def reschedule(
        self,
        name: ScheduleName,
        at: Annotated[str | datetime, AT_ONCE],
        due_at: Annotated[str | datetime | None, AT_ONCE] = None,
    ) -> Schedule:
        """Move only the next due time; if `at` is not in the future, it is due immediately."""

    @operation(
        *("skip_next", "POST", "/schedules/{name}/skip-next", Role.OPERATOR, "skip-next"),
        errors=(409,),
        result=("schedule", "skipped_due_at"),
    )
    def skip_next(
        self, name: ScheduleName, due_at: Annotated[str | datetime | None, AT_ONCE] = None
    ) -> tuple[Schedule, datetime]:
        """Skip the next due time; it is recorded as `skipped_by_user`."""

    @operation(
        *("restore_due_time", "POST", "/schedules/{name}/restore", Role.OPERATOR, "restore"),
        errors=(409,),
    )
    def restore(self, name: ScheduleName, at: Annotated[str | datetime, AT_ONCE]) -> Schedule:
        """Undo a skip or a move of a future due time; `at` is when it was due."""

    @operation(
        *("backfill_schedule", "POST", "/schedules/{name}/backfill", Role.OPERATOR, "backfill"),
        errors=(409,),
    )
    def backfill(
        self,
        name: ScheduleName,
        start: str | datetime,
        end: str | datetime,
        reprocess: Literal["failed", "all"] | None = None,
        dry_run: bool = False,
        concurrency: Annotated[
            int | None, Given(ge=1, le=MOST_BACKFILLED, read=whole(1, MOST_BACKFILLED))
        ] = None,
        beside: bool = False,
    ) -> RunList | Moments:
        """Queue runs for the past due times from `start` to `end` that have none.

        `reprocess` also retries runs that exist: the failed ones, or all. With `dry_run` nothing is
        queued. At most `concurrency` of them run at once; more than one needs `overlap: allow`, or
        `beside`, which lets them run beside each other and beside the schedule's other runs.
        """

    @operation(
        *("undo_backfill", "POST", "/schedules/{name}/undo-backfill", Role.OPERATOR, "backfill"),
        errors=(409,),
    )
    def undo_backfill(
        self,
        name: ScheduleName,
        start: str | datetime,
        end: str | datetime,
        queued_at: Annotated[str | datetime, Given("The `ready_at` of the runs it queued.")],
    ) -> Withdrawn:
        """Cancel the runs of a backfill that have not started."""

    @operation(
        *("get_backfill", "GET", "/schedules/{name}/backfill", Role.VIEWER, "backfill"),
    )
    def backfill_progress(
        self,
        name: ScheduleName,
        start: Annotated[str | datetime, Given("The first due time that was backfilled.")],
        end: Annotated[str | datetime, Given("The last one.")],
        queued_at: Annotated[str | datetime, Given("The `ready_at` of the runs it queued.")],
    ) -> BackfillProgress:
        """Count the runs of a backfill by their status."""

    @operation(
        *("create_schedules", "POST", "/bulk/schedules", Role.OPERATOR, "add"),
        status=201,
        errors=(409,),
        bulk=True,
    )
    def create_many(
        self,
        definitions: Annotated[
            Iterable[Mapping[str, Any]], Given(alias="schedules", read=_read_list, send=list)
        ],
        by: By = "",
        owner: By = "",
    ) -> Listed:
        """Create up to 10,000 schedules, all or none.

        Errors name the schedule and its field, such as `schedules[17].trigger`.
        """

    @operation(
        *("act_on_schedules", "POST", "/bulk/actions", Role.OPERATOR),
        *("pause", "resume", "rm", "skip-next"),
        keyless=True,
    )
    def act(
        self,
        action: Action,
        filter: Annotated[Mapping[str, Any], Given(read=_read_filter)],
        dry_run: bool = False,
        reason: str | None = None,
        until: str | datetime | None = None,
    ) -> Acted:
        """Pause, resume, delete, trigger or skip the next due time of all schedules that match a
        filter.

        With `dry_run` they are only counted. The work is done in batches: after a failure, the same
        request does the rest.
        """

    @operation(
        *("declare_schedules", "PUT", "/declarations/{owner}", Role.OPERATOR, "diff", "apply"),
        tag="schedules",
        errors=(409, 429),
        bulk=True,
        computes=True,
    )
    def declare(
        self,
        definitions: Annotated[
            Iterable[Mapping[str, Any]], Given(alias="schedules", read=_read_list, send=list)
        ],
        owner: Annotated[str, Given(send=lambda value: check_name(value, "owner"))] = DEFAULT_OWNER,
        prune: Annotated[
            bool, Given("Delete schedules of this owner that are not in the list.")
        ] = False,
        adopt: Annotated[
            bool, Given("Also change schedules that this owner did not declare.")
        ] = False,
        dry_run: Annotated[bool, Given("Only show what would change.", in_query=True)] = False,
        expect: Annotated[
            str | None, Given("The fingerprint of a dry run: 409 if anything else would change.")
        ] = None,
        days: Annotated[
            int,
            Given("Compare the due times of so many days.", in_query=True, ge=0, le=MOST_DAYS),
        ] = DAYS,
        by: By = "",
        calendars: Annotated[
            Iterable[Mapping[str, Any]],
            Given("Calendars to create or change with them.", read=_read_list, send=list),
        ] = (),
    ) -> Declaration:
        """Declare up to 10,000 schedules of an owner, all or none: create, change and, with
        `prune`, delete what differs.

        `calendars` are created, or changed for all schedules that use them, in the same
        transaction. The same request again changes nothing. Pauses, skips and moves stay as they
        are. Errors name the schedule and its field, such as `schedules[17].trigger`.
        """

    @needs_database("declaring single schedules")
    def declare_one(
        self, name: str, owner: str, **definition: Any
    ) -> tuple[Schedule, Declared]: ...

    @needs_database("previewing a new schedule")
    def preview_create(self, name: str, count: int = 10, **definition: Any) -> Drafted: ...

    @needs_database("acting on chosen schedules in one transaction")
    def act_on(
        self,
        action: Action,
        names: Sequence[str],
        reason: str | None = None,
        until: str | datetime | None = None,
    ) -> NameList: ...
