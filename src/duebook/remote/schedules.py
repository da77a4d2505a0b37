"""What people do with the schedules of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from duebook.book.schedules import Schedules
from duebook.errors import Invalid, shorten
from duebook.model.acted import Withdrawn
from duebook.model.due_time import DueTime
from duebook.model.listing import Listing
from duebook.remote.needs import needs_database
from duebook.remote.readings import (
    read_acted,
    read_edit,
    read_exception,
    read_explanation,
    read_ledger,
    read_revision,
    read_run,
    read_schedule,
)
from duebook.remote.server import PAGE
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Unpack

    from duebook.book.schedule_reader import (
        DueTimeList,
        Entries,
        Explanations,
        Listed,
        Moments,
        Revisions,
        Said,
    )
    from duebook.book.schedules import RunList
    from duebook.explain import Explanation
    from duebook.model.acted import Acted, Action
    from duebook.model.edited import Edited
    from duebook.model.filters import EntriesWanted, ScheduleSort, SchedulesWanted
    from duebook.model.run import Run
    from duebook.model.schedule import Schedule
    from duebook.remote.server import Server

__all__ = ["RemoteSchedules"]

EDITED: Final = 10
"""Due times that a server shows before and after an edit."""


class RemoteSchedules(Schedules):
    """As Schedules; who does something is whoever the token belongs to, not `by`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def create(
        self, name: str, by: str = "", template: str | None = None, **definition: Any
    ) -> Schedule:
        given = {"name": name, **definition}
        if template is not None:
            given["template"] = template
        return read_schedule(self._server.post("schedules", body=given))

    def declare(self, name: str, by: str, **definition: Any) -> NoReturn:
        raise needs_database("declaring schedules")

    def preview_create(self, name: str, count: int = 10, **definition: Any) -> NoReturn:
        raise needs_database("looking at a schedule that is not made yet")

    def act_on(
        self,
        action: Action,
        names: Sequence[str],
        reason: str | None = None,
        until: str | datetime | None = None,
    ) -> NoReturn:
        raise needs_database("acting on chosen schedules in one transaction")

    def create_many(self, definitions: Iterable[Mapping[str, Any]], by: str = "") -> Listed:
        body = {"schedules": list(definitions)}
        made = [form["id"] for form in self._server.post("bulk", "schedules", body=body)["items"]]
        found: dict[str, Schedule] = {}
        left, cursor = set(made), None
        while left:  # the answer has only what is new about them
            page = self.list(sort="-created_at", cursor=cursor, limit=PAGE)
            found |= {schedule.id: schedule for schedule in page if schedule.id in left}
            left -= found.keys()
            cursor = page.next_cursor
            if cursor is None:
                break
        return Listing(found[id_] for id_ in made if id_ in found)

    def act(
        self,
        action: Action,
        filter: Mapping[str, Any],  # noqa: A002 - that is what it is called everywhere
        dry_run: bool = False,
        reason: str | None = None,
        until: str | datetime | None = None,
    ) -> Acted:
        body: dict[str, Any] = {"action": action, "filter": filter, "dry_run": dry_run}
        body |= {"reason": reason, "until": until}
        return read_acted(self._server.send("POST", "bulk", "actions", body=body))

    def get(self, name: str) -> Schedule:
        return read_schedule(self._server.get("schedules", _text(name)))

    def list(
        self,
        *,
        sort: ScheduleSort = "name",
        cursor: str | None = None,
        limit: int = 100,
        **wanted: Unpack[SchedulesWanted],
    ) -> Listed:
        given = _filters(wanted)
        return self._server.pages(
            read_schedule, limit, "schedules", sort=sort, cursor=cursor, **given
        )

    def update(
        self, name: str, by: str = "", version: int | None = None, **changes: Any
    ) -> Schedule:
        path = ("schedules", _text(name))
        return read_schedule(self._server.send("PATCH", *path, body=changes, version=version))

    def replace(
        self, name: str, by: str = "", version: int | None = None, **definition: Any
    ) -> Schedule:
        path = ("schedules", _text(name))
        if version is None:
            version = self.get(name).version
        return read_schedule(self._server.send("PUT", *path, body=definition, version=version))

    def revisions(self, name: str) -> Revisions:
        found = self._server.get("schedules", _text(name), "revisions")
        return [read_revision(form, name) for form in found["items"]]

    def delete(self, name: str, version: int | None = None) -> None:
        self._server.send("DELETE", "schedules", _text(name), version=version)

    def pause(
        self, name: str, reason: str | None = None, until: str | datetime | None = None
    ) -> Schedule:
        return read_schedule(self._act(name, "pause", reason=reason, until=until))

    def resume(self, name: str) -> Schedule:
        return read_schedule(self._act(name, "resume"))

    def trigger(self, name: str, payload: dict[str, Any] | None = None) -> Run:
        return read_run(self._act(name, "trigger", payload=payload))

    def render(self, name: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        form: dict[str, Any] = self._act(name, "render", payload=payload)
        return form

    def reschedule(
        self, name: str, at: str | datetime, due_at: str | datetime | None = None
    ) -> Schedule:
        meant = None if due_at is None else parse_instant(due_at)
        return read_schedule(self._act(name, "reschedule", at=parse_instant(at), due_at=meant))

    def skip_next(
        self, name: str, due_at: str | datetime | None = None
    ) -> tuple[Schedule, datetime]:
        meant = None if due_at is None else parse_instant(due_at)
        form = self._act(name, "skip-next", due_at=meant)
        return read_schedule(form["schedule"]), parse_instant(form["skipped_due_at"])

    def restore(self, name: str, at: str | datetime) -> Schedule:
        return read_schedule(self._act(name, "restore", at=parse_instant(at)))

    def preview_update(self, name: str, count: int = 10, **changes: Any) -> Edited:
        if count > EDITED:
            raise Invalid(f"count {shorten(count)}: a server shows {EDITED} due times at most")
        path = ("schedules", _text(name), "preview-update")
        edit = read_edit(self._server.post(*path, body=changes), name)
        return edit._replace(was_due=edit.was_due[:count], will_be_due=edit.will_be_due[:count])

    def backfill(
        self,
        name: str,
        start: str | datetime,
        end: str | datetime,
        reprocess: str | None = None,
        dry_run: bool = False,
    ) -> RunList | Moments:
        given = {"start": start, "end": end, "reprocess": reprocess, "dry_run": dry_run}
        form = self._act(name, "backfill", **given)
        if dry_run:
            return [parse_instant(at) for at in form["due_times"]]
        return [read_run(run) for run in form["runs"]]

    def undo_backfill(
        self,
        name: str,
        start: str | datetime,
        end: str | datetime,
        queued_at: str | datetime,
    ) -> Withdrawn:
        given = {"start": start, "end": end, "queued_at": queued_at}
        return Withdrawn(**self._act(name, "undo-backfill", **given))

    def preview(self, name: str, count: int = 10) -> DueTimeList:
        found = self._server.get("schedules", _text(name), "preview", count=count)
        kinds = found.get("kinds") or ["start"] * len(found["items"])
        moments = zip(found["items"], kinds, strict=True)
        return [DueTime.of(parse_instant(at), kind) for at, kind in moments]

    def explain(
        self,
        name: str,
        at: str | datetime | None = None,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        tz: str | None = None,
    ) -> Explanation | Explanations:
        path = ("schedules", _text(name), "explain")
        found = self._server.get(*path, at=at, start=start, end=end, tz=tz)
        told = [read_explanation(form) for form in found["items"]]
        return told if at is None else told[0]

    def ledger(
        self,
        name: str,
        limit: int = 20,
        *,
        cursor: str | None = None,
        **wanted: Unpack[EntriesWanted],
    ) -> Entries:
        path = ("schedules", _text(name), "ledger")
        return self._server.pages(read_ledger, limit, *path, cursor=cursor, **_filters(wanted))

    def exceptions(self, name: str) -> Said:
        found = self._server.get("schedules", _text(name), "exceptions")
        return [read_exception(form) for form in found["items"]]

    def _act(self, name: str, action: str, **given: Any) -> Any:
        body = {key: value for key, value in given.items() if value is not None}
        return self._server.post("schedules", _text(name), action, body=body)


def _text(name: object) -> str:
    if isinstance(name, str):
        return name
    raise Invalid(f"name {shorten(name)} is no text")


def _filters(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """An object of labels as the texts that stand in a query."""
    given = dict(wanted)
    if isinstance(labels := given.get("label"), dict):
        given["label"] = [f"{name}:{value}" for name, value in labels.items()]
    return given
