"""The use cases of templates, the audit log, and what all namespaces share: nodes, queues, quotas
and tokens."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Protocol

from duebook.client.arguments import JUDGED, By, Cursor, Given, Limit, QueueName, named
from duebook.client.use_cases import needs_database, operation
from duebook.ids import check_name
from duebook.model.access import AccessToken, Role, read_namespaces, read_role
from duebook.model.change import KINDS, Change
from duebook.model.diagnosis import Diagnosis
from duebook.model.fields import read_instant, whole
from duebook.model.history import read_keep
from duebook.model.listing import Listing
from duebook.model.node import LiveNode
from duebook.model.queue import MOST, Queue, QueueLoad, Rate, read_rate
from duebook.model.quota import NamespaceUse, check_quota_name
from duebook.model.template import ScheduleTemplate
from duebook.model.zones_diff import YEAR, ZonesDiff
from duebook.timetext import format_duration, parse_duration, parse_instant
from duebook.triggers.other_zones import read_wheel

__all__ = [
    "AuditClient",
    "DoctorClient",
    "NamespacesClient",
    "NodesClient",
    "QueuesClient",
    "TemplatesClient",
    "TokensClient",
    "ZonesClient",
]

# inside the classes below `list` is a method
Changes = Listing[Change]
NodeList = list[LiveNode]
QueueList = list[QueueLoad]
TemplateList = list[ScheduleTemplate]
TokenList = list[AccessToken]
Uses = list[NamespaceUse]

_Node = Annotated[str, named("node", 1)]
_Template = Annotated[str, named("template")]
_Namespace = Annotated[str, Given(send=check_quota_name)]


def _read_keep(key: str, value: Any) -> timedelta | None:
    return None if value is None else read_keep(key, value)


class NodesClient(Protocol):
    @operation("list_nodes", "GET", "/nodes", Role.VIEWER, "nodes", shared=True)
    def list(self) -> NodeList:
        """List the nodes whose lease has not expired, by name.

        A token for some namespaces sees the nodes that serve at least one of them, and only its own
        runs are counted.
        """

    @operation(
        *("drain_node", "POST", "/nodes/{node}/drain", Role.ADMIN, "drain"),
        errors=(409,),
        everywhere=True,
        keyless=True,
    )
    def drain(
        self,
        node: _Node,
        stop: Annotated[bool, Given("Stop the node when its last run has finished.")] = False,
    ) -> LiveNode:
        """Drain a node: it starts no more runs, and finishes those that are running.

        Runs that it had claimed but not started are returned to the queue. The node continues to
        plan and to serve the API until it stops. Name it by its id, by its name if no other live
        node has that, or by name and process id, such as `worker-3:4711`.
        """

    @operation(
        *("undrain_node", "POST", "/nodes/{node}/undrain", Role.ADMIN, "undrain"),
        errors=(409,),
        everywhere=True,
        keyless=True,
    )
    def undrain(self, node: _Node) -> LiveNode:
        """Let a node that is draining start runs again."""


class DoctorClient(Protocol):
    @operation(
        *("examine", "GET", "/doctor", Role.VIEWER, "doctor"),
        errors=(429,),
        everywhere=True,
        computes=True,
    )
    def examine(self) -> Diagnosis:
        """Check nodes, clocks, time zone data, schedules, queues and the database.

        Always returns 200; `level` is that of the worst result.
        """

    @operation(
        *("repair", "POST", "/doctor/repairs", Role.ADMIN, "doctor"),
        errors=(429,),
        everywhere=True,
        keyless=True,
        computes=True,
    )
    def repair(self) -> Diagnosis:
        """Repair what is safe to repair, and examine again.

        Schedules whose stored times are missing or wrong are planned again from their definition.
        """

    @needs_database("recording a backup")
    def note_backup(self, path: str) -> None: ...


class ZonesClient(Protocol):
    @operation(
        *("diff_zones", "POST", "/zones/diff", Role.OPERATOR, "zones diff"),
        errors=(429,),
        everywhere=True,
        reads=True,
        computes=True,
    )
    def diff(
        self,
        wheel: Annotated[
            bytes,
            Given(
                "A tzdata wheel, in base64.",
                json=str,
                read=read_wheel,
                send=lambda wheel: b64encode(wheel).decode(),
            ),
        ],
        ahead: Annotated[
            timedelta | str,
            Given(
                "How far ahead to compare, such as `366d`.",
                json=str,
                read=lambda _, ahead: ahead,
                send=lambda ahead: format_duration(parse_duration(ahead)),
            ),
        ] = YEAR,
    ) -> ZonesDiff:
        """Show which due times of all namespaces would move with the data of a tzdata wheel.

        Nothing is installed or changed. The wheel is compared with the data that the server uses,
        whose version is `current`.
        """


class QueuesClient(Protocol):
    @operation("list_queues", "GET", "/queues", Role.VIEWER, "queue ls", shared=True)
    def list(self) -> QueueList:
        """List the queues that have limits or work, by name.

        A token for some namespaces sees the queues with runs of its own, and only those runs are
        counted.
        """

    @operation("limit_queue", "PUT", "/queues/{name}", Role.ADMIN, "queue limit", everywhere=True)
    def limit(
        self,
        name: QueueName,
        concurrency: Annotated[int | None, Given(read=whole(0, MOST))] = None,
        rate: Annotated[str | Rate | None, Given(read=read_rate)] = None,
    ) -> Queue:
        """Limit a queue across all nodes; a concurrency of 0 starts nothing from it."""

    @operation(
        *("free_queue", "DELETE", "/queues/{name}", Role.ADMIN, "queue free"),
        status=204,
        everywhere=True,
    )
    def free(self, name: QueueName) -> None:
        """Remove the limits of a queue."""


class TemplatesClient(Protocol):
    @operation("list_templates", "GET", "/templates", Role.VIEWER, "template ls")
    def list(self) -> TemplateList:
        """List the templates of a namespace, by name."""

    @operation("get_template", "GET", "/templates/{name}", Role.VIEWER, "template show")
    def get(self, name: _Template) -> ScheduleTemplate:
        """Get a template."""

    @operation("save_template", "PUT", "/templates/{name}", Role.OPERATOR, "template save")
    def save(self, name: _Template, by: By = "", **defaults: Any) -> ScheduleTemplate:
        """Save some fields of a definition as a template; they replace all previous ones."""

    @operation(
        *("remove_template", "DELETE", "/templates/{name}", Role.OPERATOR, "template rm"),
        status=204,
    )
    def remove(self, name: _Template) -> None:
        """Delete a template; schedules created from it stay as they are."""


class AuditClient(Protocol):
    @operation("list_changes", "GET", "/audit", Role.VIEWER, "audit")
    def list(
        self,
        kind: Annotated[
            str | None,
            Given(f"One of {', '.join(KINDS)}."),
        ] = None,
        subject: Annotated[str | None, Given("The name of what was changed.")] = None,
        by: Annotated[str | None, Given("Who made the change, such as `token:ci`.")] = None,
        since: Annotated[str | datetime | None, Given("At this time or later.")] = None,
        until: Annotated[str | datetime | None, Given("At this time or earlier.")] = None,
        cursor: Cursor = None,
        limit: Limit = 100,
        everywhere: Annotated[
            bool, Given("In all namespaces and in what they share; needs a token for all.")
        ] = False,
    ) -> Changes:
        """List the changes in a namespace, newest first; secrets are left out."""


class NamespacesClient(Protocol):
    @operation("list_namespaces", "GET", "/namespaces", Role.VIEWER, "namespace ls", shared=True)
    def list(self) -> Uses:
        """List the namespaces with schedules or a quota that the token sees."""

    @operation(
        *("limit_namespace", "PUT", "/namespaces/{name}", Role.ADMIN, "namespace limit"),
        everywhere=True,
    )
    def limit(
        self,
        name: _Namespace,
        schedules: Annotated[int | None, JUDGED] = None,
        fires_per_minute: Annotated[float | None, JUDGED] = None,
        payload_bytes: Annotated[int | None, JUDGED] = None,
        definition_bytes: Annotated[int | None, JUDGED] = None,
        max_priority: Annotated[int | None, JUDGED] = None,
    ) -> NamespaceUse:
        """Limit what a namespace may hold; what it already holds stays.

        The name `*` stands for every namespace that has no such limit of its own.
        """

    @operation(
        *("free_namespace", "DELETE", "/namespaces/{name}", Role.ADMIN, "namespace free"),
        status=204,
        everywhere=True,
    )
    def free(self, name: _Namespace) -> None:
        """Remove the quota of a namespace."""

    @operation(
        *("keep_namespace", "PUT", "/namespaces/{name}/keep", Role.ADMIN, "namespace keep"),
        everywhere=True,
    )
    def keep(
        self,
        name: _Namespace,
        keep: Annotated[
            str | timedelta | None,
            Given(
                "Such as `30d`, from `1h` to `3650d`; null: as long as the others.",
                read=_read_keep,
                send=lambda value: None if value is None else parse_duration(value),
            ),
        ] = None,
    ) -> NamespaceUse:
        """Set how long a namespace keeps its runs, with their logs and outputs.

        Older runs are deleted within minutes. The name `*` stands for every namespace without a
        setting of its own; the default is 90 days. A schedule's own `keep` and `keep_last` take
        precedence.
        """

    @needs_database("recounting a namespace")
    def recount(self, name: str) -> tuple[int, int]: ...


class TokensClient(Protocol):
    @operation("list_tokens", "GET", "/tokens", Role.ADMIN, "token ls", everywhere=True)
    def list(self) -> TokenList:
        """List all tokens by name, also revoked and expired ones; their secrets cannot be shown."""

    @operation(
        *("create_token", "POST", "/tokens", Role.ADMIN, "token create"),
        status=201,
        errors=(409,),
        everywhere=True,
        keyless=True,
        result=("", "token"),
    )
    def create(
        self,
        name: Annotated[str, Given(read=lambda _, value: check_name(value, "token"))],
        role: Annotated[
            str | Role,
            Given(read=lambda _, value: read_role(value), send=lambda role: str(read_role(role))),
        ],
        namespaces: Annotated[
            str | Sequence[str],
            Given(read=lambda _, value: read_namespaces(value), send=read_namespaces),
        ],
        expires_at: Annotated[
            str | datetime | None, Given(read=read_instant, send=parse_instant)
        ] = None,
    ) -> tuple[AccessToken, str]:
        """Create a token; its secret is shown only this once."""

    @operation(
        *("revoke_token", "DELETE", "/tokens/{name}", Role.ADMIN, "token revoke"),
        errors=(409,),
        everywhere=True,
    )
    def revoke(self, name: Annotated[str, named("token")]) -> AccessToken:
        """Revoke a token, by its name or id."""

    @needs_database("checking a token")
    def check(self, text: str) -> AccessToken | None: ...

    @needs_database("checking a token")
    def look_up(self, text: str) -> tuple[AccessToken, datetime] | None: ...
