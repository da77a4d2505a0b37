"""The use cases of missed due times that wait for an operator."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Protocol

from duebook.book.catchup import MOST_APPROVED
from duebook.client.arguments import Cursor, Given, Limit, ScheduleName
from duebook.client.use_cases import operation
from duebook.model.access import Role
from duebook.model.fields import read_labels, whole
from duebook.model.held import BulkDecision, CatchupDecision, DecisionKind, HeldRange
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
_Newest = Annotated[
    int | None, Given("Only so many, the newest ones.", read=whole(1, MOST_APPROVED))
]
_RejectRest = Annotated[bool, Given("Reject all others that are held.")]
_Labels = Annotated[
    Mapping[str, str] | None,
    Given(
        "The schedule must have all of these labels; by default all schedules.",
        json=dict[str, str],
        read=lambda key, value: dict(read_labels(key, value)),
    ),
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
        newest: _Newest = None,
        reject_rest: _RejectRest = False,
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

    @operation(
        *("decide_catchup", "POST", "/bulk/catchup", Role.OPERATOR),
        *("catchup approve", "catchup reject"),
        keyless=True,
    )
    def decide(
        self,
        decision: DecisionKind,
        labels: _Labels = None,
        newest: _Newest = None,
        reject_rest: _RejectRest = False,
        dry_run: _DryRun = False,
    ) -> BulkDecision:
        """Approve or reject the held due times of all schedules that have all of the labels.

        `newest` and `reject_rest` apply to each schedule, and only with `approve`. Each schedule is
        decided separately: one that cannot be decided is counted in `refused` and stays unchanged.
        After a failure, the same request does the rest.
        """
