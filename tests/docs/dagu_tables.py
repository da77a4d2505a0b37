"""The tables of docs/dagu.md as the code has them; as a module, it prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.flows.words import TABLES

if TYPE_CHECKING:
    from duebook.flows.words import Table

__all__ = ["tables"]


def tables() -> str:
    return "\n".join(map(_section, TABLES))


def _section(table: Table) -> str:
    lines = [f"### {table.title}", "", "| key | supported | meaning, or what to do instead |"]
    lines.append("|---|---|---|")
    for word in table.words.values():
        means = word.instead if word.instead is not None else word.means
        if word.same_as is not None and word.same_as == word.means:
            means = f"the same as `{word.same_as}`"
        lines.append(f"| `{word.name}` | {'yes' if word.supported else 'no'} | {means} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(tables())  # noqa: T201 - that is its purpose
