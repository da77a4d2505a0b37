"""The use cases of calendars, maintenance windows and iCal feeds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, Final, Protocol

from duebook.client.arguments import AT_ONCE, By, Given, labels_read, named
from duebook.client.use_cases import operation
from duebook.model.access import Role
from duebook.model.calendar import Calendar, CalendarEdit
from duebook.model.feed import Feed
from duebook.model.window import MaintenanceWindow

__all__ = ["CalendarsClient", "FeedsClient", "WindowsClient"]

# inside the classes below `list` is a method
CalendarList = list[Calendar]
DayList = list[str]
FeedList = list[Feed]
WindowList = list[MaintenanceWindow]

_Calendar = Annotated[str, named("calendar", 1)]
_Feed = Annotated[str, named("feed", 1)]
_LABELS: Final = labels_read("The schedule must have all of these labels.")
_Window = Annotated[str, named("window", 1)]


class CalendarsClient(Protocol):
    @operation("list_calendars", "GET", "/calendars", Role.VIEWER, "calendar ls")
    def list(self) -> CalendarList:
        """List the calendars of a namespace, by name, without the texts of iCal files."""

    @operation("get_calendar", "GET", "/calendars/{name}", Role.VIEWER, "calendar show")
    def get(self, name: _Calendar) -> Calendar:
        """Get a calendar, as it was defined."""

    @operation(
        *("list_calendar_days", "GET", "/calendars/{name}/days", Role.VIEWER, "calendar days"),
        result="days",
    )
    def days(
        self,
        name: _Calendar,
        start: Annotated[str | date | None, Given("The first day; by default today.")] = None,
        end: Annotated[str | date | None, Given("The last day; by default a year later.")] = None,
    ) -> DayList:
        """List the days of a calendar, from 2000 to 2099."""

    @operation(
        *("preview_calendar", "POST", "/calendars/{name}/preview", Role.OPERATOR, "calendar add"),
        reads=True,
        computes=True,
        errors=(429,),
    )
    def preview(self, name: _Calendar, **definition: Any) -> CalendarEdit:
        """Show what saving this definition would change, without saving it.

        Lists the days that the calendar gains and loses, and the due times that appear and
        disappear, for up to 1,000 schedules; `until` is the instant up to which they were compared.
        """

    @operation(
        *("save_calendar", "PUT", "/calendars/{name}", Role.OPERATOR, "calendar add"),
        computes=True,
        errors=(409, 429),
    )
    def save(
        self, name: _Calendar, by: By = "", version: int | None = None, **definition: Any
    ) -> Calendar:
        """Create a calendar, or change it for all schedules that use it.

        A definition has `dates`, `weekdays`, `rrule`, `holidays`, `ical` and `calendars`, which are
        united, and `without`, an object with the same fields.
        """

    @operation(
        *("remove_calendar", "DELETE", "/calendars/{name}", Role.OPERATOR, "calendar rm"),
        status=204,
        errors=(409,),
    )
    def remove(self, name: _Calendar) -> None:
        """Delete a calendar that nothing uses."""


class WindowsClient(Protocol):
    @operation("list_windows", "GET", "/windows", Role.VIEWER, "window ls")
    def list(self) -> WindowList:
        """List the maintenance windows of a namespace by their start, including ended ones."""

    @operation(
        *("add_window", "POST", "/windows", Role.OPERATOR, "window add"),
        status=201,
        errors=(409,),
    )
    def add(
        self,
        name: str,
        start_at: Annotated[str | datetime, AT_ONCE],
        end_at: Annotated[str | datetime, AT_ONCE],
        labels: Annotated[Mapping[str, str] | None, _LABELS] = None,
        by: By = "",
    ) -> MaintenanceWindow:
        """Pause the schedules that have all of the labels, from `start_at` until `end_at`.

        Due times in the window are recorded as `paused` and do not run afterwards.
        """

    @operation(
        *("remove_window", "DELETE", "/windows/{name}", Role.OPERATOR, "window rm"),
        status=204,
        errors=(409,),
    )
    def remove(self, name: _Window) -> None:
        """End a maintenance window now, or delete it if it has not started."""


class FeedsClient(Protocol):
    @operation("list_feeds", "GET", "/feeds", Role.ADMIN, "feed ls")
    def list(self) -> FeedList:
        """List the iCal feeds of a namespace, by name; their tokens cannot be shown."""

    @operation(
        *("create_feed", "POST", "/feeds", Role.ADMIN, "feed create"),
        status=201,
        errors=(409,),
        keyless=True,
        result=("", "token"),
    )
    def create(
        self,
        name: str,
        labels: Annotated[Mapping[str, str] | None, _LABELS] = None,
    ) -> tuple[Feed, str]:
        """Create an iCal feed; its token is shown only this once.

        The token opens `/api/v1/schedules.ics?token=…` and nothing else.
        """

    @operation(
        *("revoke_feed", "DELETE", "/feeds/{name}", Role.ADMIN, "feed revoke"),
        status=204,
    )
    def revoke(self, name: _Feed) -> None:
        """Revoke an iCal feed."""
