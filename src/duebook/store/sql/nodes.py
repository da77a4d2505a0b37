"""Nodes in a transaction: their sessions and leases, the leader, and the tasks they know."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.model.node import Drain, LiveNode
from duebook.model.serving import ALL, Serving, StrandedTask, serving_of, unserved
from duebook.store.sql.consumers import read_consumer
from duebook.store.sql.rows import clean
from duebook.store.sql.schema import refuse_unfit
from duebook.store.sql.statements import Part, Row, Statements, Values
from duebook.store.values import Abilities, Neighbour, News, Pulse, SessionInfo, SessionSpan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.store.sql.attempts import Attempts
    from duebook.store.sql.claims import Claims
    from duebook.store.sql.flow_runs import FlowRuns
    from duebook.store.sql.plans import Plans

__all__ = ["Nodes"]

FOR_EVER: Final = timedelta(days=36_500)


class Nodes(Part):
    """Sessions of nodes, and what the live ones serve."""

    def __init__(
        self, db: Statements, plans: Plans, attempts: Attempts, claims: Claims, flow_runs: FlowRuns
    ) -> None:
        super().__init__(db)
        self._plans = plans
        self._attempts = attempts
        self._claims = claims
        self._flow_runs = flow_runs

    def begin_session(self, session: SessionInfo, lease: timedelta) -> None:
        """Raises Conflict if the schema has become too new for this version."""
        refuse_unfit(self._db)
        self._db.run(
            "insert_session",
            id=session.id,
            node=clean(session.node),
            pid=session.pid,
            roles=session.roles,
            version=session.version,
            tzdata=session.tzdata,
            tasks=json.dumps(session.tasks),
            clock_ahead=self._db.ahead.total_seconds(),
            queues=json.dumps(session.queues),
            labels=json.dumps(dict(session.labels)),
            namespaces=json.dumps(session.namespaces.to_json()),
            secrets=json.dumps(session.secrets),
            machine=session.machine,
            process_started=session.process_started,
            now=self._db.now,
            expires_at=self._db.now + lease,
        )

    def renew(self, session_id: str, lease: timedelta) -> bool:
        """Renew a session's lease; False when it was declared dead."""
        seen: Values = {"now": self._db.now, "expires_at": self._db.now + lease}
        seen["clock_ahead"] = self._db.ahead.total_seconds()
        return self._db.run("renew_session", id=session_id, **seen) == 1

    def end_session(self, session_id: str) -> None:
        """The node leaves; its remaining runs are taken over, and it no longer leads."""
        self._db.run("end_session", id=session_id, now=self._db.now)
        if self._db.run("release_lead", id=session_id, now=self._db.now):
            self._db.notify(News.LEAD)
        self._db.run("release_directories", id=session_id, now=self._db.now)
        self._miss()

    def _miss(self) -> None:
        """A node is gone: alert rules may watch what it did."""
        if self._db.run("look_everywhere"):
            self._db.notify(News.LOG)

    def end_all_sessions(self) -> int:
        """End all sessions, because this is a copy: there is no leader, and all runs are taken
        over. Returns how many there were."""
        ids = [id_ for (id_,) in self._db.all("list_open_sessions")]
        for id_ in ids:
            self.end_session(id_)
        return len(ids)

    def bury(self, trusted: timedelta = FOR_EVER) -> list[str]:
        """Declare sessions dead whose lease has expired; returns their ids.

        Not those with a longer lease than `trusted`: after an outage they may not have had the time
        to renew it.
        """
        longest = min(trusted, FOR_EVER) // timedelta(microseconds=1)
        rows = self._db.all("end_expired_sessions", now=self._db.now, longest=longest)
        if rows:
            self._miss()
        return [row[0] for row in rows]

    def serve_queues(self, session_id: str, queues: Sequence[str]) -> None:
        """Set the queues that the node of a session serves from now on."""
        self._db.run("serve_queues", id=session_id, queues=json.dumps(queues))

    def drain(self, session_id: str, drain: Drain | None) -> None:
        """Ask the node of a session to start no more runs; None: it may again."""
        self._db.run(
            "drain_session",
            id=session_id,
            draining_at=None if drain is None else drain.at,
            stops=drain is not None and drain.stops,
        )
        self._miss()
        self._db.notify(News.DRAIN)

    def get_drain(self, session_id: str) -> Drain | None:
        """Whether the node of a session was asked to start no more runs."""
        row = self._db.one("get_session_drain", id=session_id)
        return None if row is None else self._drain(*row)

    def _drain(self, at: Any, stops: Any) -> Drain | None:
        return None if at is None else Drain(self._db.time(at), bool(stops))

    def bury_gone(self, session_ids: Sequence[str]) -> list[str]:
        """Declare sessions dead whose process has ended, whatever their lease, and let others lead
        at once; returns those that were not dead yet."""
        if not session_ids:
            return []
        now, ids = self._db.now, list(session_ids)
        dead = [row[0] for row in self._db.all("end_gone_sessions", ids=ids, now=now)]
        for session_id in dead:
            if self._db.run("release_lead", id=session_id, now=now):
                self._db.notify(News.LEAD)
        if dead:
            self._miss()
        return dead

    def neighbours(self, session_id: str) -> list[Neighbour]:
        """The other sessions on its machine that have not ended."""
        return [Neighbour._make(row) for row in self._db.all("list_neighbours", id=session_id)]

    def pulse(
        self,
        session_id: str,
        lease: timedelta,
        queues: Sequence[str],
        leads: bool,
        namespaces: Serving = ALL,
    ) -> Pulse:
        """Like Store.pulse, in a transaction with other things."""
        alive = self.renew(session_id, lease)
        term = self._lead(session_id, lease) if leads and alive else None
        return Pulse(
            now=self._db.now,
            alive=alive,
            term=term,
            lead_until=self._db.time(self._db.value("get_lead")) if leads else None,
            wake_at=self._plans.earliest_wake(),
            queued=self._any_queued(queues, namespaces),
            ready_at=self._claims.earliest_ready(),
            expiry=self._attempts.earliest_expiry(),
            deaths=bool(self._db.value("get_any_death", id=session_id, now=self._db.now)),
            own=tuple(self._claims.own_runs(session_id)),
            behind=self._db.behind,
            sinks=tuple(read_consumer(row) for row in self._db.all("list_sinks")),
            flow_at=self._flow_runs.earliest_flow().earliest,
            neighbours=tuple(self.neighbours(session_id)),
            drain=self.get_drain(session_id),
            alerts=bool(self._db.value("is_alert_due", now=self._db.now)),
        )

    def _any_queued(self, queues: Sequence[str], namespaces: Serving) -> bool:
        where = {"queues": list(queues), "namespaces": namespaces.listed}
        return self._db.one("get_any_queued", **where) is not None

    def _lead(self, session_id: str, lease: timedelta) -> int | None:
        """The term of this node's leadership, kept or taken."""
        mine: Values = {"id": session_id, "expires_at": self._db.now + lease}
        term: int | None = self._db.value("keep_lead", **mine)
        return term if term is not None else self._db.value("take_lead", now=self._db.now, **mine)

    def holds_term(self, session_id: str, term: int) -> bool:
        """Whether the session leads under this term; the leadership cannot change before the
        transaction ends."""
        return self._db.one("get_term", id=session_id, term=term) is not None

    def list_sessions(self, since: datetime, until: datetime) -> list[SessionSpan]:
        """The nodes that were alive at some time from `since` to `until`."""
        time = self._db.time
        rows = self._db.all("list_sessions", since=since, until=until)
        return [
            SessionSpan(id_, node, roles, *map(time, times)) for id_, node, roles, *times in rows
        ]

    def list_nodes(self, of: Serving = ALL) -> list[LiveNode]:
        """The nodes whose lease has not expired, by name, the oldest first.

        For some namespaces: those that serve one of them, with what they run of them.
        """
        nodes = [self._node(row) for row in self._db.all("list_nodes", now=self._db.now)]
        if of == ALL:
            return nodes
        running: Counter[str] = Counter()
        for session_id, namespace, number in self._db.all("list_running_by_node"):
            if namespace in of:
                running[session_id] += number
        own = (node.seen_by(of) for node in nodes)
        return [
            replace(node, running=running[node.id]) for node in own if node.namespaces.names != ()
        ]

    def _node(self, row: Row) -> LiveNode:
        id_, node, pid, roles, version, tzdata, *rest, ahead, running, leads = row[:-3]
        draining_at, stops_when_idle, unserved = row[-3:]
        tasks, queues, namespaces, labels, secrets, *times = rest
        started_at, seen_at, expires_at = map(self._db.time, times)
        return LiveNode(
            id_,
            node,
            pid,
            tuple(roles.split(",")),
            version,
            tzdata,
            tuple(json.loads(tasks)),
            tuple(json.loads(queues)),
            serving_of(json.loads(namespaces)),
            json.loads(labels),
            started_at,
            seen_at,
            expires_at,
            timedelta(seconds=ahead),
            running,
            bool(leads),
            self._db.time(draining_at),
            bool(stops_when_idle),
            json.loads(secrets),
            json.loads(unserved),
        )

    def tell_tasks(self, session_id: str, tasks: Sequence[str]) -> None:
        """Set the tasks that the session knows from now on."""
        self._db.run("tell_tasks", id=session_id, tasks=json.dumps(list(tasks)))

    def tell_unserved(self, session_id: str, unserved: Mapping[str, Mapping[str, str]]) -> None:
        """The session can serve all sinks but these, by namespace; the reasons are for display."""
        told = {
            namespace: {name: clean(why) for name, why in sinks.items()}
            for namespace, sinks in unserved.items()
        }
        self._db.run("tell_unserved", id=session_id, unserved=json.dumps(told))

    def list_served(self) -> list[Serving]:
        """The namespaces that each live worker serves, without duplicates."""
        return self.list_abilities().served

    def list_known_tasks(self, namespace: str) -> set[str]:
        """The tasks known to any live worker that serves the namespace."""
        return self.list_abilities().tasks_of(namespace)

    def list_abilities(self) -> Abilities:
        """What the live workers serve and know."""
        return self.read_abilities(self._db.all("list_abilities", now=self._db.now))

    def read_abilities(self, rows: Sequence[Row]) -> Abilities:
        """Like `list_abilities`, from the rows of that statement."""
        served: dict[Serving, None] = {}
        known = []
        for namespaces, tasks, is_worker in rows:
            serving = serving_of(json.loads(namespaces))
            if is_worker:
                served[serving] = None
            if tasks != "[]":
                known.append((serving, json.loads(tasks)))
        return Abilities(list(served), known)

    def list_stranded_tasks(self) -> list[StrandedTask]:
        """The tasks of queued runs that no live worker of their namespace knows.

        Omits namespaces that no worker serves while there are live ones.
        """
        served, known = self.list_abilities()
        anywhere = {task for _, tasks in known for task in tasks}
        return [
            StrandedTask(namespace, task, task in anywhere)
            for namespace, task in self._db.all("list_waiting_tasks")
            if unserved(namespace, served) is None
            and not any(namespace in serving and task in tasks for serving, tasks in known)
        ]
