"""The parts of a remote client: derived from the table, plus what takes more than one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.book.waiting import wait_in_turn
from duebook.client.access import (
    AuditClient,
    DoctorClient,
    NamespacesClient,
    NodesClient,
    QueuesClient,
    TemplatesClient,
    TokensClient,
    ZonesClient,
)
from duebook.client.alerts import AlertsClient
from duebook.client.arguments import check_run_id
from duebook.client.calendars import CalendarsClient, FeedsClient, WindowsClient
from duebook.client.catchup import CatchupClient
from duebook.client.events import EventsClient
from duebook.client.flows import FlowsClient
from duebook.client.runs import RunsClient
from duebook.client.schedules import SchedulesClient
from duebook.client.shadow import ShadowClient
from duebook.errors import Invalid, shorten
from duebook.explain import Explanation
from duebook.ids import SHORT_ID
from duebook.model.codec import decode
from duebook.model.consumer import SINKS
from duebook.model.due_time import DueTime
from duebook.model.listing import Listing
from duebook.model.run import Run
from duebook.remote.needs import needs_database
from duebook.remote.readings import read_edit, read_schedule
from duebook.remote.requests import Part
from duebook.remote.server import PAGE
from duebook.remote.waiting import wait_for_run, wait_for_run_async
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from duebook.book.waiting import Timeout
    from duebook.client.events import Consumers
    from duebook.client.runs import Ended
    from duebook.client.schedule_reader import DueTimeList, Explanations, Listed, Moments
    from duebook.client.schedules import RunList
    from duebook.model.edited import Edited
    from duebook.model.schedule import Schedule

__all__ = [
    "RemoteAlerts",
    "RemoteAudit",
    "RemoteCalendars",
    "RemoteCatchup",
    "RemoteDoctor",
    "RemoteEvents",
    "RemoteFeeds",
    "RemoteFlows",
    "RemoteNamespaces",
    "RemoteNodes",
    "RemoteQueues",
    "RemoteRuns",
    "RemoteSchedules",
    "RemoteShadow",
    "RemoteTemplates",
    "RemoteTokens",
    "RemoteWindows",
    "RemoteZones",
]

EDITED: Final = 10
"""How many due times a server shows before and after an edit."""


class RemoteSchedules(Part, SchedulesClient):
    """As Schedules; the author of changes is the owner of the token, not `by`."""

    def create_many(
        self, definitions: Iterable[Mapping[str, Any]], by: str = "", owner: str = ""
    ) -> Listed:
        form = self.ask("create_schedules", definitions=definitions)
        made = [brief["id"] for brief in form["items"]]
        found: dict[str, Schedule] = {}
        left, cursor = set(made), None
        while left:  # the response has only their new fields
            page = self.list(sort="-created_at", cursor=cursor, limit=PAGE)
            found |= {schedule.id: schedule for schedule in page if schedule.id in left}
            left -= found.keys()
            cursor = page.next_cursor
            if cursor is None:
                break
        return Listing(found[id_] for id_ in made if id_ in found)

    def replace(
        self, name: str, by: str = "", version: int | None = None, **definition: Any
    ) -> Schedule:
        if version is None:
            version = self.get(name).version
        given = {"name": name, "version": version, "definition": definition}
        return read_schedule(self.ask("replace_schedule", **given))

    def preview_update(self, name: str, count: int = 10, **changes: Any) -> Edited:
        if count > EDITED:
            raise Invalid(f"count {shorten(count)}: a server shows {EDITED} due times at most")
        edit = read_edit(self.ask("preview_update", name=name, changes=changes), name)
        return edit._replace(was_due=edit.was_due[:count], will_be_due=edit.will_be_due[:count])

    def backfill(
        self,
        name: str,
        start: str | datetime,
        end: str | datetime,
        reprocess: str | None = None,
        dry_run: bool = False,
        concurrency: int | None = None,
        beside: bool = False,
    ) -> RunList | Moments:
        given = {"start": start, "end": end, "reprocess": reprocess, "dry_run": dry_run}
        how = {"concurrency": concurrency, "beside": beside}
        form = self.ask("backfill_schedule", name=name, **given, **how)
        if dry_run:
            return [parse_instant(at) for at in form["due_times"]]
        return [decode(Run, run) for run in form["runs"]]

    def preview(self, name: str, count: int = 10) -> DueTimeList:
        found = self.ask("preview_schedule", name=name, count=count)
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
        found = self.ask("explain_schedule", name=name, at=at, start=start, end=end, tz=tz)
        told = [decode(Explanation, form) for form in found["items"]]
        return told if at is None else told[0]


class RemoteCatchup(Part, CatchupClient):
    """As Catchup."""


class RemoteRuns(Part, RunsClient):
    """As Runs."""

    def wait(self, run_id: str, timeout: Timeout = None) -> Run:
        return wait_for_run(self._server, check_run_id(run_id), timeout)

    async def wait_async(self, run_id: str, timeout: Timeout = None) -> Run:
        """As `wait`, without a thread."""
        return await wait_for_run_async(self._server, check_run_id(run_id), timeout)

    def wait_all(self, run_ids: Sequence[str], timeout: Timeout = None) -> Ended:
        return wait_in_turn(self.wait, run_ids, timeout)

    def cancel(self, run_id: str) -> str:
        form = self.ask("cancel_run", run_id=run_id)
        return "cancelled" if form["status"] == "cancelled" else "requested"

    def short_ids(self, runs: Sequence[Run]) -> dict[str, str]:
        """Prefixes that distinguish these runs; the server reports one that matches other runs."""
        ids = sorted(run.id for run in runs)
        pairs = zip(ids, [None, *ids], [*ids[1:], None], strict=False)
        return {own: _beginning(own, before, after) for own, before, after in pairs}


def _beginning(own: str, *others: str | None) -> str:
    length = SHORT_ID
    while any(other is not None and other[:length] == own[:length] for other in others):
        length += 1
    return own[:length]


class RemoteEvents(Part, EventsClient):
    """As Events; secrets in the data of events are hidden."""

    def publish(
        self,
        topic: str,
        data: Any = None,
        *,
        key: str = "",
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        connection: Any = None,
    ) -> str:
        if connection is not None:
            raise needs_database("publishing in a transaction")
        event_id: str = self.ask("publish_event", topic=topic, data=data, key=key, type=type)["id"]
        return event_id

    def sinks(self) -> Consumers:
        return [one for one in self.consumers() if one.kind in SINKS]


class RemoteFlows(Part, FlowsClient):
    """As Flows; the texts of files can only be read from the database."""


class RemoteNodes(Part, NodesClient):
    """As Nodes."""


class RemoteDoctor(Part, DoctorClient):
    """As Doctor."""


class RemoteZones(Part, ZonesClient):
    """As Zones."""


class RemoteQueues(Part, QueuesClient):
    """As Queues."""


class RemoteTemplates(Part, TemplatesClient):
    """As Templates."""


class RemoteCalendars(Part, CalendarsClient):
    """As Calendars."""


class RemoteWindows(Part, WindowsClient):
    """As Windows."""


class RemoteShadow(Part, ShadowClient):
    """As Shadow."""


class RemoteFeeds(Part, FeedsClient):
    """As Feeds."""


class RemoteAlerts(Part, AlertsClient):
    """As Alerts."""


class RemoteAudit(Part, AuditClient):
    """As Audit."""


class RemoteNamespaces(Part, NamespacesClient):
    """As Namespaces; lists only those that the token has access to."""


class RemoteTokens(Part, TokensClient):
    """As Tokens."""
