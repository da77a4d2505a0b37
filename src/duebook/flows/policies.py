"""Reads the fields of a flow file that every definition has, by kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duebook.errors import Invalid, shorten
from duebook.flows.section import Section, text_of, whole_of
from duebook.flows.timing import read_seconds, read_times
from duebook.flows.values import read_labels_of
from duebook.flows.words import POLICY_KEYS, RUN_CONFIG
from duebook.model.fields import read_flag, read_labels
from duebook.model.flow_target import FlowTarget
from duebook.model.schedule import ScheduleSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.model.schedule import DefinitionField

    Reader = Callable[[str, Any], Any]

__all__ = ["read_fixed_params", "read_policies"]


def read_policies(section: Section, flow: str) -> ScheduleSpec:
    """Read the policies of a flow. Without a window, missed due times are skipped."""
    start, stop, restart = read_times(section, flow)
    said = {
        known.name: _read(section, key, known)
        for key, known in POLICY_KEYS.items()
        if key in section or known.kind.shape == "labels"
    }
    if "hist_retention_days" in section:
        said["keep"] = _days(section, "keep" in section)
    spec = ScheduleSpec(start, FlowTarget(flow), stop=stop, restart=restart, **said)
    return replace(
        spec,
        catchup="all" if spec.catchup_window else "skip",
        overlap=spec.overlap if start else "allow",
    )


def _days(section: Section, is_twice: bool) -> timedelta | None:
    """Read Dagu's form of `keep`."""
    node = section.get("hist_retention_days")
    if is_twice and node is not None:
        told = "keep and hist_retention_days mean the same"
        section.problem(node, "hist_retention_days", told, "keep one of them")
    days = section.read("hist_retention_days", whole_of(1, 36_500), None)
    return None if days is None else timedelta(days=days)


def _read(section: Section, key: str, known: DefinitionField) -> Any:
    if known.kind.shape == "labels":
        return _labels(section, key)
    return section.read(key, _reader(key, known), known.default)


def _labels(section: Section, key: str) -> tuple[tuple[str, str], ...]:
    labels = dict(read_labels_of(section, key))
    if (node := section.get("group")) is not None:
        labels["group"] = section.read("group", text_of, "")
        return section.judge(node, "group", (), read_labels, "group", labels)
    return tuple(sorted(labels.items()))


def _reader(key: str, known: DefinitionField) -> Reader:
    """Files are read more leniently than JSON: numbers may be quoted, strings may be numbers."""
    kind, flow = known.kind, known.flow
    if flow is not None and flow.words is not None:
        return _one_of(flow.words)
    if kind.shape == "whole" and kind.least is not None and kind.most is not None:
        unlimited = None if flow is None else flow.unlimited
        return _number(kind.least, kind.most, unlimited)
    if kind.shape == "text":
        return lambda name, value: kind.read(name, text_of(name, value))
    if kind.shape == "length" and key.endswith("_sec"):
        return lambda name, value: read_seconds(name, value) or None
    return kind.read


def _one_of(words: Mapping[str, str]) -> Reader:
    def read(key: str, value: Any) -> str:
        if isinstance(value, str) and value in words:
            return words[value]
        first = dict.fromkeys(words.values())  # if two words mean the same, the message names one
        told = [next(word for word in words if words[word] == meant) for meant in first]
        raise Invalid(f"{key} {shorten(value)} is not one of {', '.join(told)}")

    return read


def _number(least: int, most: int, unlimited: int | None) -> Reader:
    def read(key: str, value: Any) -> int | None:
        number = whole_of(least if unlimited is None else unlimited, most)(key, value)
        if number == unlimited:
            return None
        if number < least:
            raise Invalid(f"with {key} {number} nothing could run")
        return number

    return read


def read_fixed_params(section: Section) -> bool:
    """Whether `run_config` lets nobody give params at a start."""
    node = section.get("run_config")
    if node is None:
        return False
    inner = Section(node, "run_config", section.problems, RUN_CONFIG)
    inner.read("disable_run_id_edit", read_flag, default=False)
    return inner.read("disable_param_edit", read_flag, default=False)
