"""Writes schedules as the YAML files that `duebook diff` and `duebook apply` read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from duebook.flows.parse import read_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.simulation import SpreadProposal

__all__ = ["file_of", "proposed_files", "write_yaml"]

PROPOSED: Final = """\
# Proposed by duebook spread; it has only the schedules that move, so do not use --prune.
# To see what changes: duebook diff FILE. To move them: duebook apply FILE{adopt}
"""
_Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Yaml(_Dumper):  # type: ignore[misc]
    """Writes text in a way that YAML 1.2 readers also read as text."""


def _text_node(dumper: Any, text: str) -> Any:
    if "\n" in text:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    style = '"' if read_scalar(text) is not text or text[:1].isdigit() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Yaml.add_representer(str, _text_node)


def file_of(
    owner: str | None, forms: Sequence[dict[str, Any]], calendars: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The content of a schedule file, which names its owner unless that is None."""
    content: dict[str, Any] = {} if owner is None else {"owner": owner}
    if calendars:
        content["calendars"] = list(calendars)
    return content | {"schedules": list(forms)}


def write_yaml(
    owner: str | None, forms: Sequence[dict[str, Any]], calendars: Sequence[dict[str, Any]] = ()
) -> str:
    """As `file_of`."""
    content = file_of(owner, forms, calendars)
    text: str = yaml.dump(
        content, Dumper=_Yaml, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text


def proposed_files(proposal: SpreadProposal) -> dict[str, str]:
    """A file for each owner of schedules that move, by owner: a file belongs to one.

    Schedules without an owner are under the empty owner, and have to be adopted.
    """
    owners = {move.name: move.owner for move in proposal.moves}
    forms: dict[str, list[dict[str, Any]]] = {}
    for form in proposal.definitions:
        forms.setdefault(owners.get(form["name"], ""), []).append(dict(form))
    return {
        owner: PROPOSED.format(adopt="" if owner else " --adopt") + write_yaml(owner or None, some)
        for owner, some in sorted(forms.items())
    }
