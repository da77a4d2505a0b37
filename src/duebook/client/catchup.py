"""The use cases of missed due times that wait for an operator."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Protocol

from duebook.book.catchup import MOST_APPROVED
from duebook.client.arguments import Cursor, Given, Limit, ScheduleName
from duebook.client.use_cases import operation
from duebook.model.access import Role
from duebook.model.fields import whole
from duebook.model.held import CatchupDecision, HeldRange
from duebook.model.listing import Listing

__all__ = ["CatchupClient"]

# inside the class below `list` is a method
HeldRanges = Listing[HeldRange]

_Start = Annotated[
    str | datetime | None, Given("The first due time; by default the first that is held.")
]
_End = Annotated[
    str | datetime | None, Given("The last due time; by default the last that is held.")
]
_DryRun = Annotated[bool, Given("Only count; change nothing.")]


class CatchupClient(Protocol):
    """Missed due times that `catchup_approval` set aside; raises NotFound for schedules that do not
    exist."""

    @operation("list_held", "GET", "/catchup", Role.VIEWER, "catchup ls", "show")
    def list(
        self,
        schedule: Annotated[str | None, Given("Only those of this schedule.")] = None,
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> HeldRanges:
        """List the missed due times that wait for an operator, by schedule."""

    @operation(
        *("approve_catchup", "POST", "/catchup/{name}/approve", Role.OPERATOR, "catchup approve"),
        errors=(409,),
    )
    def approve(
        self,
        name: ScheduleName,
        start: _Start = None,
        end: _End = None,
        newest: Annotated[
            int | None, Given("Only so many, the newest ones.", read=whole(1, MOST_APPROVED))
        ] = None,
        reject_rest: Annotated[bool, Given("Reject all others that are held.")] = False,
        dry_run: _DryRun = False,
    ) -> CatchupDecision:
        """Run held due times: all, those from `start` to `end`, or the newest ones.

        The others stay held, unless `reject_rest` is set. At most 10,000 due times at once.
        """

    @operation(
        *("reject_catchup", "POST", "/catchup/{name}/reject", Role.OPERATOR, "catchup reject"),
        errors=(409,),
    )
    def reject(
        self,
        name: ScheduleName,
        start: _Start = None,
        end: _End = None,
        dry_run: _DryRun = False,
    ) -> CatchupDecision:
        """Drop held due times: all, or those from `start` to `end`.

        They are recorded as `skipped_by_user`; a backfill can still run them.
        """
