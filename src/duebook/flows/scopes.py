"""Which names a flow's steps may use, and what that implies for the order of steps; pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from duebook.flows.references import identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duebook.flows.parse import Node
    from duebook.flows.references import Scope
    from duebook.flows.steps import Draft

__all__ = ["at_once", "inferred", "scope_of"]

_CALLS: Final = frozenset({"call", "action"})
_OUTPUTS: Final = re.compile(r"(?<!\\)\$\{steps\.([A-Za-z]\w*)\.outputs\.")


def scope_of(
    scope: Scope,
    drafts: list[Draft],
    named: Mapping[str, str],
    earlier: Mapping[str, frozenset[str]],
) -> Scope:
    """The scope of a handler, which may name all steps."""
    holders = _holders(drafts, earlier)
    identifiers: dict[str, list[str]] = {}
    for name, step in named.items():
        identifiers.setdefault(identifier(name), []).append(step)
    alone = {name: found[0] for name, found in identifiers.items() if len(set(found)) == 1}
    publishing = frozenset(draft.name for draft in drafts if draft.outputs or _calls(draft))
    keeping = {draft.name for draft in drafts if draft.output or "task" in draft.section}
    return replace(
        scope,
        shadowed=frozenset(),
        outputs={name: found[-1].name for name, found in holders.items()},
        holders={name: frozenset(d.name for d in found) for name, found in holders.items()},
        steps={**alone, **named},
        before=frozenset(named.values()),
        keeping=frozenset(keeping) | publishing,
        publishing=publishing,
        declared={d.name: tuple(o.name for o in d.outputs) for d in drafts if d.outputs},
    )


def _calls(draft: Draft) -> bool:
    return draft.section.has_any(_CALLS)


def _holders(drafts: list[Draft], earlier: Mapping[str, frozenset[str]]) -> dict[str, list[Draft]]:
    """variable -> the steps that set it, the last one last. Several may set it if they run one
    after the other, or if each has its own conditions."""
    found: dict[str, list[Draft]] = {}
    for draft in drafts:
        if draft.output is None:
            continue
        for other in found.setdefault(draft.output, []):
            in_turn = other.name in earlier[draft.name] or draft.name in earlier[other.name]
            by_turns = all("preconditions" in step.section for step in (draft, other))
            if not in_turn and not by_turns:
                node = draft.section.get("output") or draft.section.node
                told = f'"{other.name}" already has the output {draft.output}'
                hint = "choose another name, or let one of the steps depend on the other"
                draft.section.problem(node, "output", told, hint)
        found[draft.output].append(draft)
    for steps in found.values():
        if len(steps) > 1:
            steps.sort(key=lambda step: len(earlier[step.name]))
    return found


def inferred(drafts: list[Draft], named: Mapping[str, str]) -> dict[str, list[str]]:
    """step -> the steps whose named outputs it uses: Dagu runs those before it."""
    found: dict[str, list[str]] = {}
    for draft in drafts:
        ids = {name for text in _texts(draft.section.node) for name in _OUTPUTS.findall(text)}
        steps = [named[name] for name in sorted(ids) if name in named]
        if others := [step for step in steps if step != draft.name]:
            found[draft.name] = others
    return found


def _texts(node: Node) -> Iterator[str]:
    match node.value:
        case str():
            yield node.value
        case list():
            for item in node.value:
                yield from _texts(item)
        case dict():
            for item in node.value.values():
                yield from _texts(item)


def at_once(flow: str, drafts: list[Draft], kind: str) -> tuple[str, ...]:
    """A note on a list in which some steps have `depends`, and several do not."""
    loose = [draft.name for draft in drafts if draft.depends is None]
    if kind or len(loose) < 2 or len(loose) == len(drafts):
        return ()
    names = ", ".join(f'"{name}"' for name in loose)
    told = f"steps {names} of flow {flow} have no `depends` and start at once, because other steps"
    return (f"{told} of the list have it; write `type: chain` to run the list in order",)
