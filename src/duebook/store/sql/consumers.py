"""Readers of the log in a transaction: members, fenced cursors, dead letters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.model.consumer import Consumer, Cursor, DeadLetter, HeldKey, Lag, Move, Partition
from duebook.model.event import Event, event_kept, slot_of
from duebook.model.listing import Found, PagePosition
from duebook.store.sql.events import MOST_BYTES, Events
from duebook.store.sql.rows import LATEST, clean, micros, moment
from duebook.store.sql.statements import Part, Row, Statements
from duebook.store.values import News
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import timedelta

    Share = Callable[[str, Collection[str], Mapping[int, str | None]], tuple[set[int], set[int]]]
    """from one's own name, the live members and all owners: what to release and what to take"""

__all__ = ["Consumers", "read_consumer"]


class Consumers(Part):
    """Only the owner of a cursor, under its term, moves it; it cannot be taken during a move."""

    def __init__(self, db: Statements, events: Events) -> None:
        super().__init__(db)
        self._events = events

    def save_consumer(self, consumer: Consumer, start: int) -> Consumer:
        """Create a group or sink that starts after a position; an existing one keeps its position.

        All but its partitions is replaced. Raises Conflict when it is of another kind.
        """
        found = self._db.one("get_consumer", namespace=consumer.namespace, name=consumer.name)
        if found is not None:
            return self._changed(read_consumer(found), consumer)
        key = {"namespace": consumer.namespace, "name": consumer.name}
        made = self._db.run(
            "insert_consumer",
            **key,
            kind=consumer.kind,
            topics=_json_topics(consumer),
            partitions=consumer.partitions,
            attempts=consumer.attempts,
            options=json.dumps(consumer.options),
            types=_json_types(consumer),
            labels=json.dumps(consumer.labels),
            now=self._db.now,
        )
        if not made:  # another transaction created it just now
            return self._changed(self.get_consumer(**key), consumer)
        self._db.many(
            "insert_cursor",
            [{**key, "part": part, "position": start} for part in range(consumer.partitions)],
        )
        self._db.notify(News.SINKS)
        return self.get_consumer(consumer.namespace, consumer.name)

    def _changed(self, former: Consumer, consumer: Consumer) -> Consumer:
        """With the new settings; the number of partitions stays, because keys belong to them."""
        if former.kind != consumer.kind:
            kinds = f"{former.kind}, not {consumer.kind}"
            raise Conflict(f'consumer "{consumer.name}" already exists, as a {kinds}')
        if replace(consumer, partitions=former.partitions) == former:
            return former
        self._db.run(
            "update_consumer",
            namespace=consumer.namespace,
            name=consumer.name,
            topics=_json_topics(consumer),
            attempts=consumer.attempts,
            options=json.dumps(consumer.options),
            types=_json_types(consumer),
            labels=json.dumps(consumer.labels),
        )
        self._db.notify(News.SINKS)
        return self.get_consumer(consumer.namespace, consumer.name)

    def lock_consumer(self, namespace: str, name: str) -> None:
        """Others that lock it wait until this transaction ends; it need not exist."""
        self._db.one("lock_consumer", namespace=namespace, name=name)

    def get_consumer(self, namespace: str, name: str) -> Consumer:
        """Raises NotFound."""
        row = self._db.one("get_consumer", namespace=namespace, name=name)
        if row is None:
            raise NotFound(f'there is no group or sink "{shorten(name)}"')
        return read_consumer(row)

    def list_consumers(self, namespace: str | None = None) -> list[Consumer]:
        """By namespace and name."""
        rows = [read_consumer(row) for row in self._db.all("list_consumers")]
        return [one for one in rows if namespace in (None, one.namespace)]

    def remove_consumer(self, namespace: str, name: str) -> bool:
        """Whether it existed; its dead letters are deleted with it."""
        self._db.notify(News.SINKS)
        return self._db.run("delete_consumer", namespace=namespace, name=name) == 1

    def share_cursors(
        self, consumer: Consumer, member: str, lease: timedelta, share: Share
    ) -> list[Cursor]:
        """Renew a member, release and take cursors as `share` returns, and return those it owns.

        Raises NotFound when the consumer was removed.
        """
        key = {"namespace": consumer.namespace, "name": consumer.name}
        if self._db.one("lock_consumer", **key) is None:
            raise NotFound(f'"{consumer.name}" has been removed')
        now = self._db.now
        self._db.run("forget_members", **key, now=now)
        self._db.run("save_member", **key, member=member, expires_at=now + lease)
        members = {row[0] for row in self._db.all("list_members", **key)}
        owners: dict[int, str | None] = dict(self._db.all("list_owners", **key))
        released, taken = share(member, members, owners)
        for part in sorted(released):
            self._db.run("release_cursor", **key, part=part, member=member)
        for part in sorted(taken):
            self._db.one("take_cursor", **key, part=part, member=member, former=owners[part])
        if released:
            self._db.notify(News.LOG)
        rows = self._db.all("list_cursors", **key, member=member)
        return [_cursor(row, self._db.time) for row in rows]

    def renew_member(self, consumer: Consumer, member: str, lease: timedelta) -> None:
        """Renew a member."""
        key = {"namespace": consumer.namespace, "name": consumer.name}
        self._db.run("renew_member", **key, member=member, expires_at=self._db.now + lease)

    def leave_group(self, consumer: Consumer, member: str) -> None:
        """Release everything that a member owned."""
        key = {"namespace": consumer.namespace, "name": consumer.name, "member": member}
        self._db.run("release_cursors", **key)
        self._db.run("delete_member", **key)
        self._db.notify(News.LOG)

    def hold_cursors(self, consumer: Consumer, member: str, cursors: Sequence[Cursor]) -> set[int]:
        """The partitions whose cursors the member still owns, at the same positions; they cannot be
        taken over before the transaction ends."""
        rows = self._db.all(
            "hold_cursors",
            namespace=consumer.namespace,
            name=consumer.name,
            member=member,
            parts=[cursor.part for cursor in cursors],
        )
        held = {(part, term, position) for part, term, position in rows}
        return {c.part for c in cursors if (c.part, c.term, c.position) in held}

    def list_held(self, consumer: Consumer, member: str) -> list[HeldKey]:
        """The keys that wait by themselves in the partitions of a member."""
        rows = self._db.all(
            "list_held", namespace=consumer.namespace, name=consumer.name, member=member
        )
        return [_held(row, self._db.time) for row in rows]

    def get_position(self, consumer: Consumer, part: int, key: str) -> int:
        """How far a consumer has read a key of a partition."""
        names = {"namespace": consumer.namespace, "name": consumer.name}
        return int(self._db.value("get_key_position", **names, part=part, key=key) or 0)

    def move_cursors(self, consumer: Consumer, member: str, moves: Sequence[Move]) -> set[int]:
        """Move cursors by their terms, hold and free keys, and store dead letters; returns the
        partitions whose cursors were moved. The others stay unchanged."""
        moved = set()
        for move in sorted(moves):
            done = self._db.run(
                "move_cursor",
                namespace=consumer.namespace,
                name=consumer.name,
                member=member,
                part=move.part,
                term=move.term,
                position=move.position,
                retry_at=move.retry_at,
                error=clean(move.error),
            )
            if done:
                moved.add(move.part)
                self._hold_keys(consumer, move)
                for event, error in move.buried:
                    self._bury(consumer, event, error)
        return moved

    def advance_idle(self, namespace: str, names: Sequence[str], start: int, until: int) -> None:
        """Move cursors without an owner past a stretch of the log that has nothing for them."""
        moved = {"namespace": namespace, "names": list(names), "position": start, "until": until}
        self._db.run("advance_idle_cursors", **moved, now=self._db.now)

    def _hold_keys(self, consumer: Consumer, move: Move) -> None:
        names = {"namespace": consumer.namespace, "name": consumer.name}
        if move.freed:
            self._db.run("free_keys", **names, keys=list(move.freed))
        if move.held:
            held = sorted(move.held, key=lambda one: one.key)
            rows = [{**names, **one._asdict(), "error": clean(one.error)} for one in held]
            self._db.many("hold_key", rows)

    def _bury(self, consumer: Consumer, event: Event, error: str) -> None:
        self._db.run(
            "insert_letter",
            namespace=consumer.namespace,
            name=consumer.name,
            event_id=event.id,
            slot=slot_of(event.key),
            event=json.dumps(event_kept(event), ensure_ascii=False),
            error=clean(error),
            attempts=consumer.attempts,
            now=self._db.now,
        )

    def list_letters(
        self, namespace: str, name: str | None, limit: int, after: PagePosition | None = None
    ) -> Found[DeadLetter]:
        """The newest first, after a position; up to MOST_BYTES of them."""
        at, event_id, former = after or (micros(LATEST), "", "")
        rows = self._db.all(
            "list_letters",
            namespace=namespace,
            name=name,
            before_at=moment(int(at)),
            before_id=event_id,
            before_name=former,
            limit=limit,
            most=MOST_BYTES,
        )
        letters = [_letter(row[:-1], self._db.time) for row in rows]
        if not letters or (len(letters) < limit and rows[-1][-1] < MOST_BYTES):
            return Found(letters, None)
        last = letters[-1]
        return Found(letters, (micros(last.at), last.event.id, last.consumer))

    def count_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """How many dead letters a consumer has; with an event, whether it is one of them."""
        key = {"namespace": namespace, "name": name, "event_id": event_id}
        return int(self._db.value("count_letters", **key) or 0)

    def take_letters(self, consumer: Consumer, parts: Sequence[int], limit: int) -> list[Event]:
        """Dead letters of these partitions that should be delivered again, the oldest first."""
        rows = self._db.all(
            "take_letters",
            namespace=consumer.namespace,
            name=consumer.name,
            parts=list(parts),
            partitions=consumer.partitions,
            limit=limit,
            most=MOST_BYTES,
        )
        return [_event(text) for (text,) in rows]

    def settle_letter(self, consumer: Consumer, event_id: str, error: str | None) -> bool:
        """Record whether a dead letter was delivered; False: it is no longer a dead letter."""
        key = {"namespace": consumer.namespace, "name": consumer.name, "event_id": event_id}
        if error is None:
            return self._db.run("delete_letter", **key) == 1
        return self._db.run("keep_letter", **key, error=clean(error), now=self._db.now) == 1

    def replay_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """Have one or all dead letters delivered again; returns how many."""
        self._db.notify(News.LOG)
        return self._db.run("replay_letters", namespace=namespace, name=name, event_id=event_id)

    def drop_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """Discard one or all dead letters; returns how many."""
        return self._db.run("drop_letters", namespace=namespace, name=name, event_id=event_id)

    def replay(self, namespace: str, name: str, position: int) -> int:
        """Have everything after a position delivered again, marked as a replay; returns in how many
        partitions. Raises NotFound, and Invalid for a position outside the log."""
        consumer = self.get_consumer(namespace, name)
        if position < 0 or position > self._events.last_position():
            raise Invalid(f"position {position} is not in the log")
        self._db.notify(News.LOG)
        key = {"namespace": namespace, "name": consumer.name}
        moved = self._db.run("replay_cursors", **key, position=position)
        self._db.run("free_replayed_keys", **key, position=position)
        return moved

    def list_lags(self) -> list[Lag]:
        """How far each consumer is behind."""
        last = self._events.last_position()
        return [
            Lag(namespace, name, kind, max(last - (position or 0), 0), dead, failing)
            for namespace, name, kind, position, dead, failing in self._db.all("list_lags")
        ]

    def list_partitions(self, namespace: str, name: str) -> list[Partition]:
        """How far a consumer has read each of its partitions."""
        last = self._events.last_position()
        rows = self._db.all("list_partitions", namespace=namespace, name=name)
        return [
            Partition(
                part,
                at,
                max(last - done, 0),
                owner,
                held,
                failures,
                self._db.time(retry),
                error,
                until,
            )
            for part, at, done, owner, held, failures, retry, error, until in rows
        ]


