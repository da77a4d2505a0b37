"""How much namespaces may hold and how much they do: kept with every change of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.errors import Invalid
from duebook.model.access import EVERYWHERE
from duebook.model.quota import DEFAULTS, Quota, Standing
from duebook.model.unreadable import read_spec
from duebook.store.sql.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.schedule import ScheduleSpec

__all__ = ["Quotas"]


class Quotas(Statements):
    """Limits of namespaces, and what they are held against."""

    def get_quota(self, namespace: str) -> Quota | None:
        row = self._one("get_quota", namespace=namespace)
        return None if row is None else Quota(*row)

    def lock_quota(self, namespace: str) -> Quota | None:
        row = self._one("lock_quota", namespace=namespace)
        return None if row is None else Quota(*row)

    def list_quotas(self) -> list[Quota]:
        return [Quota(*row) for row in self._all("list_quotas")]

    def get_standing(self, namespace: str) -> Standing:
        row = self._one("get_quota_standing", namespace=namespace, everywhere=EVERYWHERE)
        assert row is not None  # noqa: S101 - sums always have one
        own, (schedules, payload, size), (held, held_bytes) = row[:6], row[6:9], row[9:]
        more, more_bytes = self.used.get(namespace, (0, 0))
        default = replace(
            DEFAULTS,
            schedules=DEFAULTS.schedules if schedules is None else schedules,
            payload_bytes=payload,
            definition_bytes=DEFAULTS.definition_bytes if size is None else size,
        )
        quota = None if own[0] is None else Quota(*own)
        return Standing(quota, default, int(held) + more, int(held_bytes) + more_bytes)

    def _note_use(self, namespace: str, schedules: int, size: int) -> None:
        before = self.used.get(namespace, (0, 0))
        self.used[namespace] = (before[0] + schedules, before[1] + size)

    def _note_gone(self, ids: Sequence[str]) -> None:
        """Before schedules are deleted, or get another definition."""
        for namespace, schedules, size in self._all("sum_definitions", ids=list(ids)):
            self._note_use(namespace, -schedules, -int(size))

    def keep_use(self, slot: int = 0) -> None:
        """Put down how much more, or less, namespaces hold; the last that a transaction writes,
        because others who write there wait for its end."""
        rows = [
            {"namespace": namespace, "slot": slot, "schedules": schedules, "bytes": size}
            for namespace, (schedules, size) in sorted(self.used.items())
            if schedules or size
        ]
        for row in rows:
            self._run("note_use", **row)
        self.used = {}

    def count_use(self) -> dict[str, tuple[int, int]]:
        return {name: (int(held), int(size)) for name, held, size in self._all("count_use")}

    def recount_use(self, namespace: str) -> tuple[int, int]:
        self._run("lock_use")
        row = self._one("measure_use", namespace=namespace)
        assert row is not None  # noqa: S101 - sums always have one
        self._run("forget_use", namespace=namespace)
        self.used.pop(namespace, None)
        held = (int(row[0]), int(row[1]))
        self._note_use(namespace, *held)
        return held

    def sum_templates(self, namespace: str) -> int:
        return int(self._value("sum_templates", namespace=namespace))

    def cap_priorities(self, namespace: str, most: int) -> None:
        self._run("cap_queued_runs", namespace=namespace, most=most)

    def save_quota(self, quota: Quota) -> None:
        self._run(
            "save_quota",
            namespace=quota.namespace,
            schedules=quota.schedules,
            fires_per_minute=quota.fires_per_minute,
            payload_bytes=quota.payload_bytes,
            definition_bytes=quota.definition_bytes,
            max_priority=quota.max_priority,
        )

    def remove_quota(self, namespace: str) -> None:
        self._run("remove_quota", namespace=namespace)

    def count_schedules(self, namespace: str) -> int:
        return int(self._value("count_schedules_of", namespace=namespace))

    def count_by_namespace(self) -> dict[str, int]:
        return dict(self._all("count_by_namespace"))

    def sum_rates(self, namespace: str) -> float:
        return float(self._value("sum_rates", namespace=namespace))

    def list_unrated(
        self, namespace: str, limit: int
    ) -> list[tuple[str, int, str, ScheduleSpec | None]]:
        found: list[tuple[str, int, str, ScheduleSpec | None]] = []
        for id_, version, name, text in self._all("list_unrated", namespace=namespace, limit=limit):
            try:
                found.append((id_, version, name, read_spec(text, name)))
            except Invalid:  # a newer node wrote it
                found.append((id_, version, name, None))
        return found

    def rate_revisions(self, rates: Sequence[tuple[str, int, float]]) -> None:
        rows = [{"schedule_id": id_, "version": v, "rate": rate} for id_, v, rate in rates]
        self._many("rate_revision", rows)
