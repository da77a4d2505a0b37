"""Shadow mode in a transaction: when it is on or off for which schedules, and its records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duebook.model.shadow import ShadowRun, ShadowSwitch
from duebook.store.sql.rows import clean
from duebook.store.sql.statements import Ask, Part
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import Any

    from duebook.store.sql.statements import Row

__all__ = ["MOST_NAMESPACES", "Shadows", "read_switch", "switches_of"]

MOST_NAMESPACES = 1_000


class Shadows(Part):
    """Switches in the order in which they apply."""

    def add(self, switch: ShadowSwitch) -> None:
        self._db.run(
            "insert_switch",
            namespace=switch.namespace,
            at=switch.at,
            shadow=switch.shadow,
            schedule=switch.schedule,
            labels=json.dumps(switch.labels),
            now=self._db.now,
            by=clean(switch.created_by),
        )

    def lock(self, namespace: str) -> datetime:
        """Keep the schedules of a namespace from being planned until this transaction ends, and
        have them planned then; returns the time after the last plan of any."""
        self._db.run("wake_namespace", namespace=namespace, now=self._db.now)
        self._db.notify(News.WAKE, self._db.now)
        return max(self._db.clock_now(), self._db.now)

    def list(self, namespace: str) -> Sequence[tuple[int, ShadowSwitch]]:
        """With their ids."""
        rows = self._db.all("list_switches", namespaces=[namespace])
        return [(row[0], read_switch(row, self._db.time)) for row in rows]

    def list_used(self) -> Sequence[ShadowSwitch]:
        """Those of all namespaces in which it was ever on."""
        names = [name for (name,) in self._db.all("list_shadowed", limit=MOST_NAMESPACES)]
        if not names:
            return []
        rows = self._db.all("list_switches", namespaces=names)
        return [read_switch(row, self._db.time) for row in rows]

    def remove(self, ids: Sequence[int]) -> None:
        self._db.run("remove_switches", ids=list(ids))

    def list_runs(
        self, namespace: str, since: datetime, until: datetime, limit: int
    ) -> Sequence[ShadowRun]:
        """Due times that it recorded, in their order."""
        time = self._db.time
        bounds = {"since": since, "until": until, "limit": limit}
        return [
            ShadowRun(
                *(name, time(first), time(at)),
                *(json.loads(facts).get("origin", "schedule"), time(last), count),
            )
            for name, first, at, facts, last, count in self._db.all(
                "list_shadow_runs", namespace=namespace, **bounds
            )
        ]


def switches_of(namespaces: list[str]) -> Ask:
    """The query whose rows `read_switch` reads."""
    return Ask("list_switches", {"namespaces": namespaces})


def read_switch(row: Row, time: Callable[[Any], Any]) -> ShadowSwitch:
    _, namespace, at, shadow, schedule, labels, created_at, by = row
    made = time(created_at), by
    return ShadowSwitch(namespace, time(at), bool(shadow), schedule, json.loads(labels), *made)
