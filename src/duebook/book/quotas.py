"""Enforces the quotas of namespaces when something is written, exactly, despite other writers."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import QuotaReached, counted
from duebook.model.quota import DEFAULTS, Quota
from duebook.planner import mean_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.quota import Standing
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx
    from duebook.store.sql.statements import Row

    Written = tuple[str, ScheduleSpec, ScheduleSpec | None]
    """a name, its definition, and the former one; None: it is new"""

__all__ = [
    "admit",
    "admit_template",
    "fires_of",
    "rate_schedules",
    "refuse_high_priority",
    "refuse_large_payload",
]

_ROUNDING: Final = 1e-6
RATED_AT_ONCE: Final = 500


def admit(tx: Tx, namespace: str, written: Sequence[Written], kept: Row | None = None) -> None:
    """Check schedules that were just written against the quota; raises QuotaReached.

    Writers in a limited namespace count after they have its lock, and so see all earlier writes.
    Edits that do not make an excess worse are accepted. A namespace without its own quota costs one
    lookup, without a lock, so the check against the default quota misses concurrent writes. `kept`
    is the result of that lookup, if it was made before the write.
    """
    standing = tx.quotas.get_standing(namespace, kept)
    if standing.own is None:
        _refuse_beyond(replace(standing.default, namespace=namespace), standing, written)
        return
    quota = tx.quotas.lock_quota(namespace) or standing.own
    standing = tx.quotas.get_standing(namespace)
    _refuse_beyond(_effective(quota, standing.default), standing, written)
    for _, spec, was in written:
        _refuse_priority(quota, spec.priority, 0 if was is None else was.priority)
    if quota.schedules is not None and _are_more(written):
        _refuse_number(quota, quota.schedules, tx.quotas.count_schedules(namespace))
    if quota.fires_per_minute is not None:
        while rate_schedules(tx, namespace):
            pass
        fires = tx.quotas.sum_rates(namespace)
        if fires > quota.fires_per_minute + _ROUNDING and _fires_more(tx, written):
            raise _too_often(quota, quota.fires_per_minute, fires)


def admit_template(tx: Tx, namespace: str) -> None:
    """As above, for a template that was just written: templates count like definitions."""
    standing = tx.quotas.get_standing(namespace)
    quota = _effective(standing.own or Quota(namespace), standing.default)
    size = standing.definition_bytes + tx.quotas.sum_templates(namespace)
    if quota.definition_bytes is not None and size > quota.definition_bytes:
        raise _too_large(quota, quota.definition_bytes, size)


def refuse_high_priority(tx: Tx, namespace: str, priority: int) -> None:
    """As above, for the priority of one run."""
    if priority and (quota := tx.quotas.get_quota(namespace)) is not None:
        _refuse_priority(quota, priority, 0)


def _effective(quota: Quota, default: Quota) -> Quota:
    """The quota of a namespace; limits that it does not set are the default ones."""
    return replace(
        quota,
        schedules=default.schedules if quota.schedules is None else quota.schedules,
        payload_bytes=default.payload_bytes if quota.payload_bytes is None else quota.payload_bytes,
        definition_bytes=default.definition_bytes
        if quota.definition_bytes is None
        else quota.definition_bytes,
    )


def _refuse_beyond(quota: Quota, standing: Standing, written: Sequence[Written]) -> None:
    """Check what is counted for the namespace, and each definition by itself."""
    for _, spec, was in written:
        if was is None or spec.payload != was.payload:
            _refuse_payload(quota, spec.payload)
    if quota.schedules is not None and _are_more(written):
        _refuse_number(quota, quota.schedules, standing.schedules)
    most, size = quota.definition_bytes, standing.definition_bytes
    if most is not None and size > most and _are_larger(written):
        raise _too_large(quota, most, size)


def _are_more(written: Sequence[Written]) -> bool:
    return any(was is None for _, _, was in written)


def _are_larger(written: Sequence[Written]) -> bool:
    return sum(_size(spec) - (0 if was is None else _size(was)) for _, spec, was in written) > 0


def _size(spec: ScheduleSpec) -> int:
    return len(json.dumps(spec.to_json()))


def _too_large(quota: Quota, most: int, size: int) -> QuotaReached:
    return QuotaReached(
        f'the definitions of namespace "{quota.namespace}" are limited to {most:,} bytes and would '
        f"have {size:,}; delete some schedules or templates, use smaller payloads, or "
        f"{_raise(quota, '--definition-bytes')}"
    )


def _refuse_priority(quota: Quota, priority: int, former: int) -> None:
    most = quota.max_priority
    if most is not None and priority > max(most, former):
        raise QuotaReached(
            f'priority {priority} is above the limit of namespace "{quota.namespace}"; use at '
            f"most {most}, or {_raise(quota, '--max-priority')}"
        )


def refuse_large_payload(tx: Tx, namespace: str, payload: dict[str, Any]) -> None:
    """As above, for the payload of one run."""
    standing = tx.quotas.get_standing(namespace)
    _refuse_payload(_effective(standing.own or Quota(namespace), standing.default), payload)


def rate_schedules(tx: Tx, namespace: str) -> int:
    """Store the rates of some schedules whose rate is not known yet; returns how many."""
    unrated = tx.quotas.list_unrated(namespace, RATED_AT_ONCE)
    tx.quotas.rate_revisions(
        [
            (id_, version, 0.0 if spec is None else mean_rate(name, spec, tx.now))
            for id_, version, name, spec in unrated
        ]
    )
    return len(unrated)


def fires_of(tx: Tx, namespace: str) -> float:
    """The rate of all schedules of a namespace; writes nothing."""
    unrated = tx.quotas.list_unrated(namespace, RATED_AT_ONCE)
    rates = (mean_rate(name, spec, tx.now) for _, _, name, spec in unrated if spec is not None)
    return tx.quotas.sum_rates(namespace) + sum(rates)


def _refuse_payload(quota: Quota, payload: dict[str, Any]) -> None:
    size = len(json.dumps(payload, ensure_ascii=False).encode(errors="replace"))
    if quota.payload_bytes is not None and size > quota.payload_bytes:
        raise QuotaReached(
            f'payloads in namespace "{quota.namespace}" are limited to {quota.payload_bytes:,} '
            f"bytes, and this one has {size:,}; send less, or {_raise(quota, '--payload-bytes')}"
        )


def _refuse_number(quota: Quota, most: int, number: int) -> None:
    if number > most:
        raise QuotaReached(
            f'namespace "{quota.namespace}" is limited to {counted(most, "schedule")} '
            f"and would have {number:,}; delete some, or {_raise(quota, '--schedules')}"
        )


def _fires_more(tx: Tx, written: Sequence[Written]) -> bool:
    former = sum(mean_rate(name, was, tx.now) for name, _, was in written if was is not None)
    return sum(mean_rate(name, spec, tx.now) for name, spec, _ in written) > former + _ROUNDING


def _too_often(quota: Quota, most: float, fires: float) -> QuotaReached:
    return QuotaReached(
        f'the schedules of namespace "{quota.namespace}" are limited to {most:,g} due times a '
        f"minute and would have {fires:,.6g}; make some of them less frequent, or "
        f"{_raise(quota, '--fires-per-minute')}"
    )


def _raise(quota: Quota, option: str) -> str:
    """The command that raises one limit and repeats the others, because it replaces them all."""
    stay = ""
    for limit in fields(quota)[1:]:
        flag, value = f"--{limit.name.replace('_', '-')}", getattr(quota, limit.name)
        if flag != option and value not in (None, getattr(DEFAULTS, limit.name)):
            stay += f" {flag} {value:.15g}"
    name = shlex.quote(quota.namespace)
    return f"raise the quota: duebook namespace limit {name} {option} …{stay}"
