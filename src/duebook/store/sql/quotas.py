"""How much namespaces may hold and how much they do, counted when a quota asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.errors import Invalid
from duebook.model.quota import Quota
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

    def save_quota(self, quota: Quota) -> None:
        self._run(
            "save_quota",
            namespace=quota.namespace,
            schedules=quota.schedules,
            fires_per_minute=quota.fires_per_minute,
            payload_bytes=quota.payload_bytes,
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
