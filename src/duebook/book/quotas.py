"""What a namespace has no room for is refused at the door, exactly, whoever else writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import QuotaReached, counted
from duebook.planner import mean_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.quota import Quota
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx

__all__ = ["admit", "fires_of", "rate_schedules", "refuse_large_payload"]

_ROUNDING: Final = 1e-6
RATED_AT_ONCE: Final = 500


def admit(
    tx: Tx, namespace: str, made: Sequence[tuple[str, ScheduleSpec]], was: ScheduleSpec | None
) -> None:
    """Refuse schedules that were written just now when they are too much; raises QuotaReached.

    Whoever writes in a limited namespace counts after its lock, and so sees all who did before.
    `was` is the definition that the only one had; what an edit does not make worse passes. A
    namespace without a quota costs one lookup.
    """
    quota = tx.lock_quota(namespace)
    if quota is None:
        return
    for _, spec in made:
        if was is None or spec.payload != was.payload:
            _refuse_payload(quota, spec.payload)
    if quota.schedules is not None and was is None:
        _refuse_number(quota, quota.schedules, tx.count_schedules(namespace))
    if quota.fires_per_minute is not None:
        while rate_schedules(tx, namespace):
            pass
        fires = tx.sum_rates(namespace)
        if fires > quota.fires_per_minute + _ROUNDING and _fires_more(tx, made, was):
            raise _too_often(quota, quota.fires_per_minute, fires)


def refuse_large_payload(tx: Tx, namespace: str, payload: dict[str, Any]) -> None:
    """As above, for the payload of one run."""
    if (quota := tx.get_quota(namespace)) is not None:
        _refuse_payload(quota, payload)


def rate_schedules(tx: Tx, namespace: str) -> int:
    """Put down the rates of some schedules of which none is known; returns of how many."""
    unrated = tx.list_unrated(namespace, RATED_AT_ONCE)
    tx.rate_revisions(
        [
            (id_, version, 0.0 if spec is None else mean_rate(name, spec, tx.now))
            for id_, version, name, spec in unrated
        ]
    )
    return len(unrated)


def fires_of(tx: Tx, namespace: str) -> float:
    """The rate of all schedules of a namespace; writes nothing."""
    unrated = tx.list_unrated(namespace, RATED_AT_ONCE)
    rates = (mean_rate(name, spec, tx.now) for _, _, name, spec in unrated if spec is not None)
    return tx.sum_rates(namespace) + sum(rates)


def _refuse_payload(quota: Quota, payload: dict[str, Any]) -> None:
    size = len(json.dumps(payload, ensure_ascii=False).encode(errors="replace"))
    if quota.payload_bytes is not None and size > quota.payload_bytes:
        raise QuotaReached(
            f'a payload in namespace "{quota.namespace}" has at most {quota.payload_bytes:,} '
            f"bytes, and this one {size:,}; send less, or {_raise(quota, '--payload-bytes')}"
        )


def _refuse_number(quota: Quota, most: int, number: int) -> None:
    if number > most:
        raise QuotaReached(
            f'namespace "{quota.namespace}" may have {counted(most, "schedule")}, '
            f"and would have {number:,}; delete some, or {_raise(quota, '--schedules')}"
        )


def _fires_more(tx: Tx, made: Sequence[tuple[str, ScheduleSpec]], was: ScheduleSpec | None) -> bool:
    former = 0.0 if was is None else mean_rate(made[0][0], was, tx.now)
    return sum(mean_rate(name, spec, tx.now) for name, spec in made) > former + _ROUNDING


def _too_often(quota: Quota, most: float, fires: float) -> QuotaReached:
    return QuotaReached(
        f'the schedules of namespace "{quota.namespace}" may be due {most:,g} times a minute, '
        f"and would be {fires:,.6g} times; let some be due less often, or "
        f"{_raise(quota, '--fires-per-minute')}"
    )


def _raise(quota: Quota, option: str) -> str:
    return f"raise the quota: duebook namespace limit {quota.namespace} {option} …"
