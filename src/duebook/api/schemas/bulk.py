"""The shapes of requests for many schedules at once."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from duebook.api.schemas.definitions import ListedCalendar, ListedDefinition
from duebook.api.shapes import Object, many
from duebook.model.acted import Action
from duebook.model.codec import Id, Name, Shown
from duebook.model.filters import Status

__all__ = ["BulkAction", "BulkCreation", "Created", "DeclarationRequest"]

BulkCreation: Final = Object(
    "BulkCreation",
    {"schedules": Annotated[many(ListedDefinition), Shown(least=1, most=10_000)]},
)

DeclarationRequest: Final = Object(
    "DeclarationRequest",
    {
        "schedules": Annotated[many(ListedDefinition), Shown(most=10_000)],
        "prune": NotRequired[
            Annotated[bool, Shown("Delete schedules of this owner that are not in the list.")]
        ],
        "adopt": NotRequired[
            Annotated[bool, Shown("Also change schedules that this owner did not declare.")]
        ],
        "calendars": NotRequired[
            Annotated[
                many(ListedCalendar),
                Shown("Created, or changed for all schedules that use them.", most=200),
            ]
        ],
        "expect": NotRequired[
            Annotated[
                str | None,
                Shown("The fingerprint of a dry run: 409 if anything else would change."),
            ]
        ],
    },
)


class BriefSchedule(TypedDict):
    id: Id
    name: Name
    status: Literal["active", "paused"]
    next_due_at: datetime | None


class Created(TypedDict):
    count: int
    items: list[BriefSchedule]


class ScheduleFilter(TypedDict, total=False):
    """Selects schedules that match every condition given. `{"text": "*"}` selects all."""

    status: Status | None
    label: Annotated[
        str | list[str] | dict[str, str] | None,
        Shown(examples=("team:sales", {"team": "sales"})),
    ]
    text: Annotated[
        str | None, Shown("Part of the name or title, or the start of the name: `etl-*`.")
    ]
    due_before: datetime | None
    target: Annotated[str | None, Shown(examples=("task", "task:digest", "command", "http"))]
    problem: bool | None


class BulkAction(TypedDict):
    action: Action
    filter: ScheduleFilter
    dry_run: NotRequired[bool | None]
    reason: NotRequired[Annotated[str | None, Shown("Why they are paused.")]]
    until: NotRequired[
        Annotated[datetime | None, Shown("For a pause: when they resume automatically.")]
    ]
