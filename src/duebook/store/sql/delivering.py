"""The part of a transaction for those who read the log: members, fenced cursors, dead letters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.model.consumer import (
    Consumer,
    Cursor,
    DeadLetter,
    HeldKey,
    Lag,
    Move,
    Partition,
)
from duebook.model.event import Event, event_kept, slot_of
from duebook.model.listing import Found
from duebook.store.sql.events import MOST_BYTES, EventLog
from duebook.store.sql.rows import LATEST, clean, micros, moment
from duebook.store.values import News
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from duebook.model.listing import PagePosition
    from duebook.store.protocols.events import Share
    from duebook.store.sql.statements import Row

__all__ = ["Delivering", "read_consumer"]


class Delivering(EventLog):
    """Only who owns a cursor under its term moves it; nobody takes one that is being moved."""

    def save_consumer(self, consumer: Consumer, start: int) -> Consumer:
        found = self._one("get_consumer", namespace=consumer.namespace, name=consumer.name)
        if found is not None:
            return self._changed(read_consumer(found), consumer)
        key = {"namespace": consumer.namespace, "name": consumer.name}
        made = self._run(
            "insert_consumer",
            **key,
            kind=consumer.kind,
            topics=_json_topics(consumer),
            partitions=consumer.partitions,
            attempts=consumer.attempts,
            options=json.dumps(consumer.options),
            now=self.now,
        )
        if not made:  # somebody else did, just now
            return self._changed(self.get_consumer(**key), consumer)
        self._many(
            "insert_cursor",
            [{**key, "part": part, "position": start} for part in range(consumer.partitions)],
        )
        self._notify(News.SINKS)
        return self.get_consumer(consumer.namespace, consumer.name)

    def _changed(self, former: Consumer, consumer: Consumer) -> Consumer:
        """What is wanted now; how many partitions there are stays, for keys belong to them."""
        if former.kind != consumer.kind:
            kinds = f"{former.kind}, not {consumer.kind}"
            raise Conflict(f'consumer "{consumer.name}" exists already, as a {kinds}')
        if replace(consumer, partitions=former.partitions) == former:
            return former
        self._run(
            "update_consumer",
            namespace=consumer.namespace,
            name=consumer.name,
            topics=_json_topics(consumer),
            attempts=consumer.attempts,
            options=json.dumps(consumer.options),
        )
        self._notify(News.SINKS)
        return self.get_consumer(consumer.namespace, consumer.name)

    def get_consumer(self, namespace: str, name: str) -> Consumer:
        row = self._one("get_consumer", namespace=namespace, name=name)
        if row is None:
            raise NotFound(f'no group and no sink is called "{shorten(name)}"')
        return read_consumer(row)

    def list_consumers(self, namespace: str | None = None) -> list[Consumer]:
        rows = [read_consumer(row) for row in self._all("list_consumers")]
        return [one for one in rows if namespace in (None, one.namespace)]

    def remove_consumer(self, namespace: str, name: str) -> bool:
        self._notify(News.SINKS)
        return self._run("delete_consumer", namespace=namespace, name=name) == 1

    # -- members

    def share_cursors(
        self, consumer: Consumer, member: str, lease: timedelta, share: Share
    ) -> list[Cursor]:
        key = {"namespace": consumer.namespace, "name": consumer.name}
        if self._one("lock_consumer", **key) is None:
            raise NotFound(f'"{consumer.name}" was removed: nobody reads the log under that name')
        now = self.now
        self._run("forget_members", **key, now=now)
        self._run("save_member", **key, member=member, expires_at=now + lease)
        members = {row[0] for row in self._all("list_members", **key)}
        owners: dict[int, str | None] = dict(self._all("list_owners", **key))
        released, taken = share(member, members, owners)
        for part in sorted(released):
            self._run("release_cursor", **key, part=part, member=member)
        for part in sorted(taken):
            self._one("take_cursor", **key, part=part, member=member, former=owners[part])
        if released:
            self._notify(News.LOG)
        rows = self._all("list_cursors", **key, member=member)
        return [_cursor(row, self._time) for row in rows]

    def renew_member(self, consumer: Consumer, member: str, lease: timedelta) -> None:
        key = {"namespace": consumer.namespace, "name": consumer.name}
        self._run("renew_member", **key, member=member, expires_at=self.now + lease)

    def leave_group(self, consumer: Consumer, member: str) -> None:
        key = {"namespace": consumer.namespace, "name": consumer.name, "member": member}
        self._run("release_cursors", **key)
        self._run("delete_member", **key)
        self._notify(News.LOG)

    def hold_cursors(self, consumer: Consumer, member: str, cursors: Sequence[Cursor]) -> set[int]:
        """Those that are still the member's where they were; nobody takes them before the end."""
        rows = self._all(
            "hold_cursors",
            namespace=consumer.namespace,
            name=consumer.name,
            member=member,
            parts=[cursor.part for cursor in cursors],
        )
        held = {(part, term, position) for part, term, position in rows}
        return {c.part for c in cursors if (c.part, c.term, c.position) in held}

    def list_held(self, consumer: Consumer, member: str) -> list[HeldKey]:
        rows = self._all(
            "list_held", namespace=consumer.namespace, name=consumer.name, member=member
        )
        return [_held(row, self._time) for row in rows]

    def get_position(self, consumer: Consumer, part: int, key: str) -> int:
        names = {"namespace": consumer.namespace, "name": consumer.name}
        return int(self._value("get_key_position", **names, part=part, key=key) or 0)

    def move_cursors(self, consumer: Consumer, member: str, moves: Sequence[Move]) -> set[int]:
        """Move cursors by their terms; returns the partitions whose cursors were moved."""
        moved = set()
        for move in sorted(moves):
            done = self._run(
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

    def _hold_keys(self, consumer: Consumer, move: Move) -> None:
        names = {"namespace": consumer.namespace, "name": consumer.name}
        if move.freed:
            self._run("free_keys", **names, keys=list(move.freed))
        if move.held:
            held = sorted(move.held, key=lambda one: one.key)
            rows = [{**names, **one._asdict(), "error": clean(one.error)} for one in held]
            self._many("hold_key", rows)

    def _bury(self, consumer: Consumer, event: Event, error: str) -> None:
        self._run(
            "insert_letter",
            namespace=consumer.namespace,
            name=consumer.name,
            event_id=event.id,
            slot=slot_of(event.key),
            event=json.dumps(event_kept(event), ensure_ascii=False),
            error=clean(error),
            attempts=consumer.attempts,
            now=self.now,
        )

    # -- dead letters, replay, lag

    def list_letters(
        self, namespace: str, name: str | None, limit: int, after: PagePosition | None = None
    ) -> Found[DeadLetter]:
        at, event_id, former = after or (micros(LATEST), "", "")
        rows = self._all(
            "list_letters",
            namespace=namespace,
            name=name,
            before_at=moment(int(at)),
            before_id=event_id,
            before_name=former,
            limit=limit,
            most=MOST_BYTES,
        )
        letters = [_letter(row[:-1], self._time) for row in rows]
        if not letters or (len(letters) < limit and rows[-1][-1] < MOST_BYTES):
            return Found(letters, None)
        last = letters[-1]
        return Found(letters, (micros(last.at), last.event.id, last.consumer))

    def count_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        key = {"namespace": namespace, "name": name, "event_id": event_id}
        return int(self._value("count_letters", **key) or 0)

    def take_letters(self, consumer: Consumer, parts: Sequence[int], limit: int) -> list[Event]:
        """Those that shall be delivered once more, in the partitions of the caller."""
        rows = self._all(
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
        """It was delivered, or it was not and rests again."""
        key = {"namespace": consumer.namespace, "name": consumer.name, "event_id": event_id}
        if error is None:
            return self._run("delete_letter", **key) == 1
        return self._run("keep_letter", **key, error=clean(error), now=self.now) == 1

    def replay_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        self._notify(News.LOG)
        return self._run("replay_letters", namespace=namespace, name=name, event_id=event_id)

    def drop_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        return self._run("drop_letters", namespace=namespace, name=name, event_id=event_id)

    def replay(self, namespace: str, name: str, position: int) -> int:
        """Set the cursors beyond a position back to it; returns how many those were."""
        consumer = self.get_consumer(namespace, name)
        if position < 0 or position > self.last_position():
            raise Invalid(f"position {position} is not on the log")
        self._notify(News.LOG)
        key = {"namespace": namespace, "name": consumer.name}
        moved = self._run("replay_cursors", **key, position=position)
        self._run("free_replayed_keys", **key, position=position)
        return moved

    def list_lags(self) -> list[Lag]:
        last = self.last_position()
        return [
            Lag(namespace, name, kind, max(last - (position or 0), 0), dead, failing)
            for namespace, name, kind, position, dead, failing in self._all("list_lags")
        ]

    def list_partitions(self, namespace: str, name: str) -> list[Partition]:
        last = self.last_position()
        rows = self._all("list_partitions", namespace=namespace, name=name)
        return [
            Partition(
                part,
                at,
                max(last - done, 0),
                owner,
                held,
                failures,
                self._time(retry),
                error,
                until,
            )
            for part, at, done, owner, held, failures, retry, error, until in rows
        ]


def _json_topics(consumer: Consumer) -> str:
    return json.dumps(None if consumer.topics is None else list(consumer.topics))


def read_consumer(row: Sequence[Any]) -> Consumer:
    namespace, name, kind, topics, partitions, attempts, options = row
    names = json.loads(topics)
    return Consumer(
        namespace,
        name,
        kind,
        None if names is None else tuple(names),
        partitions,
        attempts,
        json.loads(options),
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
