"""Use cases of the log's consumers: sinks, groups, replays, dead letters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from duebook.book.event_log import EventLog
from duebook.errors import Conflict, Invalid, NotFound, quoted, shorten
from duebook.model.codec import encode
from duebook.model.consumer import SINKS, new_consumer
from duebook.model.event import check_position
from duebook.model.fields import whole
from duebook.model.listing import Listing, read_cursor, write_cursor
from duebook.model.ping import PING_TYPES, PINGS, with_ping
from duebook.model.sink import ATTEMPTS, keep_options, load_options
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from duebook.model.consumer import Consumer, DeadLetter, Lag, Partition
    from duebook.store.base import Tx

    Consumers = list[Consumer]  # inside the class below `list` is a method
    Lags = list[Lag]
    Letters = Listing[DeadLetter]
    Partitions = list[Partition]

__all__ = ["Listeners"]

SINK_PARTITIONS: Final = 4
MOST_LETTERS: Final = 10_000
MOST_SINKS: Final = 100
"""In a namespace: each has a thread in every relay."""


class Listeners(EventLog):
    """The groups and sinks of a namespace."""

    def consumers(self) -> Consumers:
        """Return the groups and sinks of this namespace, by name."""
        return self._store.read(lambda tx: tx.consumers.list_consumers(self._namespace))

    def sinks(self) -> Consumers:
        """Return only the sinks; `encode` shows a sink without its secrets."""
        return [one for one in self.consumers() if one.kind in SINKS]

    def add_sink(
        self,
        name: str,
        kind: Literal["kafka", "webhook"],
        topic: str | Sequence[str] | None = None,
        *,
        start: str | int = "end",
        attempts: int = ATTEMPTS,
        partitions: int = SINK_PARTITIONS,
        types: str | Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        **options: Any,
    ) -> tuple[Consumer, str | None]:
        """Publish the events of a topic, or of all topics, from now on; relays deliver them.

        With `types`, it receives only events of these types; life cycle types such as run.failed
        need no topic. With `labels`, it receives only events of schedules that have all of them
        when the event is delivered.

        A webhook has a `url` and a `secret`, which is created if it is not given. Kafka has
        `servers`, an optional `prefix` for its topics, and `config`, settings of librdkafka. An
        existing sink of that name is changed and keeps its position; `***` keeps a secret
        unchanged, if all endpoints stay the same. Returns the sink, and the secret if one was
        created. Raises Invalid, and Conflict if the name belongs to another kind.
        """

        def work(tx: Tx) -> tuple[Consumer, str | None]:
            known = {one.name: one for one in tx.consumers.list_consumers(self._namespace)}
            former = known.get(name)
            self._refuse_more(former, known.values())
            given = keep_options(kind, options, former.options if former else {})
            kept = load_options(kind, given)
            wanted = new_consumer(
                *(self._namespace, name, kind, topic, partitions, attempts, kept, types, labels)
            )
            made = self._save(tx, wanted, start)
            self._note_sink(tx, former, made)
            secret = kept.get("secret")
            told = (options.get("secret"), former.options.get("secret") if former else None)
            return made, None if secret in told else secret

        return self._store.transact(work)

    def _refuse_more(self, former: Consumer | None, known: Iterable[Consumer]) -> None:
        """Raises Conflict if the namespace already has the maximum number of sinks."""
        if former is None and sum(one.kind in SINKS for one in known) >= MOST_SINKS:
            raise Conflict(f"namespace {self._namespace} already has {MOST_SINKS} sinks")

    def set_ping(self, name: str, url: str) -> None:
        """Send a request to `url` whenever a run of a schedule ends; replaces an earlier one.

        A success goes to the URL, a failure to the URL with /fail and the error as the body, as
        Healthchecks expects it. Relays deliver them. Raises NotFound for a schedule that does not
        exist, and Invalid.
        """

        def work(tx: Tx) -> None:
            found = tx.schedules.find_schedule(self._namespace, name)
            schedule = tx.schedules.get_schedule(found).name
            self._save_pings(tx, lambda urls: with_ping(urls, schedule, url))

        self._store.transact(work)

    def remove_ping(self, name: str) -> None:
        """Stop sending pings about a schedule; raises NotFound if none are sent."""

        def without(urls: dict[str, str]) -> dict[str, str]:
            if name not in urls:
                raise NotFound(f'schedule "{shorten(name)}" has no ping')
            return {other: url for other, url in urls.items() if other != name}

        self._store.transact(lambda tx: self._save_pings(tx, without))

    def _save_pings(self, tx: Tx, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        known = {one.name: one for one in tx.consumers.list_consumers(self._namespace)}
        former = known.get(PINGS)
        self._refuse_more(former, known.values())
        is_ping = former is not None and former.kind == "ping"
        urls = change(former.options["urls"] if former is not None and is_ping else {})
        if not urls:
            self._remove(tx, PINGS)
            return
        wanted = new_consumer(
            *(self._namespace, PINGS, "ping", None, SINK_PARTITIONS, ATTEMPTS),
            options={"urls": urls},
            types=PING_TYPES,
        )
        self._note_sink(tx, former, self._save(tx, wanted, "end"))

    def _save(self, tx: Tx, wanted: Consumer, start: str | int) -> Consumer:
        """Save a consumer; in a SQLite file it has one partition."""
        parts = wanted.partitions if self._store.sequences else 1
        return tx.consumers.save_consumer(replace(wanted, partitions=parts), _start(tx, start))

    def _note_sink(self, tx: Tx, former: Consumer | None, made: Consumer) -> None:
        """Record a change of a sink; secrets are compared, but not shown."""
        after = encode(made)
        if former is None:
            self._audit.note(tx, "create", "sink", made.name, after=after)
        elif former != made:
            before = encode(former)
            changed = [key for key in after if getattr(former, key) != getattr(made, key)]
            was, is_now = ({key: form[key] for key in changed} for form in (before, after))
            self._audit.note(tx, "update", "sink", made.name, before=was, after=is_now)

    def lags(self) -> Lags:
        """Return how far each group and sink is behind."""
        found = self._store.read(lambda tx: tx.consumers.list_lags())
        return [lag for lag in found if lag.namespace == self._namespace]

    def partitions(self, name: str) -> Partitions:
        """Return the progress of a group or sink in each partition; raises NotFound."""

        def work(tx: Tx) -> Partitions:
            return tx.consumers.list_partitions(
                self._namespace, tx.consumers.get_consumer(self._namespace, name).name
            )

        return self._store.read(work)

    def remove(self, name: str) -> None:
        """Delete a group or sink, with its dead letters; raises NotFound."""

        self._store.transact(lambda tx: self._remove(tx, name))

    def _remove(self, tx: Tx, name: str) -> None:
        former = tx.consumers.get_consumer(self._namespace, name)
        if former.kind.startswith("alert_"):
            raise Conflict(f'"{name}" serves alert rules; delete those: duebook alert rm RULE')
        tx.consumers.remove_consumer(self._namespace, name)
        self._audit.note(tx, "delete", _kind(former), name, before=encode(former))

    def replay(
        self, name: str, after: int | None = None, since: str | datetime | None = None
    ) -> tuple[int, int]:
        """Deliver events again to a group or sink, after a position or from a time on.

        They are marked as a replay. Events past the retention period are not delivered again.
        Returns the position after which the replay starts, and the number of partitions; raises
        NotFound, and Invalid for a position that is not in the log.
        """
        if (after is None) == (since is None):
            raise Invalid("give either after or since, not both")
        moment = None if since is None else parse_instant(since)
        asked = 0 if after is None else check_position(after, "after")

        def work(tx: Tx) -> tuple[int, int]:
            consumer = tx.consumers.get_consumer(self._namespace, name)
            last = tx.events.last_position()
            if asked > last:
                raise Invalid(f"after {asked} is beyond the end of the log, {last}")
            place = asked if moment is None else tx.events.position_at(moment)
            place = max(place, tx.events.first_position() - 1)
            before = [part.position for part in tx.consumers.list_partitions(self._namespace, name)]
            count = tx.consumers.replay(self._namespace, name, place)
            was, is_now = ({"positions": at} for at in (before, [min(p, place) for p in before]))
            self._audit.note(tx, "replay", _kind(consumer), name, before=was, after=is_now)
            return place, count

        return self._store.transact(work)

    def dead_letters(
        self, name: str | None = None, limit: int = 100, *, cursor: str | None = None
    ) -> Letters:
        """Return the dead letters of a group or sink, or of all of them, newest first.

        Pass `next_cursor` for the next page; a page may be short and still be followed by another.
        """
        whole(1, MOST_LETTERS)("limit", limit)
        asked, key = ["letters", self._namespace, name], self._store.cursor_key()
        after = read_cursor(key, asked, cursor, "iss")

        def work(tx: Tx) -> Letters:
            if name is not None:
                tx.consumers.get_consumer(self._namespace, name)
            found = tx.consumers.list_letters(self._namespace, name, limit, after)
            return Listing(found.rows, write_cursor(key, asked, found.last))

        return self._store.read(work)

    def replay_dead(self, name: str, event_id: str | None = None) -> int:
        """Deliver dead letters again, one or all; returns how many. Raises NotFound."""

        def work(tx: Tx) -> int:
            self._note_letters(tx, "replay_dead", name, event_id)
            return tx.consumers.replay_letters(self._namespace, name, event_id)

        return self._store.transact(work)

    def drop_dead(self, name: str, event_id: str | None = None) -> int:
        """Discard dead letters, one or all; returns how many. Raises NotFound."""

        def work(tx: Tx) -> int:
            self._note_letters(tx, "drop_dead", name, event_id)
            return tx.consumers.drop_letters(self._namespace, name, event_id)

        return self._store.transact(work)

    def _note_letters(self, tx: Tx, action: str, name: str, event_id: str | None) -> None:
        consumer = tx.consumers.get_consumer(self._namespace, name)
        count = tx.consumers.count_letters(self._namespace, name, event_id)
        if event_id is not None and not count:
            raise NotFound(f'event "{shorten(event_id)}" is not a dead letter of {name}')
        dead = tx.consumers.count_letters(self._namespace, name, None)
        before = {"dead": dead}
        after: dict[str, Any] = {"dead": dead - count if action == "drop_dead" else dead}
        after |= {"letters": count} | ({} if event_id is None else {"event": event_id})
        self._audit.note(tx, action, _kind(consumer), name, before=before, after=after)


def _start(tx: Tx, start: str | int) -> int:
    """The position after which a new consumer starts; raises Invalid."""
    if start == "beginning":
        return 0
    last = tx.events.last_position()
    if start == "end":
        return last
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        if start > last:
            raise Invalid(f"start {start} is beyond the end of the log, {last}")
        return start
    raise Invalid(f'start {quoted(start)} is not "beginning", "end" or a position')


def _kind(consumer: Consumer) -> str:
    return "group" if consumer.kind == "group" else "sink"