def _json_topics(consumer: Consumer) -> str:
    return json.dumps(None if consumer.topics is None else list(consumer.topics))


def _json_types(consumer: Consumer) -> str:
    return json.dumps(None if consumer.types is None else list(consumer.types))


def read_consumer(row: Sequence[Any]) -> Consumer:
    namespace, name, kind, topics, partitions, attempts, options, types, labels = row
    names, kinds = json.loads(topics), json.loads(types)
    return Consumer(
        namespace,
        name,
        kind,
        None if names is None else tuple(names),
        partitions,
        attempts,
        json.loads(options),
        None if kinds is None else tuple(kinds),
        json.loads(labels),
    )


def _cursor(row: Row, time: Callable[[Any], Any]) -> Cursor:
    part, position, term, retry_at, replay_until = row
    return Cursor(part, position, term, time(retry_at), replay_until)


def _held(row: Row, time: Callable[[Any], Any]) -> HeldKey:
    part, key, position, failures, tries, retry_at, error = row
    return HeldKey(part, key, position, failures, tries, time(retry_at), error)


def _letter(row: Row, time: Callable[[Any], Any]) -> DeadLetter:
    name, event, error, attempts, at, again = row
    return DeadLetter(name, _event(event), error, attempts, time(at), bool(again))


def _event(text: str) -> Event:
    form = json.loads(text)
    return Event(**form | {"at": parse_instant(form["at"])})
