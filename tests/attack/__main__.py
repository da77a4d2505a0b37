"""Every attack in its long form on a node of its own, on both databases: `make attack`.

An attack that is neither refused nor served within its bounds fails by itself. Afterwards the node
must have kept its lease, and begun everything within a second of its due time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.attack import bodies, commands, connections, pages, readers, walls
from tests.attack.stage import COUNTED, Stage, open_stage
from tests.support.postgres import Server

Attack = Callable[[Stage, float], Mapping[str, Any]]

ATTACKS: Final[dict[str, Attack]] = {
    "readers who compute": lambda stage, seconds: readers.run(stage.url, stage.tokens, seconds),
    "bodies that are large or grow": lambda stage, _: bodies.run(stage.url, stage.tokens),
    "connections without a token": lambda stage, seconds: connections.run(stage.url, seconds),
    "pages, cursors and templates": lambda stage, seconds: pages.run(
        stage.url, stage.tokens, seconds
    ),
    "values that would choose what runs": lambda _, seconds: walls.run(int(500 * seconds)),
    "sinks and flows of an admin": lambda stage, _: walls.knock(stage.url, stage.tokens),
    "commands that look for secrets": lambda stage, _: {
        "ways tried": len(
            commands.run(stage.url, stage.tokens["admin"], stage.word, commands.PROCESSES)
        )
    },
}


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def attack(stage: Stage, seconds: float) -> list[str]:
    """Run them all; returns what did not hold."""
    wrong: list[str] = []
    for name, run in ATTACKS.items():
        tell(f"  {name}")
        with stage.watched() as counted:
            try:
                found = run(stage, seconds)
            except AssertionError as error:
                found = {"failed": str(error) or "an assertion without words"}
                wrong.append(f"{name}: {found['failed']}")
        for what, count in found.items():
            tell(f"    {what}: {count:.2f}" if isinstance(count, float) else f"    {what}: {count}")
        told = ", ".join(f"{count:.0f} {what}" for what, count in counted.items())
        tell(f"    the node: {told}")
        wrong += [f"{name}: {counted[what]:g} {what}" for what in COUNTED if counted[what]]
    return wrong


def attack_on(where: str, url: str | None, seconds: float) -> list[str]:
    tell(f"{where}:")
    with (
        tempfile.TemporaryDirectory(prefix="duebook-attack-") as folder,
        open_stage(Path(folder), url) as stage,
    ):
        return [f"{where}: {text}" for text in attack(stage, seconds)]


def main() -> int:
    seconds = float(os.environ.get("SECONDS_EACH") or 20)
    wrong = attack_on("SQLite", None, seconds)
    server = Server()
    try:
        with server.database("template0") as url:
            wrong += attack_on("PostgreSQL", url, seconds)
    finally:
        server.close()
    for text in wrong:
        tell(text)
    tell(f"{len(wrong)} of the promises broken" if wrong else "all held")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
