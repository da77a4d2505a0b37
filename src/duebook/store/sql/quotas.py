"""How much namespaces may hold and how much they do: updated with every change of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.errors import Invalid
from duebook.model.access import EVERYWHERE
from duebook.model.quota import DEFAULTS, Quota, Standing
from duebook.model.unreadable import read_spec
from duebook.store.sql.statements import Ask, Part, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.schedule import ScheduleSpec

__all__ = ["Quotas"]


class Quotas(Part):
    """Limits of namespaces, and their usage."""

    def get_quota(self, namespace: str) -> Quota | None:
        row = self._db.one("get_quota", namespace=namespace)
        return None if row is None else Quota(*row)

    def lock_quota(self, namespace: str) -> Quota | None:
        """The limits of a namespace; others who lock them wait until this transaction ends."""
        row = self._db.one("lock_quota", namespace=namespace)
        return None if row is None else Quota(*row)

    def list_quotas(self) -> list[Quota]:
        """By namespace."""
        return [Quota(*row) for row in self._db.all("list_quotas")]

    @staticmethod
    def ask_standing(namespace: str) -> Ask:
        return Ask("get_quota_standing", {"namespace": namespace, "everywhere": EVERYWHERE})

    def get_standing(self, namespace: str, kept: Row | None = None) -> Standing:
        """The limits and usage of a namespace, including what this transaction wrote; without a
        lock. `kept` is the result of `ask_standing`, if queried before."""
        ask = self.ask_standing(namespace)
        row = self._db.one(ask.query, **ask.values) if kept is None else kept
        assert row is not None  # noqa: S101 - sums always have one
        own, (schedules, payload, size), (held, held_bytes) = row[:6], row[6:9], row[9:]
        more, more_bytes = self._db.used.get(namespace, (0, 0))
        default = replace(
            DEFAULTS,
            schedules=DEFAULTS.schedules if schedules is None else schedules,
            payload_bytes=payload,
            definition_bytes=DEFAULTS.definition_bytes if size is None else size,
        )
        quota = None if own[0] is None else Quota(*own)
        return Standing(quota, default, int(held) + more, int(held_bytes) + more_bytes)

    def note_use(self, namespace: str, schedules: int, size: int) -> None:
        """Count what a namespace holds more, or less; `keep_use` writes it."""
        before = self._db.used.get(namespace, (0, 0))
        self._db.used[namespace] = (before[0] + schedules, before[1] + size)

    def note_gone(self, ids: Sequence[str]) -> None:
        """Call it before schedules are deleted, or get another definition."""
        for namespace, schedules, size in self._db.all("sum_definitions", ids=list(ids)):
            self.note_use(namespace, -schedules, -int(size))

    def keep_use(self, slot: int = 0) -> None:
        """Write by how much the usage of namespaces changed, as the last write of a transaction,
        because other writers wait for its end."""
        rows = [
            {"namespace": namespace, "slot": slot, "schedules": schedules, "bytes": size}
            for namespace, (schedules, size) in sorted(self._db.used.items())
            if schedules or size
        ]
        for row in rows:
            self._db.ask_last("note_use", **row)
        self._db.used = {}

    def count_use(self) -> dict[str, tuple[int, int]]:
        """The stored usage of each namespace: schedules, and bytes of definitions."""
        return {name: (int(held), int(size)) for name, held, size in self._db.all("count_use")}

    def recount_use(self, namespace: str) -> tuple[int, int]:
        """Store and return what a namespace really holds; other writers wait meanwhile."""
        self._db.run("lock_use")
        row = self._db.one("measure_use", namespace=namespace)
        assert row is not None  # noqa: S101 - sums always have one
        self._db.run("forget_use", namespace=namespace)
        self._db.used.pop(namespace, None)
        held = (int(row[0]), int(row[1]))
        self.note_use(namespace, *held)
        return held

    def sum_templates(self, namespace: str) -> int:
        """The bytes of its templates."""
        return int(self._db.value("sum_templates", namespace=namespace))

    def cap_priorities(self, namespace: str, most: int) -> None:
        """Limit the priority of the waiting runs of a namespace to `most`."""
        self._db.run("cap_queued_runs", namespace=namespace, most=most)

    def save_quota(self, quota: Quota) -> None:
        """Set limits, which replace those of the namespace."""
        self._db.run(
            "save_quota",
            namespace=quota.namespace,
            schedules=quota.schedules,
            fires_per_minute=quota.fires_per_minute,
            payload_bytes=quota.payload_bytes,
            definition_bytes=quota.definition_bytes,
            max_priority=quota.max_priority,
        )

    def remove_quota(self, namespace: str) -> None:
        self._db.run("remove_quota", namespace=namespace)

    def count_schedules(self, namespace: str) -> int:
        """Those that are not deleted."""
        return int(self._db.value("count_schedules_of", namespace=namespace))

    def count_by_namespace(self) -> dict[str, int]:
        """As above, for every namespace that has any."""
        return dict(self._db.all("count_by_namespace"))

    def sum_rates(self, namespace: str) -> float:
        """How often per minute its uncompleted schedules are due, where known."""
        return float(self._db.value("sum_rates", namespace=namespace))

    def list_unrated(
        self, namespace: str, limit: int
    ) -> list[tuple[str, int, str, ScheduleSpec | None]]:
        """Schedules without a known rate: id, version, name and definition."""
        found: list[tuple[str, int, str, ScheduleSpec | None]] = []
        for id_, version, name, text in self._db.all(
            "list_unrated", namespace=namespace, limit=limit
        ):
            try:
                found.append((id_, version, name, read_spec(text, name)))
            except Invalid:  # written by a newer node
                found.append((id_, version, name, None))
        return found

    def rate_revisions(self, rates: Sequence[tuple[str, int, float]]) -> None:
        """How often per minute definitions are due: id of the schedule, version and rate."""
        rows = [{"schedule_id": id_, "version": v, "rate": rate} for id_, v, rate in rates]
        self._db.many("rate_revision", rows)
